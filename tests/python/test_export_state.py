"""Names of placeholders, the state of exported modules, and what export() leaves of the module that it called."""
import io
from collections import deque

import cresset as torch
import pytest
from cresset import nn
from cresset.export import Dim, export, load, save

X, Y, Z = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0, 6.0]), torch.tensor([-1.0, 0.5, 2.0])


def again(program):
    buffer = io.BytesIO()
    save(program, buffer)
    loaded = load(io.BytesIO(buffer.getvalue()))
    assert str(loaded) == str(program)
    return loaded


class Builtins(nn.Module):
    def forward(self, input, id, max):
        return input * id + max


class Upper(nn.Module):
    def forward(self, x, X, x_1):
        return x * X + x_1


class Paths(nn.Module):
    def __init__(self):
        super().__init__()
        self.a_b = nn.Parameter(torch.ones(3))
        self.a = nn.Module()
        self.a.b = nn.Parameter(torch.ones(3) * 2)
        self.x = nn.Parameter(torch.ones(3) * 4)

    def forward(self, x, p_a_b):
        return x * self.a_b + self.a.b * p_a_b + self.x


class Keys(nn.Module):
    def forward(self, d, d_k):
        return d["k"] - d_k


class Operators(nn.Module):
    def forward(self, add, mul, add_1):
        return (add + mul) * add + add_1


# (module, arguments, names of the inputs in torch 2.13)
NAMED = {
    "builtins": (Builtins, (X, Y, Z), ["input", "id", "max"]),
    "upper": (Upper, (X, Y, Z), ["x", "x_1", "x_1_1"]),
    "paths": (Paths, (X, Y), ["p_a_b_1", "p_x", "p_a_b_2", "x", "p_a_b"]),
    "keys": (Keys, ({"k": X}, Y), ["d_k", "d_k_1"]),
    "operators": (Operators, (X, Y, Z), ["add", "mul", "add_1"]),
    "layer": (lambda: nn.Linear(3, 2), (X,), ["p_weight", "p_bias", "input"]),
    "layers": (lambda: nn.Sequential(nn.Linear(3, 2), nn.ReLU()), (X,), ["p_0_weight", "p_0_bias", "input"]),
}


@pytest.mark.parametrize("case", NAMED)
def test_names_of_inputs(case):
    make, args, names = NAMED[case]
    module = make()
    program = export(module, args)
    for p in (program, again(program), again(program.run_decompositions())):
        nodes = [n for n in p.graph.nodes if n.op == "placeholder"]
        assert [n.name for n in nodes] == [n.target for n in nodes] == names
        assert [s.arg.name for s in p.graph_signature.input_specs] == names
        assert torch.equal(p.module()(*args), module(*args))


def test_text_of_builtin_names():
    text = str(export(Builtins(), (X, Y, Z)))  # as torch 2.13 prints it
    assert 'def forward(self, input: "f32[3]", id: "f32[3]", max: "f32[3]"):\n            input_1 = input\n' in text
    assert "torch.ops.aten.mul.Tensor(input_1, id_1)" in text and "input: USER_INPUT\n    id: USER_INPUT" in text


class Kinds(nn.Module):
    """A parameter, buffers of both kinds and a constant."""

    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.ones(3))
        self.register_buffer("kept", torch.ones(3))
        self.inner = nn.Module()
        self.inner.register_buffer("b", torch.zeros(3), persistent=False)
        self.k = torch.full((3,), 2.0)

    def forward(self, x):
        return x * self.p + self.inner.b + self.k + self.kept + torch.tensor([1.0, 2.0, 3.0])


def test_state_is_that_of_the_module():
    module = Kinds()
    program = export(module, (X,))
    for p in (program, again(program), program.run_decompositions()):
        made = p.module()
        assert set(made.state_dict()) == set(p.state_dict) == {"p", "kept"}
        assert {"inner.b", "k", "kept"} <= set(dict(made.named_buffers()))
        assert str(made.load_state_dict({"p": torch.ones(3) * 3, "kept": torch.zeros(3)})) == "<All keys matched successfully>"
        assert torch.equal(made(X), X * 3 + 2 + torch.tensor([1.0, 2.0, 3.0]))
        made.load_state_dict(module.state_dict() if made.p is not module.p else Kinds().state_dict())


