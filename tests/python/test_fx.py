"""Graphs, code and errors equal torch's (fx_cases.py), and further tests."""
import copy
import json
import pathlib
import pickle
import subprocess
import sys

import cresset as torch
import fx_cases
import pytest
from cresset import fx, nn
from cresset.nn import functional as F

HERE = pathlib.Path(__file__).parent
EXPECTED = json.loads((HERE / "fx_expected.json").read_text())


@pytest.mark.parametrize("name", fx_cases.CASES)
def test_case(name):
    assert fx_cases.run(name) == EXPECTED[name]


PROGRAM = """
import torch, torch.fx
from torch.fx import GraphModule, symbolic_trace
from torch.fx.passes.shape_prop import ShapeProp
from torch.fx.node import map_arg

class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)

    def forward(self, x):
        return torch.relu(self.fc(x))

gm = symbolic_trace(M())
ShapeProp(gm).propagate(torch.ones(3, 2))
assert [tuple(n.meta["tensor_meta"].shape) for n in gm.graph.nodes] == [(3, 2)] * 4
for n in gm.graph.nodes:
    if n.target is torch.relu:
        n.target = torch.ops.aten.sigmoid.default
gm.recompile()
gm.graph.lint()
assert "torch.ops.aten.sigmoid.default(fc)" in gm.code
assert torch.allclose(gm(torch.ones(1, 2)), torch.sigmoid(gm.fc(torch.ones(1, 2))))
print("ran", torch.fx.__name__)
"""


def test_programs_that_say_torch_fx(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    out = subprocess.run([sys.executable, "-m", "cresset", "run", str(script)],
                         capture_output=True, text=True)
    assert (out.returncode, out.stdout, out.stderr) == (0, "ran torch.fx\n", "")


def test_a_graph_module_is_trained():
    torch.manual_seed(0)
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)))
    optimizer = torch.optim.SGD(gm.parameters(), lr=0.1)
    x = torch.randn(8, 3)
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = F.mse_loss(gm(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 5


def test_folders_are_imported(tmp_path, monkeypatch):
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)))
    gm.to_folder(tmp_path / "folder", "Folder")
    script = tmp_path / "script.py"
    script.write_text("import torch\nfrom folder import Folder\n"
                      "print(Folder()(torch.ones(1, 2)).shape)\n")
    out = subprocess.run([sys.executable, "-m", "cresset", "run", str(script)],
                         capture_output=True, text=True)
    assert out.stdout == "torch.Size([1, 1])\n", out.stderr


def test_tracing_does_not_change_modules():
    call, getattribute = nn.Module.__call__, nn.Module.__getattr__
    before = dict(vars(nn.Module))
    with pytest.raises(fx.proxy.TraceError):
        fx.symbolic_trace(lambda x: 1 if x else 2)
    assert dict(vars(nn.Module)) == before
    assert nn.Module.__call__ is call and nn.Module.__getattr__ is getattribute
    layer = nn.Linear(2, 2)
    assert layer.weight is layer._parameters["weight"]
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'nope'"):
        layer.nope


