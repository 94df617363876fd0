"""Texts of graphs, their code and their errors.

`python fx_cases.py record MODULE FILE` writes the texts of a module.  The test imports this
file, which then uses cresset, and compares.  Texts contain no addresses, paths or package
names.
"""
import contextlib
import copy
import importlib
import io
import json
import math
import operator
import pickle
import re
import sys
import tempfile
import warnings
from typing import Dict, List, Optional, Tuple

torch = importlib.import_module(sys.argv[2] if __name__ == "__main__" else "cresset")
fx = importlib.import_module(f"{torch.__name__}.fx")
ShapeProp = importlib.import_module(f"{torch.__name__}.fx.passes.shape_prop").ShapeProp
split_module = importlib.import_module(f"{torch.__name__}.fx.passes.split_module").split_module
nn = torch.nn
F = torch.nn.functional
linear_cases = torch.ones(3)  # a tensor without a module

CASES = {}


def case(function):
    """Registers a case: a function that returns a value or prints."""
    assert function.__name__ not in CASES, function.__name__
    CASES[function.__name__] = function
    return function


def plain(text):
    """Removes text that differs from run to run."""
    text = re.sub(r"0x[0-9a-f]+", "0x", text).replace("__main__", "fx_cases")
    text = re.sub(r"<eval_with_key>\.\d+", "<eval>", text)
    text = re.sub(r"<built-in (?:function|method) (\w+)(?: of type object at 0x)?>", r"<\1>", text)
    text = re.sub(r'File "[^"]*fx_cases.py", line \d+', 'File "fx_cases.py"', text)
    text = re.sub(r"[\w/.-]*fx_cases.py:\d+", "fx_cases.py", text)
    return re.sub(r"\bcresset\b", "torch", text)


def run(name):
    """Returns the text of a case, also of its error."""
    out = io.StringIO()
    torch.manual_seed(0)
    with contextlib.redirect_stdout(out):
        try:
            value = CASES[name]()
            if value is not None:
                print(value)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
    return plain(out.getvalue())


def show(gm):
    """Returns a module's code and graph."""
    return f"{gm.code}\n{gm.graph}"


# Small functions that use values in every way.

t = linear_cases
TRACED = {
    "tensor left": lambda x: t + x,
    "tensor right": lambda x: x + t,
    "method with a proxy": lambda x: t.add(x),
    "proxy in a list of sizes": lambda x: torch.reshape(t, (x, 3)),
    "proxy among sizes": lambda x: torch.zeros(2, x),
    "proxy as the size": lambda x: torch.zeros(x),
    "proxy as a dimension": lambda x: torch.sum(t, x),
    "proxy first among sizes of a method": lambda x: t.view(x, 3),
    "proxy as an index": lambda x: t[x],
    "proxy within an index": lambda x: t[x:, None],
    "number first": lambda x: torch.add(2, x),
    "list of tensors": lambda x: torch.cat([x, t]),
    "fill value": lambda x: torch.full((2,), x),
    "keyword": lambda x: torch.clamp(t, min=x),
    "relu": lambda x: F.relu(x),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "gelu and linear": lambda x: F.gelu(x) + F.linear(x, t),
    "functional softmax": lambda x: F.softmax(x, -1),
    "softmax": lambda x: torch.softmax(x, -1),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "fft": lambda x: torch.fft.fft(x),
    "norm": lambda x: torch.linalg.norm(x),
    "is_floating_point": lambda x: torch.is_floating_point(x),
    "numel": lambda x: torch.numel(x),
    "split": lambda x: torch.split(x, 2),
    "einsum": lambda x: torch.einsum("ij->ji", x),
    "rand_like": lambda x: torch.rand_like(x),
    "dtype and device": lambda x: torch.zeros_like(x, dtype=torch.float64, device="cpu"),
    "to": lambda x: x.to(torch.device("cpu")).to(torch.float16),
    "type_as": lambda x: t.type_as(x),
    "unbound method": lambda x: torch.Tensor.add(x, 1),
    "where": lambda x: torch.where(x > 0, x, -x),
    "cross_entropy": lambda x: F.cross_entropy(x, t),
    "embedding": lambda x: F.embedding(x, t),
    "layer_norm": lambda x: F.layer_norm(x, (3,)),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2),
    "pad": lambda x: F.pad(x, (1, 1)),
    "dropout": lambda x: F.dropout(x, 0.3),
    "one_hot": lambda x: F.one_hot(x),
    "normalize": lambda x: F.normalize(x),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 1),
    "threshold": lambda x: F.threshold(x, 0.1, 20),
    "activations": lambda x: (F.logsigmoid(x) + F.silu(x) + F.leaky_relu(x, 0.2) + F.hardtanh(x)
                              + F.elu_(x)),
    "item of a result": lambda x: torch.max(x, 1)[0],
    "math": lambda x: math.sqrt(x),
    "len": lambda x: len(x),
    "iteration": lambda x: [i for i in x],
    "branch": lambda x: x if x else 1,
    "int": lambda x: int(x),
    "range": lambda x: range(x),
    "keywords": lambda x: dict(**x),
    "containers": lambda x: {"a": x, "b": (x, [x])},
    "rest": lambda x, *a, **k: x,
    "defaults": lambda x, y=2.5, *, z=None: x,
    "sizes": lambda x: x.shape[0] * x.size(1) // 2 ** 3 % 5 @ x,
    "operators": lambda x: 1 - x / 2 << 3 | ~x & 1 ^ x >> 2,
    "abs": lambda x: abs(x),
    "equality": lambda x: x == x,
    "attributes": lambda x: x.a.b.c(x.d),
    "inf and nan": lambda x: float("inf") * x + float("nan"),
    "class as a value": lambda x: x + fx.Proxy,
    "foreign value": lambda x: object() + x,
    "slices": lambda x: x[1:, None, ..., ::2],
    "overload": lambda x: torch.ops.aten.add.Tensor(x, 1) + torch.ops.aten.relu(x),
    "keys that are proxies": lambda x: torch.relu({x: 1, "y": x}),
}