# (function, strides of the result after run_decompositions() in torch 2.13) for x of (2, 3, 2, 2)
LAYOUTS = {
    "contiguous": (lambda x: x.transpose(0, 1).contiguous(), (8, 4, 2, 1)),
    "view": (lambda x: x.transpose(0, 1).contiguous().view(3, -1), (8, 1)),
    "channels_last": (lambda x: x.contiguous(memory_format=torch.channels_last), (12, 1, 6, 3)),
    "elements": (lambda x: x.contiguous(memory_format=torch.channels_last).as_strided((6,), (1,)), (1,)),
    "back": (lambda x: x.contiguous(memory_format=torch.channels_last).contiguous(), (12, 4, 2, 1)),
}


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("case", LAYOUTS)
def test_layouts_after_decompositions(case):
    function, strides = LAYOUTS[case]
    x = torch.arange(24.0).view(2, 3, 2, 2)
    found = export(Function(function), (x,)).run_decompositions().module()(x)
    assert found.stride() == strides == function(x).stride() and torch.equal(found, function(x))


@pytest.mark.parametrize("training", [False, True])
def test_transformer_layers_are_decomposed(training):
    x = torch.randn(2, 4, 8)
    for layer, args in ((nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), (x,)),
                        (nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True), (x, x))):
        layer.train(training)
        program = export(layer, args).run_decompositions()
        assert (program.module()(*args) - layer(*args)).abs().max() < 1e-5
        vals = [n.meta["val"] for n in program.graph.nodes if n.op == "call_function"]
        got = []

        class Strides(torch.fx.Interpreter):
            def call_function(self, *call):
                got.append(super().call_function(*call))
                return got[-1]
        Strides(program.graph_module).run(*[program.state_dict[s.target] for s in program.graph_signature.input_specs if s.target], *args)
        for val, real in zip(vals, got, strict=True):
            for a, b in zip(*[v if isinstance(v, (tuple, list)) else [v] for v in (val, real)], strict=True):
                assert tuple(a.shape) == tuple(b.shape) and tuple(a.stride()) == tuple(b.stride())


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.cache, self.nested = [], {"first": 1}, {"list": [0], "pair": ([], {2})}
        self.last, self.child = deque([3], maxlen=2), nn.ReLU()
        self.child.seen = []

    def forward(self, x):
        self.calls.append(x)
        self.cache["x"] = x * 2
        self.cache.pop("first")
        self.nested["list"][0] = x
        self.nested["pair"][0].append(x)
        self.nested["pair"][1].add("x")
        self.last.extend([x, x])
        self.child.seen.append(x)
        if x.sum() > 0 if self.refused else False:
            return x
        return self.child(x)

    refused = False


@pytest.mark.parametrize("refused", [False, True])
def test_containers_of_the_module_stay(refused):
    module = Containers()
    module.refused = refused
    calls, pair = module.calls, module.nested["pair"]
    if refused:
        with pytest.raises(Exception, match="data-dependent"):
            export(module, (X,))
    else:
        assert torch.equal(export(module, (X,)).module()(Z), Z.relu())
    assert module.calls is calls and calls == [] and module.cache == {"first": 1}
    assert module.nested == {"list": [0], "pair": ([], {2})} and module.nested["pair"] is pair
    assert list(module.last) == [3] and module.child.seen == []


class Grad(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)


class Part(Grad):
    def forward(self, x):
        with torch.no_grad():
            h = self.l(x)
        return h + self.l(x)


class Inference(Grad):
    def forward(self, x):
        h = self.l(x)
        with torch.inference_mode():
            return h * 2


class Whole(Grad):
    @torch.no_grad()
    def forward(self, x):
        return self.l(x) * 2


class Other(Grad):
    """What runs under no_grad needs no gradients, or makes none."""

    def forward(self, x):
        with torch.no_grad():
            h = torch.arange(3.0) * x + self.l.weight.detach().sum()
            most = self.l.weight.argmax()
        return self.l(x) + h + most


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Applied(Grad):
    def forward(self, x):
        return Own.apply(self.l(x))


class Both(Grad):
    """Regions at the start, in a row, inside of one another and with sizes and writes in them."""

    def forward(self, x):
        with torch.no_grad():
            a = self.l(x)
            a.mul_(2)
            with torch.enable_grad():
                b = self.l(a) * a.shape[0]
            top, at = a.topk(2)
        c = b + a
        with torch.no_grad():
            d = c.sum(0) / x.shape[0]
        return c * d, top, at


def gradients(module, leaves, x):
    for leaf in leaves:
        leaf.grad = None
    x = x.clone().requires_grad_()
    out = module(x)
    results = out if isinstance(out, tuple) else (out,)
    if any(r.requires_grad for r in results):
        sum(r.sum() for r in results if r.requires_grad).backward()
    return [r.requires_grad for r in results], [x.grad, *(leaf.grad for leaf in leaves)], [r.detach().clone() for r in results]


def same(a, b):
    return a is b if a is None or b is None else torch.equal(a, b)


ROWS = torch.randn(4, 3)


