"""torch.export.unflatten: the modules of a program compute what the exported module and its parts compute."""
import copy
import io
import random
from dataclasses import dataclass

import cresset as torch
import pytest
from cresset import nn
from cresset.export import Dim, FlatArgsAdapter, export, load, register_dataclass, save, unflatten
from cresset.utils._pytree import tree_leaves


class Shared(nn.Module):
    """A module with three paths, called four times."""

    def __init__(self):
        super().__init__()
        self.l, self.r = nn.Linear(3, 3), nn.ReLU()
        self.sub = nn.Sequential(self.l, self.r, self.l)

    def forward(self, x):
        return self.sub(self.r(self.l(x))) + self.sub(x)


class Reaching(nn.Module):
    """Modules that read tensors of others, and write their own buffer."""

    class Part(nn.Module):
        def __init__(self, other):
            super().__init__()
            self.register_buffer("seen", torch.zeros(3))
            self.weight, self.others = nn.Parameter(torch.randn(3)), (other,)

        def forward(self, x, scale=1.0):
            self.seen.add_(x.detach().sum(0))
            y = x * self.weight + self.seen
            return y + self.others[0].weight if self.others[0] is not None else y * scale

    def __init__(self):
        super().__init__()
        self.a = self.Part(None)
        self.b = self.Part(self.a)

    def forward(self, x):
        x = x + self.b.seen
        return self.b(self.a(x, scale=2.0)) * self.a.weight


class Twice(nn.Module):
    """A module whose two calls have different graphs."""

    class Switch(nn.Module):
        def forward(self, x, negate):
            return -x if negate else x * 2

    def __init__(self):
        super().__init__()
        self.s = self.Switch()

    def forward(self, x):
        return self.s(self.s(x, True), False)


class Outside(nn.Module):
    """A module that is called where it is not inside of the module that calls it."""

    def __init__(self):
        super().__init__()
        self.d = nn.Tanh()
        self.b = nn.Sequential(nn.Linear(3, 3))
        self.b[0].register_forward_hook(lambda m, args, out: self.d(out) + 1)

    def forward(self, x):
        return self.b(x)


MODELS = {"sequential": (lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 2), nn.Tanh())), (5, 3)),
          "shared": (Shared, (2, 3)), "reaching": (Reaching, (2, 3)), "twice": (Twice, (2, 3)), "outside": (Outside, (2, 3)),
          "norms": (lambda: nn.Sequential(nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(12, 2)), (4, 1, 3, 3)),
          "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True), 2), (2, 3, 8)),
          "lstm": (lambda: nn.LSTM(4, 3, 2), (5, 2, 4))}


def equal(a, b):
    a, b = tree_leaves(a), tree_leaves(b)
    return len(a) == len(b) and all(map(torch.equal, a, b))


def same_state(a, b):
    a, b = a.state_dict(), b.state_dict()
    return list(a) == list(b) and all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_results_and_state_are_the_modules(name, decomposed):
    make, size = MODELS[name]
    torch.manual_seed(0)
    module = make()
    program = export(copy.deepcopy(module), (torch.randn(size),)) if name not in ("reaching", "outside", "shared") else \
        export(module, (torch.randn(size),))
    module = copy.deepcopy(module) if name not in ("reaching", "outside", "shared") else module
    state = {k: v.clone() for k, v in module.state_dict().items()}
    if decomposed:
        program = program.run_decompositions()
    new = unflatten(program)
    found, wanted = [], []
    inputs = [torch.randn(size), torch.randn(size)]
    for x in inputs:
        found.append(new(x))
    after = {k: v.clone() for k, v in new.state_dict().items()}
    assert all(torch.equal(program.state_dict[k], state[k]) for k in state)  # the program's own state is another
    for x in inputs:
        wanted.append(module(x))
    assert equal(found, wanted)
    assert list(after) == list(module.state_dict()) and all(torch.equal(after[k], v) for k, v in module.state_dict().items())


def test_parts_compute_what_the_originals_compute():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)), nn.Softmax(-1))
    new = unflatten(export(module, (torch.randn(5, 3),)))
    assert [n for n, _ in new.named_modules()] == [n for n, _ in module.named_modules()]
    x = torch.randn(5, 3)
    for path in ("0", "1.0", "1.1", "2"):
        part = module.get_submodule(path)
        x = part(x)
        before = torch.randn(5, {"0": 3, "1.0": 4, "1.1": 4, "2": 2}[path])
        assert torch.equal(new.get_submodule(path)(before), part(before))
        assert new.get_submodule(path).type_name() == f"torch.nn.modules.{type(part).__module__.rpartition('.')[2]}.{type(part).__name__}"