def _traced(function):
    return lambda: show(fx.symbolic_trace(function))


for _name, _function in TRACED.items():
    CASES[f"traced: {_name}"] = _traced(_function)


# Modules.

class Block(nn.Module):
    """A residual block with a buffer, a parameter and a tensor that is neither of them."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 3, padding=1)
        self.bn = nn.BatchNorm2d(3)
        self.relu = nn.ReLU(inplace=True)
        self.w = nn.Parameter(torch.ones(3))
        self.register_buffer("b", torch.ones(1))
        self.k = torch.ones(2)

    def forward(self, x):
        y = self.relu(self.bn(self.conv(x)))
        y = y * self.b + self.k.sum()
        return F.relu(x + y) + self.w.view(1, 3, 1, 1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.seq = nn.Sequential(Block(), nn.Flatten())
        self.fc = nn.Linear(12, 2)

    def forward(self, x, scale: float = 1.0):
        for layer in self.layers:
            x = layer(x)
        out = self.fc(self.seq(x)) * scale
        return out, {"p": out.softmax(-1)}


class NoLeaf(fx.Tracer):
    def is_leaf_module(self, m, module_qualified_name):
        return False


IMAGE = (torch.arange(12.0).reshape(1, 3, 2, 2) / 12).sin()


@case
def sequential():
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
    return f"{show(gm)}\n{gm}"


@case
def residual_network():
    gm = fx.symbolic_trace(Net().eval())
    same = torch.equal(gm(IMAGE)[0], gm(IMAGE)[0])
    return f"{show(gm)}\n{gm}\n{gm.training} {list(gm.state_dict())} {same}"


@case
def encoder_layer_has_branches():
    return show(fx.symbolic_trace(nn.TransformerEncoderLayer(8, 2, 16).eval()))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16)
        self.gru = nn.GRU(8, 3)

    def forward(self, x, h=None):
        y, h = self.gru(self.encoder(x), h)
        return y


@case
def encoder_layer_as_leaf():
    return show(fx.symbolic_trace(Encoder().eval()))


@case
def layers_entered():
    m = nn.Sequential(
        nn.Linear(3, 4), nn.ReLU(), nn.GELU(), nn.Dropout(0.1), nn.LayerNorm(4), nn.Softmax(dim=-1),
        nn.Sigmoid(), nn.Tanh(), nn.LeakyReLU(0.1), nn.Flatten(), nn.Identity(), nn.SiLU(), nn.ELU(),
        nn.Hardtanh(), nn.Softplus(), nn.LogSoftmax(1), nn.ReLU6(), nn.Hardswish(), nn.Mish(),
        nn.GLU(), nn.Threshold(0.1, 2), nn.PReLU(), nn.SELU(), nn.CELU(), nn.Softsign(),
        nn.Tanhshrink(), nn.Softshrink(), nn.Hardsigmoid(), nn.LogSigmoid(), nn.Embedding(3, 4),
        nn.GroupNorm(2, 4), nn.RMSNorm(4), nn.Unflatten(1, (2, 2)), nn.PixelShuffle(2),
        nn.Upsample(scale_factor=2), nn.ZeroPad2d(1), nn.ReflectionPad2d(1), nn.AvgPool2d(2),
        nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d(1), nn.Conv1d(4, 4, 1),
        nn.Conv2d(4, 4, 1), nn.ConvTranspose2d(4, 4, 2), nn.LPPool2d(2, 2), nn.Fold((2, 2), 1),
        nn.Unfold(1), nn.ChannelShuffle(2))
    return show(fx.GraphModule(m, NoLeaf().trace(m)))


@case
def batch_norm_entered_checks_its_input():
    return NoLeaf().trace(nn.BatchNorm2d(3))


@case
def custom_leaf():
    class Leaf(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, Block) or super().is_leaf_module(m, module_qualified_name)
    return Leaf().trace(Net())


@case
def module_stack():
    for n in fx.symbolic_trace(Net()).graph.nodes:
        stack = n.meta.get("nn_module_stack", {})
        print(n.name, {k: (path, cls.__name__) for k, (path, cls) in stack.items()})


@case
def attributes_of_submodules():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.d = nn.ModuleDict({"a-b": nn.Linear(2, 2)})
            self.s = nn.Sequential(nn.Linear(2, 2))

        def forward(self, x):
            y = self.d["a-b"](x) + self.s[0].weight
            return y + F.linear(x, self.s[0].weight, self.s[0].bias)
    return show(fx.symbolic_trace(M()))


@case
def graph_module_within():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = fx.symbolic_trace(lambda x: x.relu())

        def forward(self, x):
            return self.inner(x) + 1
    gm = fx.symbolic_trace(M())
    gm.print_readable()
    return gm.code


@case
def parameter_shapes():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(2, 3))

        def forward(self, x):
            return x.reshape(self.w.shape[0], -1) + self.w.numel() if self.w.dim() == 2 else x
    print(fx.Tracer(param_shapes_constant=True).trace(M()))
    fx.symbolic_trace(M())


@case
def buffers_as_proxies():
    class T(fx.Tracer):
        proxy_buffer_attributes = True
    return T().trace(Block())


@case
def foreign_parameter():
    p = nn.Parameter(torch.ones(1))
    return fx.symbolic_trace(lambda x: x + p)


@case
def module_that_is_not_a_submodule():
    other = nn.Linear(2, 2)
    return fx.symbolic_trace(lambda x: other(x))


@case
def stack_traces():
    class M(nn.Module):
        def forward(self, x):
            return torch.relu(x) + 1
    tracer = fx.Tracer()
    tracer.record_stack_traces = True
    for n in tracer.trace(M()).nodes:
        # Frames of the tracer are implementation details.
        print(n.name, n.stack_trace and "\n".join(n.stack_trace.split("\n")[:2]))


# Parameters of the function.

@case
def annotations():
    def f(x: torch.Tensor, y: List[int], z: Optional[Dict[str, torch.Tensor]] = None, w: "int" = 3,
          v: list[float] = None, u: int | None = None) -> Tuple[torch.Tensor, int]:
        return x, 3
    return show(fx.symbolic_trace(f))


@case
def variadic():
    def f(x, *a, k=1, **kw):
        return x * a[0] + kw["z"]
    gm = fx.symbolic_trace(f)
    return f"{gm.code} {gm(1, 2, k=3, z=4)}"


@case
def tuple_of_concrete_args():
    def f(*a):
        return a[0] + a[1]
    return show(fx.symbolic_trace(f, concrete_args=(fx.PH, fx.PH)))


@case
def too_few_concrete_args():
    return fx.symbolic_trace(lambda x, y: x, concrete_args=(1,))


@case
def concrete_flag():
    gm = fx.symbolic_trace(lambda x, flag, n=3: x * n if flag else x + 1,
                           concrete_args={"flag": True})
    print(show(gm), gm(torch.ones(1), True))
    gm(torch.ones(1), False)


@case
def concrete_none():
    gm = fx.symbolic_trace(lambda x, m: x if m is None else x + m, concrete_args={"m": None})
    print(gm.code, gm(1, None))
    gm(1, 2)


@case
def concrete_tree():
    gm = fx.symbolic_trace(lambda d, y: (d["a"] + y, [d["b"][0]]),
                           concrete_args={"d": {"a": fx.PH, "b": [fx.PH, 3]}})
    args = {"a": torch.ones(1), "b": [torch.ones(2), 3]}, 2
    return f"{show(gm)} {gm(*args)} {fx.Interpreter(gm).run(*args)}"


@case
def names_of_leaves():
    ph = fx._symbolic_trace.PHWithMeta(ph_key="k")
    gm = fx.symbolic_trace(lambda d: d["a"] * 2, concrete_args={"d": {"a": ph}})
    return next(iter(gm.graph.nodes)).ph_key


# Graphs by hand.

@case
def names():
    g = fx.Graph()
    for name in ("x", "x", "x_1", "add", "sum", "max", "__getitem__", "CamelCase", "camelCase", "a.b",
                 "0", "1_0", "x_5", "x", "print", "for", "self", "torch", "inf", "device", ""):
        print(g.create_node("placeholder", name).name, end=" ")
    print()
    for f in (torch.add, operator.add, torch.sum, F.relu, getattr, len, operator.getitem, F.linear,
              math.sqrt, lambda x: x, torch.Tensor.add, torch.ops.aten.add.Tensor,
              torch.ops.aten.relu):
        print(g.call_function(f).name, end=" ")


@case
def operators_of_the_table():
    g = fx.Graph()
    x = g.placeholder("x")
    a = g.call_function(torch.ops.aten.add.Tensor, (x, x))
    b = g.call_function(torch.ops.aten.relu.default, (a,))
    c = g.call_function(torch.ops.aten.sum.dim_IntList, (b, [0]), {"keepdim": True})
    d = g.call_function(torch.ops.aten.add_.Tensor, (x, 1))
    e = g.call_function(torch.ops.aten.bernoulli.default, (x,))
    g.output((c,))
    gm = fx.GraphModule({}, g)
    print(show(gm), gm(torch.ones(2)), a.is_impure(), d.is_impure(), e.is_impure())
    print(g.eliminate_dead_code(), g)


@case
def arguments():
    g = fx.Graph()
    x, y = g.placeholder("x"), g.placeholder("y")
    n = g.call_function(torch.add, (x, 2), {"alpha": 1})
    n.update_arg(1, y)
    n.update_kwarg("alpha", 3)
    n.insert_arg(0, [y, {"k": x}])
    print(n.format_node(), x.users, y.users)
    n.replace_input_with(x, y)
    print(n.format_node(), x.users, n.next, n.prev, n.op, n.name, n.all_input_nodes)
    n.args = (slice(x, None, y), (x,), 1.5, None, True, "a", torch.float32, ..., [1, 2])
    print(n.format_node(), type(n.args[8]).__name__, type(n.kwargs).__name__)
    n.insert_arg(99, 1)


@case
def arguments_do_not_change():
    g = fx.Graph()
    x = g.placeholder("x")
    n = g.call_function(torch.cat, ([x, x],), {"dim": 0})
    for change in (lambda: n.args[0].append(1), lambda: operator.setitem(n.args[0], 0, 1),
                   lambda: n.kwargs.update(dim=1), lambda: n.kwargs.pop("dim")):
        try:
            change()
        except TypeError as error:
            print(error)
    return fx.map_arg(n.args, lambda n: n.name), hash(n.args[0]) == hash((x, x))


@case
def insertion():
    gm = fx.symbolic_trace(lambda x, y: torch.relu(x) + y)
    relu = gm.graph.find_nodes(op="call_function", target=torch.relu)[0]
    with gm.graph.inserting_after(relu):
        new = gm.graph.call_function(torch.sigmoid, (relu,))
        print(relu.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new))
    with gm.graph.inserting_before(relu):
        relu.args = (gm.graph.call_method("neg", relu.args),)
    with gm.graph.inserting_before():
        gm.graph.placeholder("first")
    gm.recompile()
    gm.graph.lint()
    nodes = list(gm.graph.nodes)
    print(show(gm), list(reversed(gm.graph.nodes)), len(gm.graph.nodes))
    return (nodes[0] < nodes[2], sorted([nodes[3], nodes[1]]), gm.graph.output_node(),
            gm.graph.find_nodes(op="placeholder"))


@case
def replacing_with_meta():
    g = fx.Graph()
    x = g.placeholder("x")
    a, b = g.call_method("a", (x,)), g.call_method("b", (x,))
    a.meta["k"] = 1
    g.output(a)
    a.replace_all_uses_with(b, propagate_meta=True)
    print(g, b.meta, a.users)
    a.replace_all_uses_with(b, propagate_meta=True)


@case
def dead_code():
    g = fx.Graph()
    x = g.placeholder("x")
    a = g.call_function(torch.relu, (x,))
    g.call_function(torch.rand, (3,))
    g.call_function(operator.setitem, (x, 0, 1))
    g.call_method("add_", (x, 1))
    g.output(a)
    print(g)
    print(g.eliminate_dead_code(), g)


@case
def dead_code_by_choice():
    g = fx.Graph()
    x = g.placeholder("x")
    g.call_function(torch.relu, (x,))
    g.output(x)
    return g.eliminate_dead_code(lambda n: True), g.eliminate_dead_code(), g


@case
def erasing_what_is_used():
    g = fx.Graph()
    a = g.call_function(torch.relu, (g.placeholder("x"),))
    g.output(a)
    g.erase_node(a)


@case
def erasing_from_another_graph():
    fx.Graph().erase_node(fx.Graph().placeholder("x"))


@case
def erasing_twice():
    g = fx.Graph()
    x = g.placeholder("x")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        g.erase_node(x)
        g.erase_node(x)
    return [str(w.message) for w in caught], len(g.nodes)


@case
def lint_order():
    g = fx.Graph()
    a = g.call_function(torch.relu, (g.placeholder("x"),))
    b = g.call_function(torch.relu, (a,))
    g.output(b)
    b.append(a)
    g.lint()


@case
def lint_foreign_node():
    g = fx.Graph()
    g.call_function(torch.relu, (fx.Graph().placeholder("x"),))
    g.lint()


@case
def lint_missing_attribute():
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    del gm._modules["0"]
    gm.graph.lint()


@case
def lint_what_is_called_is_no_module():
    gm = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    gm.graph.find_nodes(op="call_module")[0].target = "0.weight"
    gm.graph.lint()


@case
def target_of_call_function():
    fx.Graph().create_node("call_function", "relu", ())


@case
def target_of_call_method():
    fx.Graph().create_node("call_method", 3, ())


@case
def unknown_op():
    fx.Graph().create_node("nope", "relu", ())


@case
def arguments_that_are_no_tuple():
    fx.Graph().create_node("call_method", "relu", [1])


@case
def insertion_into_another_graph():
    with fx.Graph().inserting_before(fx.Graph().placeholder("x")):
        pass


@case
def map_arg_needs_a_function():
    fx.map_arg((1,), 3)


@case
def tabular():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 4)

        def forward(self, x):
            return (self.fc(x + self.fc.bias.sum(dim=0)) * 2).relu()
    fx.symbolic_trace(M()).graph.print_tabular()


@case
def copying_graphs():
    gm = fx.symbolic_trace(Net())
    g, env = fx.Graph(), {}
    g.output(g.graph_copy(gm.graph, env))
    other = copy.deepcopy(gm.graph)
    return str(g) == str(gm.graph), str(other) == str(gm.graph), other.owning_module, len(env)


@case
def proxies_of_nodes():
    g = fx.Graph()
    x = fx.Proxy(g.placeholder("x"))
    y = (x + 1).relu().shape[0]
    a, b = x
    g.output(torch.add(x, y).node)
    print(g, x, x.foo, y, a, b)
    torch.add(x, fx.Proxy(fx.Graph().placeholder("w")))


# GraphModule.

@case
def root_as_dict():
    g = fx.Graph()
    x = g.placeholder("x")
    g.output(g.call_function(torch.add, (g.call_module("a.b", (x,)), g.get_attr("w"))))
    gm = fx.GraphModule({"a.b": nn.ReLU(), "w": torch.ones(1)}, g)
    print(gm, list(gm._buffers), gm(torch.ones(1)))
    fx.GraphModule({}, g)


@case
def root_of_another_kind():
    fx.GraphModule(3, fx.Graph())


@case
def graph_of_another_kind():
    fx.symbolic_trace(lambda x: x).graph = 3


@case
def assigning_a_graph():
    gm = fx.symbolic_trace(lambda x: x)
    g = fx.Graph()
    g.output(g.call_method("neg", (g.placeholder("x"),)))
    gm.graph = g
    return gm.code, gm(torch.ones(1)), g.owning_module is gm


@case
def submodules():
    gm = fx.symbolic_trace(Net())
    print(gm.add_submodule("x.y", nn.ReLU()), gm.add_submodule("fc.weight.z", nn.ReLU()),
          [n for n, _ in gm.named_modules() if n.startswith("x")])
    gm.delete_all_unused_submodules()
    print(gm.delete_submodule("fc"), gm.delete_submodule("nope.x"), [n for n, _ in gm.named_modules()])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gm.graph.get_attr("zzz")
    print([str(w.message) for w in caught])
    gm.graph.lint()


@case
def deep_copies():
    gm = fx.symbolic_trace(Net())
    gm.meta["k"] = [1]
    made, shallow = copy.deepcopy(gm), copy.copy(gm)
    return (made.code == gm.code, made.fc.weight is gm.fc.weight, type(made).__name__, made.meta,
            made.meta["k"] is gm.meta["k"], shallow.fc is gm.fc, made.graph.owning_module is made)


@case
def pickles():
    gm = fx.symbolic_trace(Net()).eval()
    made = pickle.loads(pickle.dumps(gm))
    return (type(made).__name__, made.code == gm.code, torch.equal(made(IMAGE)[0], gm(IMAGE)[0]),
            show(made))


@case
def pickles_of_functions():
    gm = fx.symbolic_trace(lambda x: torch.relu(x) + math.pi)
    made = pickle.loads(pickle.dumps(gm))
    return made.code, made(torch.ones(1))


@case
def error_in_generated_code():
    def f(x):
        return torch.relu(x) @ torch.ones(3, 4) + 1
    gm, text = fx.symbolic_trace(f), io.StringIO()
    with contextlib.redirect_stderr(text):
        try:
            gm(torch.ones(2, 2))
        except RuntimeError as error:
            print(error, error.__traceback__.tb_frame.f_code.co_name)
    at = text.getvalue().index("Call using")
    return text.getvalue()[at:]


@case
def readable():
    gm = fx.symbolic_trace(Block().eval())
    ShapeProp(gm).propagate(IMAGE)
    gm.print_readable()
    gm.print_readable(include_stride=True, include_device=True, expanded_def=True)
    return gm.print_readable(print_output=False, colored=True)


@case
def shapes():
    gm = fx.symbolic_trace(Block().eval())
    ShapeProp(gm).propagate(IMAGE)
    for n in gm.graph.nodes:
        print(n.name, n.meta.get("tensor_meta"), n.meta["type"].__name__)


@case
def shapes_that_do_not_fit():
    gm = fx.symbolic_trace(lambda x: x @ x)
    with contextlib.redirect_stderr(io.StringIO()):
        ShapeProp(gm).propagate(torch.ones(2, 3))


@case
def code_transformers():
    gm = fx.symbolic_trace(lambda x: x + 1)

    def add_line(previous):
        return lambda body: ['print("hi")\n', *(previous(body) if previous else body)]
    with gm.graph.on_generate_code(add_line):
        gm.recompile()
        print(gm.code)
    gm.recompile()
    return gm.code


@case
def code_generators():
    class ListArgument(fx.CodeGen):
        def gen_fn_def(self, free_vars, maybe_return_annotation):
            names = ", ".join(free_vars)
            return (f"def forward(self, args_list{maybe_return_annotation}):\n    "
                    f"{names}, = args_list")

        def additional_globals(self):
            return [("zz", 3)]

        def process_inputs(self, *inputs):
            return inputs[0]
    gm = fx.symbolic_trace(lambda x: x + 1)
    gm.graph.set_codegen(ListArgument())
    gm.recompile()
    return gm.code, gm([torch.ones(1)]), fx.Interpreter(gm).run([torch.ones(1)])


@case
def folders():
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    folder = tempfile.mkdtemp()
    gm = fx.symbolic_trace(m)
    gm.to_folder(f"{folder}/fx_case_folder", "Foo")
    with open(f"{folder}/fx_case_folder/module.py") as file:
        return file.read().replace(folder, "FOLDER")


# Running and rewriting.

class Negating(fx.Interpreter):
    """Replaces sigmoid by neg."""

    def call_function(self, target, args, kwargs):
        if target is torch.sigmoid:
            return torch.neg(*args, **kwargs)
        return super().call_function(target, args, kwargs)


def sigmoid_neg(x):
    return torch.sigmoid(x).neg()


@case
def interpreter():
    gm = fx.symbolic_trace(sigmoid_neg)
    print(Negating(gm).run(torch.ones(2)), fx.Interpreter(gm).boxed_run([torch.zeros(1)]))
    fx.Interpreter(gm).boxed_run([])


@case
def interpreter_of_modules():
    gm = fx.symbolic_trace(Net().eval())
    return torch.equal(fx.Interpreter(gm).run(IMAGE)[0], gm(IMAGE)[0])


@case
def interpreter_without_arguments():
    fx.Interpreter(fx.symbolic_trace(sigmoid_neg)).run()


@case
def interpreter_says_where():
    fx.Interpreter(fx.symbolic_trace(lambda x: x.relu() @ x)).run(torch.ones(2, 3))


@case
def transformer():
    class Negate(fx.Transformer):
        def call_function(self, target, args, kwargs):
            if target is torch.sigmoid:
                return self.tracer.create_proxy("call_function", torch.neg, args, kwargs)
            return super().call_function(target, args, kwargs)

        def call_method(self, target, args, kwargs):
            return args[0] * 2 if target == "neg" else super().call_method(target, args, kwargs)
    return show(Negate(fx.symbolic_trace(lambda x: torch.sigmoid(x).neg().relu())).transform())


@case
def transformer_of_modules():
    return show(fx.Transformer(fx.symbolic_trace(Net().eval())).transform())


@case
def patterns():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x, w1, w2):
            m1, m2 = torch.cat([w1, w2]).sum(), torch.cat([w1, w2]).sum()
            return x + torch.max(m1) + torch.max(m2) + self.fc(x)
    gm = fx.symbolic_trace(M())
    found = fx.replace_pattern(gm, lambda a, b: torch.cat([a, b]).sum(),
                               lambda a, b: torch.stack([a, b]))
    return show(gm), found


@case
def pattern_becomes_a_module():
    class Replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(2, 2)

        def forward(self, x):
            return self.fc(x).relu()
    gm = fx.symbolic_trace(lambda x: torch.sigmoid(x) + 1)
    found = fx.replace_pattern(gm, torch_sigmoid, fx.symbolic_trace(Replacement()))
    return found, gm.code, [n for n, _ in gm.named_modules()]


def torch_sigmoid(x):
    return torch.sigmoid(x)


@case
def pattern_in_a_row():
    gm = fx.symbolic_trace(lambda x: torch.relu(torch.relu(torch.relu(x))))
    found = fx.replace_pattern(gm, lambda x: torch.relu(torch.relu(x)), lambda x: torch.neg(x))
    return len(found), gm.code


@case
def pattern_with_an_inner_use():
    """A value with a use outside of the match prevents it."""
    def f(x):
        y = torch.relu(x)
        return torch.sigmoid(y) + y
    gm = fx.symbolic_trace(f)
    found = fx.replace_pattern(gm, lambda x: torch.sigmoid(torch.relu(x)), lambda x: x)
    return len(found), gm.code


@case
def pattern_with_a_literal():
    gm = fx.symbolic_trace(lambda x: (x + 1) * (x + 2))
    return len(fx.replace_pattern(gm, lambda x: x + 2, lambda x: x - 2)), gm.code


@case
def pattern_with_dead_code():
    def f(x):
        x.relu()
        return x + 1
    fx.replace_pattern(fx.symbolic_trace(f), f, f)


def _numbered():
    count = [0]

    def part(node):
        count[0] += 1
        return count[0] // 8
    return part


@case
def parts():
    gm, names = fx.symbolic_trace(Net().eval()), {}
    made = split_module(gm, None, _numbered(), names)
    for name, child in made.named_children():
        if isinstance(child, fx.GraphModule):
            print(name, child.code)
    return made.code, names, torch.equal(made(IMAGE)[0], gm(IMAGE)[0])


@case
def parts_in_order():
    gm = fx.symbolic_trace(Net().eval())
    return split_module(gm, None, _numbered(), None, keep_original_order=True, partition_affix="z",
                        tuple_return=True).code


@case
def parts_with_a_cycle():
    def f(x):
        return torch.neg(torch.relu(torch.neg(x)))
    gm = fx.symbolic_trace(f)
    split_module(gm, None, lambda n: int(n.target is torch.relu))


@case
def normalized():
    gm = fx.symbolic_trace(Net())
    for n in gm.graph.nodes:
        if n.op == "call_module":
            print(n.name, n.normalized_arguments(gm, normalize_to_only_use_kwargs=True))
    g = fx.Graph()
    x = g.placeholder("x")
    for f, args in ((torch.relu, (x,)), (F.relu, (x, True)), (torch.ops.aten.add.Tensor, (x, 1))):
        print(g.call_function(f, args).normalized_arguments(gm, normalize_to_only_use_kwargs=True))
    print(g.call_function(torch.relu, (x,)).normalized_arguments(gm))


@case
def mutable_operations():
    tracer = fx.Tracer()
    tracer.check_mutable_operations = True
    tracer.trace(lambda x: torch.relu_(x))


# Recording operators.

make_fx = importlib.import_module(f"{torch.__name__}.fx.experimental.proxy_tensor").make_fx


def changes_in_place(x, y):
    z = x.clone()
    z.add_(1).mul_(y)
    return z.max(1)


RECORDED = {
    "pointwise": lambda x, y: torch.relu(x) + 1 - y * 2 / (x + y),
    "numbers": lambda x, y: (x ** 2 > 0, 2 - x, 1 / x, x // 2, x % 3, x == 1, torch.add(x, y, alpha=2)),
    "reductions": lambda x, y: {"a": x.sum(1), "b": [x.mean(), y.sum(), x.amax(0)]},
    "views": lambda x, y: (x.t(), x[0], x[:, 1:], y.view(-1), x.permute(1, 0), x.expand(3, 2, 2)),
    "joins": lambda x, y: (torch.cat([x, y]), torch.stack([x, y], 1), x.unsqueeze(0).squeeze(0)),
    "in place": changes_in_place,
    "choices": lambda x, y: torch.where(x > y, x, y).clamp(0, 1),
    "functions": lambda x, y: F.relu(x) + F.leaky_relu(y, 0.2) + F.silu(x),
    "types": lambda x, y: (x.to(torch.float64), x.long().cumsum(0)),
    "no result": lambda x, y: (x, None, 3),
    "several results": lambda x, y: torch.sort(x, dim=0, descending=True)[1],
}


def _recorded(function):
    def text():
        x, y = torch.ones(2, 2), torch.zeros(2, 2) + 2
        gm = make_fx(function)(x, y)
        gm.graph.lint()
        return f"{show(gm)} {gm(x, y)}"
    return text


for _name, _function in RECORDED.items():
    CASES[f"recorded: {_name}"] = _recorded(_function)


@case
def recorded_nested_arguments():
    args = {"a": torch.ones(2), "b": [torch.ones(2) * 2]}, torch.ones(2) * 3
    gm = make_fx(lambda d, x: {"c": d["a"] + d["b"][0], "d": x.neg()})(*args)
    return f"{show(gm)} {gm(*args)}"


@case
def recorded_with_too_many_arguments():
    make_fx(torch_sigmoid)(torch.ones(1), torch.ones(1))


@case
def recorded_decompositions():
    table = {torch.ops.aten.silu.default: lambda x: x * torch.sigmoid(x),
             torch.ops.aten.sigmoid.default: lambda x: 1 / (torch.exp(-x) + 1)}
    gm = make_fx(lambda x: F.silu(x).neg(), decomposition_table=table)(torch.zeros(2))
    return f"{show(gm)} {gm(torch.zeros(2))}"


# Passes as objects, and partitioning for backends.

def passes(name):
    return importlib.import_module(f"{torch.__name__}.fx.passes.{name}")


@case
def pass_managers():
    base, manager = passes("infra.pass_base"), passes("infra.pass_manager")

    class ReluToNeg(base.PassBase):
        def requires(self, graph_module):
            print("requires")

        def call(self, graph_module):
            nodes = graph_module.graph.find_nodes(op="call_function", target=torch.relu)
            for node in nodes:
                node.target = torch.neg
            return base.PassResult(graph_module, bool(nodes))

    def nothing(gm):
        return None
    first, second = ReluToNeg(), manager.pass_result_wrapper(nothing)
    pm = manager.PassManager([first, second], steps=3, constraints=[
        manager.this_before_that_pass_constraint(second, first)])
    pm.add_checks(lambda m: print("check"))
    result = pm(fx.symbolic_trace(lambda x: torch.relu(x)))
    print(result.modified, result.graph_module.code, pm.passes[0] is second)
    pm.add_pass(lambda gm: 3)
    try:
        pm(fx.symbolic_trace(lambda x: torch.relu(x)))
    except Exception as error:
        print(error, "|", error.__cause__)
    for i, j in ((0, 1), (1, 0)):
        order = [first, second]
        pm.add_constraint(manager.this_before_that_pass_constraint(order[i], order[j]))
    try:
        pm.solve_constraints()
    except RuntimeError as error:
        print(str(error).split(":")[0])
    pm.add_checks(lambda: None)


def branches(x, y):
    a = torch.relu(x) + 1
    b = torch.sigmoid(a) * y
    c = torch.tanh(b)
    first, second = torch.chunk(c * 2 + a, 2)
    return torch.relu(first) - second + torch.neg(y).sum(), c.view(-1)


class Supported:
    """Supports all functions except those with these names."""

    def __new__(cls, *names):
        support = passes("operator_support")
        return support.create_op_support(
            lambda modules, node: node.op == "call_function" and node.target.__name__ not in names)


@case
def partitions():
    partitioner = passes("infra.partitioner").CapabilityBasedPartitioner
    for names in (("sigmoid",), ("relu", "chunk"), ("tanh", "add"), (), ("getitem",),
                  ("mul", "neg")):
        for more in ({}, {"allows_single_node_partition": True}, {"skip_horizontal_fusion": True},
                     {"non_compute_ops": ["torch.neg", "_operator.mul"]}):
            gm = fx.symbolic_trace(branches)
            p = partitioner(gm, Supported(*names), **more)
            found = p.propose_partitions()
            print(names, more, found)
            p.remove_bookend_non_compute_ops(found)
            print(found)


@case
def fused_parts():
    partitioner = passes("infra.partitioner").CapabilityBasedPartitioner
    gm = fx.symbolic_trace(branches)
    made = partitioner(gm, Supported("sigmoid", "chunk")).partition_and_fuse("part_")
    for name, child in made.named_children():
        print(name, child.code)
    x = torch.arange(8.0).reshape(4, 2)
    same = all(map(torch.equal, made(x, x), branches(x, x)))
    return show(made), same


@case
def operator_supports():
    support = passes("operator_support")
    gm = fx.symbolic_trace(Net().eval())
    ShapeProp(gm).propagate(IMAGE)
    modules = dict(gm.named_modules())
    known = support.OperatorSupport({
        "torch.nn.modules.conv.Conv2d": None, "_operator.mul": (((torch.float64,), None), {}),
        "_operator.add": (((torch.float32,), None), {}), "softmax": None})
    for s in (known, support.OpSupports.decline_if_input_dtype(torch.float32),
              support.chain(known, support.OpSupports.decline_if_node_in_names({"add"})),
              support.any_chain(known, support.OpSupports.decline_if_node_in_names({"add"}))):
        print([n.name for n in gm.graph.nodes if s.is_node_supported(modules, n)])


@case
def sorting():
    tools = passes("tools_common")
    gm = fx.symbolic_trace(branches)
    nodes = list(gm.graph.nodes)
    nodes[3].append(nodes[2])
    nodes[-1].prepend(nodes[4])
    print(tools.stable_topological_sort(gm).graph)
    nodes = list(gm.graph.nodes)
    nodes[4].append(nodes[3])
    print(tools.legalize_graph(gm).graph)


# Classes and functions as leaves.

class Pair(metaclass=fx.ProxyableClassMeta):
    def __init__(self, left, right):
        self.left, self.right = left, right

    def add(self, other):
        return Pair(self.left + other.left, self.right + other.right)

    def mul(self):
        return self.left * self.right


@case
def proxyable_classes():
    gm = fx.symbolic_trace(lambda x, y: Pair(x, y).add(Pair(y, x)).mul())
    return gm.code, gm(torch.ones(1), torch.ones(1))


def helper(x, y):
    return len(x) * y if y > 0 else y


fx.wrap("helper")
fx.wrap("len")


@case
def wrapped_functions():
    gm = fx.symbolic_trace(lambda x: helper(x, 2) + len(x))
    return show(gm), gm(torch.ones(2)), helper(torch.ones(3), 1)


@case
def wrapped_pickles():
    gm = pickle.loads(pickle.dumps(fx.symbolic_trace(lambda x: helper(x, 2))))
    return gm.code, gm(torch.ones(2))


@case
def wrap_of_a_value():
    fx.wrap(3)


@case
def wrap_within_a_function():
    fx.wrap("len")


@case
def operator_objects():
    add = torch.ops.aten.add
    for x in (repr(add.Tensor), str(add.Tensor), add.Tensor._schema, add.Tensor.name(), add,
              repr(add), add.Tensor.overloadpacket is add, add.Tensor.__name__, add.Tensor.namespace,
              torch.ops.aten.add_.Tensor._schema, torch.ops.aten.add_.Tensor._schema.is_mutable,
              torch.ops.aten.where.ScalarOther._schema, torch.ops.aten.sum.default._schema,
              torch.ops.aten.sum.dim_IntList._schema, torch.ops.aten.pow.Scalar._schema,
              torch.ops.aten.multiply.Scalar._schema, torch.ops.aten.view.default.is_view,
              copy.deepcopy(add.Tensor) is add.Tensor,
              [a.name for a in add.Tensor._schema.arguments], add.Tensor(torch.ones(1), 2),
              torch.ops.aten.max.dim(torch.ones(2), 0)[1], add(torch.ones(1), 1)):
        print(x)


@case
def operator_that_is_not_there():
    torch.ops.aten.nope


@case
def overload_that_is_not_there():
    torch.ops.aten.add.nope


@case
def overload_with_too_few_arguments():
    torch.ops.aten.add.Tensor(torch.ones(1))


@case
def overload_with_too_many_arguments():
    torch.ops.aten.relu.default(torch.ones(1), 2)


def record(path):
    with open(path, "w") as file:
        json.dump({name: run(name) for name in CASES}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    record(sys.argv[3])