@pytest.mark.parametrize("varies", [False, True])
@pytest.mark.parametrize("make", [Part, Inference, Both])
def test_changes_of_grad_mode_are_calls_of_subgraphs(make, varies, tmp_path):
    module = make()
    program = export(module, (ROWS,), dynamic_shapes=({0: Dim("n", min=2)},) if varies else None)
    torch.export.save(program, tmp_path / "p.pt2")
    assert "torch.ops.higher_order.wrap_with_set_grad_enabled(False, submod_" in program.graph_module.code
    assert not any("_grad_enabled" in n.meta for n in program.graph.nodes)
    again = export(program.module(), (ROWS,), dynamic_shapes=({0: Dim("n", min=2)},) if varies else None)
    for n in (len(ROWS), 5) if varies else (len(ROWS),):
        x = torch.randn(n, 3)
        flags, wanted, results = gradients(module, list(module.parameters()), x)
        for found in (program.module(), torch.export.load(tmp_path / "p.pt2").module(), torch.export.unflatten(program), again.module()):
            have = gradients(found, list(found.parameters()), x)
            assert have[0] == flags
            assert all(map(same, have[1], wanted)) and all(map(same, have[2], results))
    if not varies:
        plain = program.run_decompositions()
        assert "higher_order" not in plain.graph_module.code
        assert all(map(same, gradients(plain.module(), [], ROWS)[2], gradients(module, [], ROWS)[2]))


class InBranch(Grad):
    def forward(self, x):
        def branch(x):
            with torch.no_grad():
                return self.l(x)
        return torch.cond(x.sum() > 0, branch, lambda x: x * 1, (self.l(x),))


def test_changes_of_grad_mode_that_are_refused_in_training():
    """Those in branches, and those of calls whose signatures the program keeps."""
    with pytest.raises(torch._dynamo.exc.UserError, match=r"changes the grad mode .*test_export_state.py:\d+ in (forward|branch)"):
        export(InBranch(), (torch.ones(3, 3),))
    with pytest.raises(torch._dynamo.exc.UserError, match=r"changes the grad mode .*test_export_state.py:\d+ in forward"):
        export(Part(), (X,), preserve_module_call_signature=("l",))
    module = Part().eval()
    assert torch.equal(export(module, (X,), preserve_module_call_signature=("l",)).module()(X), module(X))


class Derivative(Grad):
    def forward(self, x):
        y = self.l(x)
        return y + torch.autograd.grad((y ** 2).sum(), self.l.bias, create_graph=False, retain_graph=True)[0]


@pytest.mark.parametrize("make", [Whole, Other, Applied, Derivative])
def test_grad_modes_that_lose_nothing(make):
    module = make()
    assert torch.equal(export(module, (X,)).module()(X), module(X))


@pytest.mark.parametrize("make,at", [(lambda: nn.MultiheadAttention(6, 2).eval(), ({1: 0}, {1: 0}, {1: 0})),
                                     (lambda: nn.LSTM(6, 5), ({0: 0},))])
def test_sizes_that_cannot_vary_are_fixed_by_auto(make, at):
    module, v = make(), torch.randn(4, 6)
    shapes = tuple({d: torch.export.Dim.AUTO for d in dims} for dims in at)
    program = export(module, (v,) * len(at), dynamic_shapes=shapes)
    assert torch.equal(program.module()(*(v,) * len(at))[0], module(*(v,) * len(at))[0]) and not program.range_constraints
    if len(at) == 1:
        with pytest.raises(torch._dynamo.exc.UserError, match="Constraints violated"):
            export(module, (v,), dynamic_shapes=({0: torch.export.Dim("steps")},))


class Excluded(nn.Module):
    def forward(self, x):
        return x + 1 if x.shape[0] != 1000 else x


def test_a_size_that_the_program_excludes():
    x = torch.ones(4, 2)
    with pytest.raises(torch._dynamo.exc.UserError) as error:
        export(Excluded(), (x,), dynamic_shapes=({0: torch.export.Dim("d")},))
    assert ("Constraints violated (d)! For more information, run with TORCH_LOGS=\"+dynamic\".\n  - Not all values of d = "
            "L['x'].size()[0] in the specified range satisfy the generated guard L['x'].size()[0] != 1000.\n") in str(error.value)
    program = export(Excluded(), (x,), dynamic_shapes=({0: torch.export.Dim("d", max=64)},))
    assert torch.equal(program.module()(torch.ones(9, 2)), torch.ones(9, 2) * 2)


def test_a_size_of_one_is_not_of_the_range():
    module, x = nn.BatchNorm1d(2), torch.arange(8.0).view(4, 2)  # in training it refuses a batch of one
    program = export(module, (x,), dynamic_shapes={"input": {0: torch.export.Dim("batch")}})
    assert torch.equal(program.module()(x[:3]), nn.BatchNorm1d(2)(x[:3]))