def test_graphs_call_modules_as_torch_prints_them():
    new = unflatten(export(Shared(), (torch.randn(2, 3),)))
    assert str(new.graph) == """graph():
    %x : [num_users=2] = placeholder[target=x]
    %l : [num_users=1] = call_module[target=l](args = (%x,), kwargs = {})
    %r : [num_users=1] = call_module[target=r](args = (%l,), kwargs = {})
    %sub : [num_users=1] = call_module[target=sub](args = (%r,), kwargs = {})
    %sub_1 : [num_users=1] = call_module[target=sub](args = (%x,), kwargs = {})
    %add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (%sub, %sub_1), kwargs = {})
    return (add,)"""
    assert str(new) == """UnflattenedModule(
  (l): InterpreterModule()
  (r): InterpreterModule()
  (sub): InterpreterModule(
    (0): InterpreterModule()
    (1): InterpreterModule()
    (2): InterpreterModule()
  )
)"""
    assert new.sub.get_submodule("0") is new.l and new.sub.get_submodule("2") is new.l
    assert new.l.weight is dict(new.named_parameters(remove_duplicate=False))["sub.2.weight"]


def test_calls_of_a_module_are_numbered():
    nodes = [n for n in export(Shared(), (torch.randn(2, 3),)).graph.nodes if n.op == "call_function"]
    assert [list(n.meta["nn_module_stack"])[-1] for n in nodes] == [
        "L__self__l", "L__self__r", "L__self__sub.0", "L__self__sub.1", "L__self__sub.2", "L__self__sub.0@1", "L__self__sub.1@1",
        "L__self__sub.2@1", "L__self__"]


def test_different_calls_are_different_modules():
    new = unflatten(export(Twice(), (torch.randn(2, 3),)))
    assert [n for n, _ in new.named_modules()] == ["", "s", "s@1"]
    x = torch.randn(2, 3)
    assert torch.equal(new.s(x), -x) and torch.equal(new.get_submodule("s@1")(x), x * 2)


# --- kept signatures ---

@dataclass
class Pair:
    first: torch.Tensor
    second: torch.Tensor


register_dataclass(Pair)


class Nested(nn.Module):
    def forward(self, zx, y, *, factor=1):
        return {"x": y["key"] + zx[1], "w": [y["key"] * zx[1] * factor, zx[0]]}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.nested = Nested()

    def forward(self, x, y):
        z = torch.ones_like(x)
        out = self.nested((z, x), y={"key": y}, factor=3)
        return out["w"][0] + out["w"][1] - out["x"]


def test_a_kept_signature_is_the_originals():
    module, args = Outer(), (torch.randn(2, 3), torch.randn(2, 3))
    program = export(module, args, preserve_module_call_signature=("nested",))
    assert [e.fqn for e in program.module_call_graph if e.signature] == ["", "nested"]
    new = unflatten(program)
    want = module(*args)
    assert torch.equal(new(*args), want)
    out = new.nested((args[0], args[1]), y={"key": args[0]}, factor=3)
    assert equal(out, module.nested((args[0], args[1]), y={"key": args[0]}, factor=3)) and list(out) == ["x", "w"]

    class Other(nn.Module):
        def forward(self, zx, y, *, factor):
            return {"x": zx[1] - y["key"], "w": [y["key"] * factor, zx[0]]}
    new.nested = Other()
    assert torch.equal(new(*args), args[1] * 3 + 1 - (args[0] - args[1]))


def test_kept_signatures_are_in_files():
    args = torch.randn(2, 3), torch.randn(2, 3)
    program = export(Outer(), args, preserve_module_call_signature=("nested",))
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    read = load(file)
    assert [str(e) for e in read.module_call_graph] == [str(e) for e in program.module_call_graph]
    assert equal(unflatten(read).nested((args[0], args[1]), y={"key": args[0]}, factor=3),
                 Nested()((args[0], args[1]), y={"key": args[0]}, factor=3))


def test_calls_with_a_kept_signature_take_turns():
    program = export(Twice(), (torch.randn(2, 3),), preserve_module_call_signature=("s",))
    assert [e.fqn for e in program.module_call_graph] == ["", "s", "s@1"]
    new, x = unflatten(program), torch.randn(2, 3)
    assert type(new.s).__name__ == "InterpreterModuleDispatcher" and len(new.s.call_modules()) == 2
    assert torch.equal(new(x), -x * 2) and torch.equal(new(x), -x * 2)
    assert torch.equal(new.s(x, True), -x) and torch.equal(new.s(x, False), x * 2)