def test_asserts_can_be_traced():
    names = {}
    exec("def f(x):\n    assert x.sum() > 1\n    return x\n", names)  # pytest rewrites assertions of test files
    tracer = fx.Tracer()
    tracer.trace_asserts = True
    gm = fx.GraphModule({}, tracer.trace(names["f"]))
    assert [n.name for n in gm.graph.nodes] == ["x", "sum_1", "gt", "assert_fn", "output"]
    assert gm(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises(AssertionError):
        gm(torch.zeros(2))


def test_nodes_are_ordered_after_changes():
    g = fx.Graph()
    nodes = [g.placeholder(f"p{i}") for i in range(6)]
    assert sorted(reversed(nodes)) == nodes
    nodes[5].append(nodes[0])
    nodes[3].prepend(nodes[4])
    expected = [nodes[i] for i in (1, 2, 4, 3, 5, 0)]
    assert list(g.nodes) == expected and sorted(nodes) == expected
    assert nodes[0] > nodes[5] >= nodes[5] and nodes[4] <= nodes[3]


def test_nodes_may_be_erased_and_added_while_iterating():
    gm = fx.symbolic_trace(lambda x: torch.relu(torch.relu(torch.relu(x))))
    for n in gm.graph.nodes:
        if n.target is torch.relu:
            with gm.graph.inserting_after(n):
                new = gm.graph.call_function(torch.neg, n.args)
            n.replace_all_uses_with(new)
            gm.graph.erase_node(n)
    gm.recompile()
    assert gm(torch.ones(1)).item() == -1 and len(gm.graph.nodes) == 5


def test_replace_hooks_see_changes():
    gm = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    relu, add = list(gm.graph.nodes)[1:3]
    seen = []
    with gm._set_replace_hook(lambda old, new, user: seen.append((old.name, new, user.name))):
        relu.replace_all_uses_with(relu.args[0])
    add.replace_input_with(relu.args[0], relu)
    assert seen == [("relu", "x", "add")]


# Functions of nn.functional are C objects that look like functions.

def test_overridable_functions_look_like_functions():
    import inspect
    assert F.relu.__name__ == "relu" and F.relu.__module__ == "cresset.nn.functional"
    assert str(inspect.signature(F.relu)) == "(input, inplace=False)"
    assert repr(F.relu).startswith("<function relu at ")
    assert "def relu(" in inspect.getsource(F.relu)
    assert pickle.loads(pickle.dumps(F.relu)) is F.relu and copy.deepcopy(F.relu) is F.relu
    F.relu.mark = 3
    assert F.relu.__wrapped__.mark == 3
    del F.relu.__wrapped__.mark


def test_modes_see_functions_of_nn():
    from cresset.overrides import TorchFunctionMode
    seen = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func.__name__, len(args), sorted(kwargs or {})))
            return func(*args, **(kwargs or {}))
    with Watch():
        F.relu(torch.ones(2), True)
        torch.split(torch.ones(2), 1)
    assert seen[:2] == [("ones", 1, []), ("relu", 1, ["inplace"])]
    assert ("split", 2, ["dim"]) in seen


def test_subclasses_keep_their_class():
    class Sub(torch.Tensor):
        pass
    assert type(F.relu(torch.ones(2).as_subclass(Sub))) is Sub
    assert type(F.dropout(torch.ones(2).as_subclass(Sub), 0.5, True)) is Sub