class Trees(nn.Module):
    class Part(nn.Module):
        def forward(self, pair, unused):
            return Pair(pair.second * 2, pair.first), unused

    def __init__(self):
        super().__init__()
        self.part = self.Part()

    def forward(self, x):
        values, places = x.topk(2)
        pair, _ = self.part(Pair(values, values + 1), places)
        return pair.first - pair.second


def test_trees_of_programs_and_unused_arguments():
    module, x = Trees(), torch.randn(5)
    program = export(module, (x,), preserve_module_call_signature=("part",))
    program.graph.eliminate_dead_code()
    new = unflatten(program)
    assert torch.equal(new(x), module(x))
    seen = []
    new.part = Trees.Part()
    new.part.register_forward_pre_hook(lambda m, args: seen.append(type(args[0])))
    assert torch.equal(new(x), module(x)) and seen == [Pair]


class Halves(nn.Module):
    class Part(nn.Module):
        def forward(self, x, y):
            return y[:x.size(0) // 2]

    def __init__(self):
        super().__init__()
        self.m1, self.m2 = self.Part(), self.Part()

    def forward(self, x, y):
        return y[x.size(0) // 2:] + self.m1(x, y) + self.m2(x, y)


def test_sizes_cross_borders():
    size = 2 * Dim("half", max=1000)
    module, args = Halves(), (torch.randn(10), torch.randn(10))
    program = export(module, args, dynamic_shapes=((size,), (size,)), preserve_module_call_signature=("m1",))
    new = unflatten(program)
    for n in (10, 4, 26):
        args = torch.randn(n), torch.randn(n)
        assert torch.equal(new(*args), module(*args)) and torch.equal(new.m1(*args), module.m1(*args))


class Leaking(nn.Module):
    class Part(nn.Module):
        def forward(self, x):
            return x + self.other[0]

    def __init__(self):
        super().__init__()
        self.part = self.Part()

    def forward(self, x):
        self.part.other = [x * 2]
        return self.part(x)


def test_a_kept_signature_without_what_the_call_reads_is_refused():
    x = torch.randn(2)
    assert torch.equal(unflatten(export(Leaking(), (x,)))(x), x + x * 2)
    with pytest.raises(RuntimeError, match=r"a call of part uses mul, which its kept signature does not have as an argument"):
        unflatten(export(Leaking(), (x,), preserve_module_call_signature=("part",)))


# --- arguments ---

class Named(nn.Module):
    def forward(self, x, y, *, k, n=3):
        return x + y["a"][0] + k * n


GIVEN = [(lambda a, b: ((a, {"a": [b]}), {"k": a, "n": 4}), RuntimeError,
          "Expected input at *args[1]['a'][0].shape[0] to be equal to 2, but got 3. If you meant for this dimension to be dynamic, please "
          "re-export and specify dynamic_shapes (e.g. with Dim.DYNAMIC)"),
         (lambda a, b: ((a, {"a": [a]}), {"k": b, "n": 4}), RuntimeError,
          "Expected input at 'k'.shape[0] to be equal to 2, but got 3. If you meant for this dimension to be dynamic, please re-export and "
          "specify dynamic_shapes (e.g. with Dim.DYNAMIC)"),
         (lambda a, b: ((a, {"a": [a]}), {"k": a, "n": 5}), RuntimeError, "Expected input at 'n' to be equal to 4, but got 5"),
         (lambda a, b: ((a[0], {"a": [a]}), {"k": a, "n": 4}), RuntimeError,
          "Unexpected number of dimensions in input at *args[0].shape (expected torch.Size([2, 3]), got torch.Size([3]))"),
         (lambda a, b: ((3, {"a": [a]}), {"k": a, "n": 4}), RuntimeError,
          "Expected input at *args[0] to be a tensor, but got <class 'int'>"),
         (lambda a, b: ((a, {"a": [a]}), {"k": a}), ValueError,
          "Ran into a kwarg keyword mismatch: Got the following keywords ['k'] but expected ['k', 'n']"),
         (lambda a, b: ((a, {"a": [a, a]}), {"k": a, "n": 4}), TypeError,
          "There is no flat args adapter specified. Are you sure you are calling this with the right arguments? ")]


@pytest.mark.parametrize("given,error,text", GIVEN)
def test_other_arguments_are_refused_in_torchs_words(given, error, text):
    a, b = torch.randn(2, 3), torch.randn(3, 3)
    new = unflatten(export(Named(), (a, {"a": [a]}), {"k": a, "n": 4}))
    assert torch.equal(new(a, {"a": [a]}, n=4, k=a), Named()(a, {"a": [a]}, k=a, n=4))
    args, kwargs = given(a, b)
    with pytest.raises(error) as found:
        new(*args, **kwargs)
    assert str(found.value) == text


def test_bounds_of_sizes():
    new = unflatten(export(nn.Linear(3, 2), (torch.randn(4, 3),), dynamic_shapes={"input": {0: Dim("d", min=3, max=8)}}))
    assert new(torch.randn(8, 3)).shape == (8, 2)
    for n, text in ((2, ">= 3, but got 2"), (9, "<= 8, but got 9")):
        with pytest.raises(RuntimeError) as found:
            new(torch.randn(n, 3))
        assert str(found.value) == f"Expected input at *args[0].shape[0] to be {text}"


def test_an_adapter_changes_the_leaves():
    class First(FlatArgsAdapter):
        def adapt(self, target_spec, input_spec, input_args, metadata=None, obj=None):
            return input_args[:target_spec.num_leaves] if drop else input_args
    drop = True
    new, x = unflatten(export(nn.ReLU(), (torch.randn(2),)), First()), torch.randn(2)
    assert torch.equal(new(x, x), x.relu())
    drop = False
    with pytest.raises(TypeError, match="Flat args adaption failed, number of args mismatch"):
        new(x, x)


def test_refusals():
    with pytest.raises(TypeError, match=r"unflatten\(\) takes an ExportedProgram, not Linear"):
        unflatten(nn.Linear(2, 2))
    for path, text in (("no.pe", "Attribute 'no' not found in model"), ("0.x", "Attribute '0.x' not found in model")):
        with pytest.raises(AssertionError) as found:
            export(nn.Sequential(nn.ReLU()), (torch.randn(2),), preserve_module_call_signature=(path,))
        assert str(found.value) == text


class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self):
        return self.weight * 2


def test_a_module_without_arguments():
    program = export(Constant(), ())
    assert torch.equal(unflatten(program)(), torch.full((2,), 2.0))
    program.module_call_graph[0].signature.forward_arg_names = None
    assert torch.equal(unflatten(program)(), torch.full((2,), 2.0))


# --- what programs do with the result ---

def test_training_and_copies():
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.randn(6, 3)
    new = unflatten(export(module, (x,)))
    twin = copy.deepcopy(new)
    steps = {}
    for name, m in (("module", module), ("new", new)):
        sgd = torch.optim.SGD(m.parameters(), lr=0.1)
        for _ in range(3):
            sgd.zero_grad()
            m(x).square().sum().backward()
            sgd.step()
        steps[name] = m(x)
    assert torch.equal(steps["new"], steps["module"]) and same_state(new, module)
    assert not torch.equal(twin(x), steps["new"])


def test_graphs_may_be_changed_before_the_first_call():
    new, x = unflatten(export(nn.Sequential(nn.ReLU(), nn.Tanh()), (torch.randn(3),))), torch.randn(3)
    for node in new.get_submodule("0").graph.nodes:
        if node.target is torch.ops.aten.relu.default:
            node.target = torch.ops.aten.neg.default
    assert torch.equal(new(x), torch.tanh(-x))
    assert "aten.tanh.default" in new.get_submodule("1").print_readable(print_output=False)


def test_symbolic_trace_follows_an_unflattened_module():
    new = unflatten(export(Outer(), (torch.randn(2, 3), torch.randn(2, 3))))
    traced = torch.fx.symbolic_trace(new, concrete_args=(torch.fx.PH, torch.fx.PH))
    args = torch.randn(2, 3), torch.randn(2, 3)
    assert [n.target for n in traced.graph.nodes if n.op == "call_module"] == []
    assert torch.equal(traced(*args), Outer()(*args))


class Drawn(nn.Module):
    """A tree of modules that add to their own and to others' buffers, and call one another's children again."""

    def __init__(self, draw, depth, every):
        super().__init__()
        self.register_buffer("buf", torch.zeros(1))
        self.add, self.every, self.place = draw.randint(1, 9), (every,), len(every)
        every.append(self)
        self.parts = nn.ModuleList(Drawn(draw, depth - 1, every) for _ in range(draw.randint(1, 2) if depth else 0))
        self.steps = [draw.randrange(4) for _ in range(4)]
        self.far = draw.random()

    def forward(self, x):
        x = x + self.buf.add_(self.add)
        for step, part in zip(self.steps, [*self.parts, *self.parts]):
            x = part(x) if step else x * 2 + part.buf
        other = self.every[0][int(self.far * self.place)]
        other.buf.add_(1)
        return x - other.buf


@pytest.mark.parametrize("seed", range(12))
def test_trees_of_modules_that_write_buffers_of_one_another(seed):
    module = Drawn(random.Random(seed), 3, [])
    program = export(module, (torch.ones(2),))
    new = unflatten(program)
    for x in (torch.ones(2), torch.tensor([3., 4.])):
        want = module(x)
        assert torch.equal(new(x), want)
    assert same_state(new, module)