class Anything:
    """Handles every call with it as an argument."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__


@pytest.mark.parametrize("call, name", [
    (lambda a: torch.zeros(a), "zeros"), (lambda a: torch.zeros(2, a), "zeros"),
    (lambda a: torch.zeros((a, 2)), "zeros"), (lambda a: torch.ones(2).view(a), "view"),
    (lambda a: torch.sum(torch.ones(2), a), "sum"), (lambda a: torch.full((1,), a), "full"),
    (lambda a: torch.ones(2)[a], "__getitem__"), (lambda a: torch.ones(2)[0, a], "__getitem__"),
    (lambda a: torch.ones(2).type_as(a), "type_as"), (lambda a: torch.numel(a), "numel"),
    (lambda a: F.pad(torch.ones(2), a), "pad"), (lambda a: F.relu(a), "relu"),
    (lambda a: torch.nn.functional.layer_norm(a, (2,)), "layer_norm"),
    (lambda a: torch.ops.aten.add.Scalar(torch.ones(2), a), "add.Scalar"),
    (lambda a: torch.ops.aten.relu(a), "relu")])
def test_objects_that_are_no_tensors_handle_calls(call, name):
    assert call(Anything()) == name


def test_objects_without_a_handler_are_refused_as_before():
    with pytest.raises(TypeError, match="must be tuple of ints"):
        torch.zeros((object(), 2))
    with pytest.raises((TypeError, IndexError)):
        torch.ones(2)[object()]


# Operators by torch's overloads.

def test_overloads_are_pickled_and_compared():
    add = torch.ops.aten.add.Tensor
    assert pickle.loads(pickle.dumps(add)) is add
    assert pickle.loads(pickle.dumps(torch.ops.aten.add)) is torch.ops.aten.add
    assert add is not torch.ops.aten.add.Scalar and hash(add) == hash(torch.ops.aten.add.Tensor)


def test_every_overload_has_a_schema_and_an_operator():
    from cresset import _C
    names = [n for n in dir(_C.ops) if not n.startswith("__") and "::" not in n]
    count = 0
    for name in names:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            op = getattr(packet, overload)
            text = str(op._schema)
            assert text.startswith(f"aten::{name}") and op.name() in text
            assert [a.name for a in op._schema.arguments if not a.has_default_value()] is not None
            count += 1
    assert count > len(names)


def test_names_of_functions_are_importable():
    for function in (F.linear, F.gelu, F.conv2d, torch.linalg.inv, torch.fft.fft, torch.add):
        assert pickle.loads(pickle.dumps(function)) is function


# Recording operators.

def test_recorded_backward():
    from cresset.fx.experimental.proxy_tensor import make_fx
    layer = nn.Linear(3, 2)

    def gradient(x, w):
        return torch.autograd.grad(F.linear(x, w, layer.bias).tanh().square().sum(), w)
    x, w = torch.randn(4, 3), torch.randn(2, 3, requires_grad=True)
    gm = make_fx(gradient)(x, w)
    other, v = torch.randn(4, 3), torch.randn(2, 3, requires_grad=True)
    assert torch.equal(gm(other, v)[0], gradient(other, v)[0])
    assert gm._param_constant0 is layer.bias
    assert {n.op for n in gm.graph.nodes} == {"placeholder", "get_attr", "call_function", "output"}


@pytest.mark.parametrize("make", [
    lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(36, 2)).eval(),
    lambda: nn.Sequential(nn.Flatten(2), nn.TransformerEncoderLayer(64, 4, 16, dropout=0.0)),
    lambda: nn.Sequential(nn.Flatten(2), nn.GRU(64, 3))])
def test_recorded_modules(make):
    from cresset.fx.experimental.proxy_tensor import make_fx
    torch.manual_seed(0)
    module = make()
    gm = make_fx(module)(torch.randn(2, 3, 8, 8))
    x = torch.randn(2, 3, 8, 8)
    for a, b in zip(torch.utils._pytree.tree_leaves(gm(x)),
                    torch.utils._pytree.tree_leaves(module(x))):
        assert torch.equal(a, b)
    assert all(isinstance(n.target, torch._ops.OpOverload) or n.target.__name__ == "getitem"
               for n in gm.graph.nodes if n.op == "call_function")


# Random programs: transformations that keep a graph's meaning keep its results.

def draw(seed):
    """Returns a random function of two 3x3 tensors."""
    import random
    rng = random.Random(seed)
    steps = [
        lambda a, b: a + b, lambda a, b: a * 2 - b, lambda a, b: torch.relu(a), lambda a, b: a @ b,
        lambda a, b: F.softmax(a, dim=-1), lambda a, b: torch.cat([a, b])[1:4], lambda a, b: -a.t(),
        lambda a, b: torch.where(a > b, a, b), lambda a, b: a.sum(0, keepdim=True) / 3 + b,
        lambda a, b: torch.max(a, 1)[0] + b, lambda a, b: torch.chunk(a, 3)[1] * b,
        lambda a, b: F.layer_norm(a, (3,)), lambda a, b: a.reshape(b.shape[0], -1)]
    plan = [(rng.choice(steps), rng.random(), rng.random()) for _ in range(rng.randint(3, 25))]

    def program(x, y):
        values = [x, y]
        for step, i, j in plan:
            values.append(step(values[int(i * len(values))], values[int(j * len(values))]))
        return values[-1], [values[-2], {"k": values[len(values) // 2]}]
    return program, rng


def outputs(function, *args):
    a, (b, c) = function(*args)
    return a, b, c["k"]


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    from cresset.fx.experimental.proxy_tensor import make_fx
    from cresset.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from cresset.fx.passes.operator_support import create_op_support
    from cresset.fx.passes.split_module import split_module
    program, rng = draw(seed)
    torch.manual_seed(seed)
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    want = outputs(program, x, y)
    gm = fx.symbolic_trace(program)
    gm.graph.lint()
    parts = dict(zip(gm.graph.nodes, sorted(rng.randint(0, 2) for _ in gm.graph.nodes)))
    taken = {n.name for n in gm.graph.nodes if rng.random() < 0.6}
    support = create_op_support(lambda modules, n: n.op == "call_function" and n.name in taken)
    changed = copy.deepcopy(gm)
    changed.graph.eliminate_dead_code()
    changed.recompile()
    fused = CapabilityBasedPartitioner(copy.deepcopy(gm), support).partition_and_fuse()
    for name, made in {
            "code": gm, "interpreter": fx.Interpreter(gm).run, "copy": copy.deepcopy(gm),
            "pickle": pickle.loads(pickle.dumps(gm)), "transformer": fx.Transformer(gm).transform(),
            "dead code": changed, "split": split_module(gm, None, parts.get), "fused": fused,
            "operators": make_fx(program)(x, y), "operators of code": make_fx(gm.forward)(x, y),
            }.items():
        got = outputs(made, x, y)
        assert all(map(torch.equal, got, want)), name


@pytest.mark.parametrize("name", ["add", "sub", "rsub"])
def test_alpha_of_a_scalar_overload_has_a_place(name):
    x, overload = torch.tensor([1.0, 2.0]), getattr(torch.ops.aten, name).Scalar
    assert torch.equal(overload(x, 2, 3), overload(x, 2, alpha=3)) and not torch.equal(overload(x, 2, 3), overload(x, 2))
    assert str(overload._schema) == f"aten::{name}.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor"
    with pytest.raises(RuntimeError, match="expected at most 3 argument"):
        overload(x, 2, 3, 4)


def test_tracers_of_libraries_replace_methods_by_themselves():
    """torch_geometric traces with the patcher and nn.Module's own methods."""
    from cresset.fx import _symbolic_trace as steps

    @steps.compatibility(is_backward_compatible=False)
    class Leaves(torch.fx.Tracer):
        def trace(self, root):
            self.root, self.graph = root, torch.fx.Graph(tracer_cls=Leaves)
            self.submodule_paths = {module: name for name, module in root.named_modules()}
            self.tensor_attrs = {value: name for name, value in vars(root).items()
                                 if isinstance(value, (torch.Tensor, steps.ScriptObject))}
            function, args = self.create_args_for_root(type(root).forward, True)
            cache = {}

            def read(module, name):
                return self.getattr(name, steps._orig_module_getattr(module, name), cache)

            def call(module, *args, **kwargs):
                return self.call_module(module, lambda *a, **k: steps._orig_module_call(module, *a, **k), args, kwargs)
            with steps._Patcher() as patcher:
                patcher.patch_method(torch.nn.Module, "__getattr__", read, deduplicate=False)
                patcher.patch_method(torch.nn.Module, "__call__", call, deduplicate=False)
                self.create_node("output", "output", (self.create_arg(function(*args)),), {})
            return self.graph

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.w = torch.nn.Linear(3, 2), torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            return self.a(x).relu() * self.w
    net = Net()
    traced = torch.fx.GraphModule(net, Leaves().trace(net))
    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_module", "call_method", "get_attr", "call_function", "output"]
    x = torch.randn(4, 3)
    assert torch.equal(traced(x), net(x)) and torch.nn.Module.__getattr__ is steps._orig_module_getattr
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'missing'"):
        net.missing
