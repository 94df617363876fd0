"""Programs of TorchScript calls: equal calls run compiled graphs with the bits, errors and effects of the steps."""
import contextlib
import enum
import gc
import io
import linecache
import subprocess
import sys
import threading
import types
import weakref

import pytest

import cresset as torch
from cresset import Tensor, nn
from typing import Dict, List, Optional, Tuple
import cresset.nn.functional as F


pytestmark = pytest.mark.records("calls that wait run no programs of TorchScript calls")


@pytest.fixture(autouse=True)
def always():
    was = torch._C._script_programs(2)
    yield
    torch._C._script_programs(was)


def script_anew(f):
    """A script that has made no programs: torch.jit.script() gives the one of a function again, where it is alive."""
    copy = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    copy.__annotations__ = f.__annotations__
    return torch.jit.script(copy)


def program_of(f):
    return f._c._programs("forward") if isinstance(f, nn.Module) else f._programs()


def uses(f):
    return program_of(f).count("is used")


def same(a, b):
    if isinstance(a, Tensor):
        return a.dtype == b.dtype and a.stride() == b.stride() and torch.equal(a, b)
    return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))


def pointwise(x, y):
    return torch.tanh(x * y + 1) / (x.abs() + 2)


def loop(x, n: int):
    for i in range(n):
        x = x * 0.5 + i if x.size(0) > 2 else x - i
    return x


def pair(x):
    return x.sum(1), x[0]


def listed(x) -> List[Tensor]:
    parts = [x, x + 1]
    parts.append(x.t())
    return parts


def in_place(x):
    y = x * 2
    y += 1
    y[0].mul_(3)
    return F.relu_(y)


def norm(x):
    return F.layer_norm(F.gelu(x) @ x.t(), [x.size(0)]).softmax(-1)


def made(x):
    return torch.zeros(x.size(0), 2, dtype=x.dtype) + x[:, :2] + torch.arange(2)


def view(x):
    return x.transpose(0, 1)[1:]


@pytest.mark.parametrize("function, others", [(pointwise, lambda x: (x + 1,)), (loop, lambda x: (3,)), (pair, lambda x: ()),
                                              (listed, lambda x: ()), (in_place, lambda x: ()), (norm, lambda x: ()),
                                              (made, lambda x: ()), (view, lambda x: ())])
def test_results_have_eager_bits_for_each_geometry(function, others):
    f = torch.jit.script(function)
    torch.manual_seed(0)
    inputs = [torch.randn(3, 4), torch.randn(2, 5), torch.randn(4, 3).t(), torch.randn(3, 4, dtype=torch.float64)]
    for x in inputs:
        for _ in range(4):
            x = x.clone(memory_format=torch.preserve_format).normal_()
            assert same(f(x, *others(x)), function(x, *others(x)))
    assert uses(f) == len(inputs), program_of(f)


def test_numbers_are_part_of_a_call():
    f = torch.jit.script(loop)
    x = torch.randn(3)
    for n in (1, 2, 1, 2, 1, 2, 3):
        assert same(f(x, n), loop(x, n))


class Net(nn.Module):
    scale: float

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 8), nn.Linear(8, 4)
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.scale = 2.0

    def forward(self, x):
        return self.drop(self.norm(self.two(torch.relu(self.one(x))))) * self.scale


def calls(f, *args, n=4):
    with torch.no_grad():
        return [f(*args) for _ in range(n)][-1]


def test_attributes_are_part_of_a_call():
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(5, 4)
    f = torch.jit.script(net)
    assert same(calls(f, x), calls(net, x)) and uses(f) > 0
    f.scale = net.scale = 3.0
    assert same(calls(f, x), calls(net, x))
    with torch.no_grad():
        f.one.weight.mul_(2)  # the parameters are shared
        assert same(f(x), net(x)) and same(f(x), net(x))
        f.one.weight.data = net.one.weight.data = torch.randn(8, 4)
    assert same(calls(f, x), calls(net, x))
    f.two.weight = nn.Parameter(torch.randn(4, 8))
    net.two.weight = f.two.weight
    assert same(calls(f, x), calls(net, x))


def test_random_numbers_and_buffers_of_training():
    torch.manual_seed(0)
    net, x = Net(), torch.randn(5, 4)
    f = torch.jit.script(net)
    before = uses(f)  # modules with equal parts have one class, whose functions keep the programs
    calls(f, x)
    assert uses(f) <= before and not same(calls(f, x, n=1), calls(f, x, n=1))
    assert f.norm.num_batches_tracked.item() == 6
    f.eval()
    net.load_state_dict(f.state_dict())
    assert same(calls(f, x), calls(net.eval(), x)) and uses(f) > 0
    f.train()
    calls(f, x)
    assert f.norm.num_batches_tracked.item() == 10


def test_gradients_flow_by_the_steps():
    net, x = Net().eval(), torch.randn(5, 4)
    f = torch.jit.script(net)
    calls(f, x)
    for _ in range(4):
        y = f(x)
        assert y.requires_grad
        y.sum().backward()
    net2 = Net().eval()
    net2.load_state_dict(net.state_dict())
    for _ in range(4):
        net2(x).sum().backward()
    assert all(torch.equal(p.grad, q.grad) for p, q in zip(f.parameters(), net2.parameters()))


def test_elements_steer_by_the_steps():
    @torch.jit.script
    def f(x):
        return x + 1 if bool(x.sum() > 0) else x - 1

    for s in (1, -1, 1, -1, 1, -1):
        x = torch.full((3,), float(s))
        assert same(f(x), x + s)
    assert not uses(f)


@pytest.mark.parametrize("text", ["x * x.item()", "x * float(x)", "x * int(x)", "x + torch.tensor(float(x))", "x * x.nonzero().size(0)",
                                  "x + torch.unique(x).numel()", "x + x[x > 0].size(0)", "x + torch.full((1,), x.item())"])
def test_numbers_from_elements_are_no_constants(text):
    unit = torch.jit.CompilationUnit(f"def f(x):\n    return {text}\n")
    for v in (1.0, 2.0, -3.0, 0.0, 5.0):
        x = torch.tensor([v])
        assert torch.equal(unit.f(x), eval(text, {"x": x, "torch": torch, "float": float})), (text, v)


def test_writes_to_arguments_and_attributes():
    @torch.jit.script
    def f(x):
        x[0] += 1
        return x * 2

    x = torch.zeros(2)
    for i in range(5):
        assert f(x)[0] == 2 * (i + 1)

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0
            self.register_buffer("total", torch.zeros(1))

        def forward(self, x):
            self.n += 1
            self.total += x.sum()
            return x + self.n

    m = torch.jit.script(Counter())
    for i in range(5):
        assert m(torch.ones(1))[0] == i + 2
    assert m.total.item() == 5 and m.n == 5


def test_lists_of_the_caller_are_read_again():
    @torch.jit.script
    def f(x, n: List[int]):
        return x + n[0]

    n = [1]
    for i in range(5):
        n[0] = i
        assert f(torch.zeros(1), n).item() == i


def test_errors_are_those_of_the_steps():
    @torch.jit.script
    def f(x, i):
        return F.embedding(i, x) * 2

    x, good = torch.arange(4.).reshape(4, 1), torch.tensor([1, 2])
    for _ in range(4):
        f(x, good)
    assert uses(f) == 1
    with pytest.raises(RuntimeError, match="(?s)The following operation failed in the TorchScript interpreter.*index out of range in self"):
        f(x, torch.tensor([1, 9]))
    assert f(x, good).tolist() == [[2], [4]]
    with pytest.raises(RuntimeError):
        f(x, torch.tensor([0.5]))


def test_the_same_tensor_twice():
    f = torch.jit.script(pointwise)
    x, y = torch.randn(4), torch.randn(4)
    for a, b in ((x, x), (x, y), (x, x), (y, x), (x, y), (y, y), (x, y)):
        assert same(f(a, b), pointwise(a, b))


def test_modes_of_the_thread():
    f = torch.jit.script(pointwise)
    x = torch.randn(4)
    for _ in range(3):
        f(x, x)
    with torch.inference_mode():
        assert all(f(x, x).is_inference() for _ in range(4))
    assert not f(x, x).is_inference()
    g = torch.jit.script(made)
    calls(g, torch.ones(2, 2))
    torch.set_default_dtype(torch.float64)
    try:
        assert all(f(x, x).dtype == torch.float32 for _ in range(3))
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.autocast("cpu"):
        assert same(calls(torch.jit.script(norm), torch.ones(2, 2)), norm(torch.ones(2, 2)))
    z = torch.randn(4, requires_grad=True)
    assert all(f(z, z).requires_grad for _ in range(3))
    with torch.no_grad():
        assert not any(f(z, z).requires_grad for _ in range(3))


def test_attributes_that_need_a_gradient_or_another_layout():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.plain = torch.randn(3)
            self.odd = nn.Parameter(torch.randn(3))

        def forward(self, x):
            return x * self.plain + self.odd

    m = Two()
    f, x = torch.jit.script(m), torch.randn(3)
    for _ in range(5):
        assert same(f(x), m(x)) and f(x).requires_grad
    assert not uses(f) and same(calls(f, x), m(x)) and uses(f)


def test_programs_hold_no_weights():
    f = torch.jit.script(Net().eval())
    calls(f, torch.randn(2, 4))
    assert uses(f) > 0
    gone = weakref.ref(f.one.weight)
    del f
    gc.collect()
    assert gone() is None


def test_frozen_modules_have_constants():
    net, x = Net().eval(), torch.randn(3, 4)
    f = torch.jit.freeze(torch.jit.script(net), optimize_numerics=False)
    assert same(calls(f, x), calls(torch.jit.script(net), x)) and uses(f) == 1


def test_results_may_be_arguments_or_views_of_them():
    @torch.jit.script
    def f(x, y) -> Tuple[Tensor, Tensor, Tensor]:
        return x, y[0], x + y

    x, y = torch.randn(2), torch.randn(2, 2)
    for _ in range(4):
        a, b, c = f(x, y)
        assert a is x or a.data_ptr() == x.data_ptr()
        assert b.data_ptr() == y.data_ptr() and same(c, x + y)
    b.fill_(7)
    assert y[0, 0] == 7 and same(f(x, y)[2], x + y)


def test_threads_share_a_program():
    torch.manual_seed(0)
    net = Net().eval()
    f, x = torch.jit.script(net), torch.randn(6, 4)
    want, wrong = calls(net, x), []

    def work(k):
        own = x if k % 2 else x[:k + 2]
        with torch.no_grad():
            wrong.extend(k for _ in range(50) if not torch.equal(f(own), want[:len(own)]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_faster_way_is_chosen_and_may_be_forbidden():
    torch._C._script_programs(1)
    f = torch.jit.script(pointwise)
    x = torch.randn(1000)
    want = pointwise(x, x)
    for _ in range(1500):  # both ways are timed, and again
        assert torch.equal(f(x, x), want)
    assert program_of(f).startswith(("is used", "is left"))
    assert "group {" in program_of(f)
    with torch.jit.optimized_execution(False):
        assert same(f(x, x), want) and torch._C._script_programs_here(0) == 0
    assert torch._C._script_programs_here(-1) == -1 and torch._C._script_programs(1) == 1
    with pytest.raises(ValueError, match="a mode is 0, 1 or 2, not 5"):
        torch._C._script_programs(5)
    with pytest.raises(ValueError, match="a thread's mode is -1, 0, 1 or 2, not -2"):
        torch._C._script_programs_here(-2)


def test_programs_are_forbidden_to_one_thread():
    """Two blocks of two threads overlap; calls of a third one have programs meanwhile, and all have afterwards."""
    x, seen = torch.randn(5), {}

    def made_in_a_program():
        def own(x):  # a function of this call alone
            return torch.tanh(x * x + 1) / (x.abs() + 2)
        f = torch.jit.script(own)
        for _ in range(3):
            assert same(f(x), own(x))
        return "group {" in program_of(f)

    first, second = threading.Event(), threading.Event()

    def one():
        with torch.jit.optimized_execution(False):
            first.set()
            assert second.wait(60)
            seen["one"] = made_in_a_program()

    def two():
        assert first.wait(60)
        with torch.jit.optimized_execution(False):
            second.set()
            threads[0].join(60)
            seen["two"] = made_in_a_program()
            with torch.jit.optimized_execution(True):
                seen["inside"] = torch._C._script_programs_here(1)
        seen["behind"] = made_in_a_program()

    threads = [threading.Thread(target=one), threading.Thread(target=two)]
    for t in threads:
        t.start()
    assert second.wait(60)
    seen["third"] = made_in_a_program()
    for t in threads:
        t.join(60)
    assert seen == {"one": False, "two": False, "inside": 1, "behind": True, "third": True}
    assert torch._C._script_programs(2) == 2


# --- what a call depends on: the same calls with programs forbidden, measured and forced ---


@torch.jit.interface
class Shape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 2


class Thrice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * 3 + 1


class Outer(nn.Module):
    part: Shape

    def __init__(self):
        super().__init__()
        self.part = Twice()

    def forward(self, x: Tensor) -> Tensor:
        return self.part.forward(x) - 1


class Deeper(nn.Module):
    def __init__(self):
        super().__init__()
        self.outer, self.layers = Outer(), nn.ModuleList([Outer(), Outer()])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.outer(x)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class State(nn.Module):
    k: float
    n: int
    s: str
    on: bool
    pair: Tuple[int, float]
    maybe: Optional[Tensor]
    items: List[int]
    table: Dict[str, float]
    parts: List[Tensor]
    named: Dict[str, Tensor]

    def __init__(self):
        super().__init__()
        self.k, self.n, self.s, self.on, self.pair, self.maybe = 2.0, 3, "a", True, (1, 2.0), None
        self.items, self.table = [1, 2], {"a": 1.0, "b": 2.0}
        self.parts, self.named = [torch.ones(3)], {"a": torch.ones(3)}
        self.register_buffer("a", torch.ones(3))
        self.register_buffer("b", torch.ones(3))
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
        for i, p in enumerate(self.parameters()):
            p.requires_grad_(False).copy_(torch.arange(p.numel()).reshape(p.shape) * 0.1 + i)


def state(body):
    """A scripted module with State's attributes whose forward is `body`."""
    text = "def forward(self, x):\n" + "\n".join("    " + line for line in body.splitlines())
    name = f"<body {abs(hash(body))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = dict(globals())
    exec(compile(text, name, "exec"), space)
    return type("State", (State,), {"forward": space["forward"]})


READS = {"floats": "return x * self.k", "ints": "return x * self.n", "strings": "return x * 2 if self.s == 'a' else x",
         "bools": "return x * 2 if self.on else x", "tuples": "return x * self.pair[0] + self.pair[1]",
         "nones": "m = self.maybe\nif m is not None:\n    x = x + m\nreturn x * 2",
         "lists": "for i in self.items:\n    x = x * i\nreturn x + len(self.items)",
         "dicts": "for k in self.table.keys():\n    x = x * 2 + self.table[k]\nreturn x",
         "tensor lists": "return x + self.parts[0] * len(self.parts)", "tensor dicts": "return x * self.named['a']",
         "buffers": "return x * self.a + self.b", "modules": "return self.two(self.one(x))", "training": "return x * 2 if self.training else x - 1",
         "same tensors": "return x + 100 if self.a is self.b else x + self.a", "same as argument": "return x + 100 if x is self.a else x + self.a",
         "same modules": "return x + 100 if self.one is self.two else self.one(x)", "kinds": "return x * self.a.dim() + self.a.size(0)",
         "dtype of an attribute": "return x.to(self.a.dtype) + 1", "returns an attribute": "return self.a, x * 2",
         "returns a view of an attribute": "return self.a[1:], x * 2", "returns the argument": "return x, x.view(-1), x + self.a",
         "gradient": "return x * 2 if self.a.requires_grad else x * 3"}

WRITES = {"add_": "self.a.add_(1)", "copy_": "self.a.copy_(x)", "fill_": "self.a.fill_(2)", "relu_": "torch.relu_(self.a)", "view": "self.a[0] += 1",
          "views of views": "self.a.view(3, 1).t()[0, 1:].mul_(2)", "index_put": "self.a[self.a > 0] = 3.5", "lerp_": "self.a.lerp_(x, 0.5)",
          "out": "torch.add(x, 1, out=self.a)", "contiguous": "self.a.contiguous().add_(1)", "to": "self.a.to(torch.float32).add_(1)",
          "reshape": "self.a.reshape(-1).add_(1)", "detach": "self.a.detach().add_(1)", "data": "self.a.data.add_(1)",
          "expand_as": "self.a.expand_as(x).add_(1)", "loop": "for i in range(3):\n    self.a[i] += i", "twice": "self.a.add_(1)\nself.b.add_(self.a)",
          "in a dropout that is off": "F.dropout(self.a, 0.5, False).add_(1)", "chunks": "self.a.chunk(3)[1].zero_()", "argument": "x.add_(1)", "view of the argument": "x[1:].mul_(2)", "batch_norm": "x = x + F.batch_norm(x.view(3, 1).expand(3, 3), self.a, self.b, training=True).sum()",
          "sub-module": "self.one.weight.mul_(2)", "parts": "self.parts[0].add_(1)", "named": "self.named['a'].add_(1)", "zero_": "self.a.zero_()",
          "set twice": "y = self.a\ny.add_(1)\ny.sub_(1)", "number": "self.n += 1", "tensor": "self.a = x + 1", "resize": "self.a.resize_(2)"}
OWN = {"own": "y = x * 2\ny.add_(1)\nreturn y * self.a", "own view": "y = x * 2\ny[0] += 1\nreturn y * self.a", "own twice": "y = x + self.a\nreturn F.relu_(y).mul_(2).sub_(self.b)",
       "clone": "y = self.a.clone()\ny.mul_(2)\nreturn x + y", "empty": "y = x * 0\ny.copy_(self.a)\nreturn y + x"}


def setter(name, value):
    return lambda m, x: setattr(m, name, value() if callable(value) else value)


def frozen_parameter(*size):
    return nn.Parameter(torch.arange(9.).reshape(3, 3)[:size[0], :size[1]] + 5, requires_grad=False)


CHANGES = {"k": setter("k", 4.0), "negative zero": setter("k", -0.0), "nan": setter("k", float("nan")), "n": setter("n", 5), "s": setter("s", "b"),
           "on": setter("on", False), "pair": setter("pair", (4, 5.0)), "maybe": setter("maybe", lambda: torch.ones(3) * 4), "nothing": setter("maybe", None),
           "append": lambda m, x: setattr(m, "items", [1, 2, 3]), "items": setter("items", [3, 2]), "order": setter("table", {"b": 2.0, "a": 1.0}),
           "value": setter("table", {"a": 3.0, "b": 2.0}), "parts": setter("parts", lambda: [torch.ones(3) * 2, torch.ones(3)]),
           "named": setter("named", lambda: {"a": torch.ones(3) * 7}), "buffer": setter("a", lambda: torch.ones(3) * 5),
           "smaller buffer": setter("a", lambda: torch.ones(1) * 6), "other dtype": setter("a", lambda: torch.ones(3, dtype=torch.float64)),
           "alias": lambda m, x: setattr(m, "b", m.a), "argument is the buffer": lambda m, x: setattr(m, "a", x), "view": lambda m, x: setattr(m, "b", m.a[:]),
           "elements": lambda m, x: m.a.mul_(3), "data": lambda m, x: setattr(m.a, "data", torch.ones(3) * 9), "gradients": lambda m, x: m.a.requires_grad_(True),
           "no gradients": lambda m, x: m.a.requires_grad_(False), "eval": lambda m, x: m.eval(), "train": lambda m, x: m.train(), "module": setter("one", lambda: torch.jit.script(State().two)),
           "same module": lambda m, x: setattr(m, "two", m.one), "weight": lambda m, x: setattr(m.one, "weight", frozen_parameter(3, 3)),
           "shared weight": lambda m, x: setattr(m.two, "weight", m.one.weight), "storage": lambda m, x: m.a.set_(torch.arange(3.)), "resize": lambda m, x: m.a.resize_(1),
           "load": lambda m, x: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}, strict=False), "double": lambda m, x: m.double()}


def bits(v):
    if isinstance(v, Tensor):
        d = v.detach()
        return (str(d.dtype), tuple(d.shape), d.stride(), v.requires_grad, v.is_inference(), d.contiguous().reshape(-1).view(torch.uint8).tolist())
    return [bits(i) for i in v] if isinstance(v, (list, tuple)) else repr(v)


def relations(r, known):
    """Which tensors of a result are, or share memory with, tensors that the program holds."""
    all = r if isinstance(r, (list, tuple)) else [r]
    return [[(v is k, v.data_ptr() == k.data_ptr(), v._is_view()) for k in known] for v in all if isinstance(v, Tensor)]


def observe(f, args, known=(), context=contextlib.nullcontext, n=12):
    """The results, states and random numbers of n calls."""
    seen = []
    for _ in range(n):
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out), context():
                r = f(*args)
            seen.append((bits(r), relations(r, [*args, *known])))
        except Exception as e:
            seen.append((type(e).__name__, str(e)))
        seen.append((out.getvalue(), [(bits(t), None if t.is_inference() else t._version) for t in [*args, *known] if isinstance(t, Tensor)]))
    return seen + [torch.rand(1).item()]


def equal_in_all_modes(run):
    """Steps, measured and forced programs give the same; returns the programs that are used."""
    seen = {}
    for mode in (0, 1, 2):
        torch._C._script_programs(mode)
        torch.manual_seed(0)
        seen[mode], used = run()
    for mode in (1, 2):
        for i, (a, b) in enumerate(zip(seen[0], seen[mode])):
            assert a == b, (mode, i)
        assert len(seen[0]) == len(seen[mode])
    return used


def state_run(body, changes):
    def run():
        m, y = torch.jit.script(state(body)()), torch.tensor([1.0, -2.0, 3.0])
        seen, known = [], lambda: [m.a, m.b, m.one.weight, m.two.weight]
        with torch.no_grad():
            seen += observe(m, (y,), known())
            used = uses(m)
            for change in changes:
                try:
                    change(m, y)
                except Exception as e:
                    seen.append((type(e).__name__, str(e)))
                seen += observe(m, (y,), known())
        seen += observe(m, (y,), known())
        return seen, used

    return equal_in_all_modes(run)


CONTAINERS = ("lists", "dicts", "tensor lists", "tensor dicts")


@pytest.mark.parametrize("name", READS)
def test_attributes_that_change_between_calls(name):
    used = state_run(READS[name], CHANGES.values())
    assert used == (name not in CONTAINERS)


@pytest.mark.parametrize("name", ["buffers", "modules", "same tensors"])
@pytest.mark.parametrize("change", CHANGES)
def test_each_change_alone(name, change):
    state_run(READS[name], [CHANGES[change]])


@pytest.mark.parametrize("name", WRITES)
def test_writes_to_what_the_call_did_not_make(name):
    assert not state_run(WRITES[name] + "\nreturn x * self.a.sum() + self.b.sum()", [CHANGES["buffer"], CHANGES["alias"]])


@pytest.mark.parametrize("name", OWN)
def test_writes_to_what_the_call_made(name):
    assert state_run(OWN[name], [CHANGES["buffer"], CHANGES["alias"], CHANGES["argument is the buffer"]])


@pytest.mark.parametrize("name", ["add_", "copy_", "view", "lerp_", "contiguous", "detach", "batch_norm"])
def test_writes_of_traced_functions(name):
    def run():
        m, x = state(WRITES[name] + "\nreturn x * self.a")(), torch.tensor([1.0, -2.0, 3.0])
        with torch.no_grad():
            t = torch.jit.trace(m, (x,), check_trace=False)
            return observe(t, (x,), [m.a, m.b]), uses(t)

    assert not equal_in_all_modes(run)


def norms():
    return {"batch_norm": (nn.BatchNorm1d(3), (4, 3)), "cumulative": (nn.BatchNorm1d(3, momentum=None), (4, 3)), "no statistics": (nn.BatchNorm1d(3, track_running_stats=False), (4, 3)),
            "instance_norm": (nn.InstanceNorm1d(3, track_running_stats=True), (2, 3, 5)), "conv": (nn.Sequential(nn.Conv1d(3, 3, 2), nn.BatchNorm1d(3), nn.ReLU(True)), (2, 3, 5))}


@pytest.mark.parametrize("name", norms())
def test_statistics_of_norms(name):
    def run():
        layer, size = norms()[name]
        m, x, seen = torch.jit.script(layer), torch.randn(size), []
        with torch.no_grad():
            for mode in (True, False, True):
                m.train(mode)
                seen += observe(m, (x,), list(layer.state_dict().values()))
        return seen, uses(m)

    equal_in_all_modes(run)


def test_classes_of_objects_behind_interfaces():
    def run():
        m, x = torch.jit.script(Deeper()), torch.ones(3)
        seen = observe(m, (x,))
        for place in (m.outer, m.layers[0], m.layers[1]):
            for part in (Thrice, Twice, Thrice):
                place.part = torch.jit.script(part())
                seen += observe(m, (x,))
        return seen, uses(m)

    assert equal_in_all_modes(run)


def test_objects_at_the_address_of_a_freed_one():
    def run():
        @torch.jit.script
        def f(x, part: Shape):
            return part.forward(x) + 1

        seen, x = [], torch.ones(3)
        for i in range(40):
            part = torch.jit.script(Thrice() if i // 4 % 2 else Twice())
            seen.append(bits(f(x, part)))
            del part
        return seen, True

    equal_in_all_modes(run)


def test_classes_of_freed_archives():
    def run():
        data = []
        for c in (Twice, Thrice):
            data.append(io.BytesIO())
            torch.jit.save(torch.jit.script(c()), data[-1])
        m, x, seen = torch.jit.script(Outer()), torch.ones(3), []
        for i in range(12):
            data[i % 2].seek(0)
            m.part = torch.jit.load(data[i % 2])
            seen += observe(m, (x,), n=4)
            m.part = torch.jit.script(Twice())
            gc.collect()
        return seen, True

    equal_in_all_modes(run)


def calls_with(function, arguments):
    def run():
        f = script_anew(function)
        seen = []
        for _ in range(3):
            for args in arguments():
                seen += observe(f, args, n=3)
        return seen, uses(f)

    return equal_in_all_modes(run)


def is_same(x, y, z):
    return x + 100 if x is y else x * 2 if y is z else x - y + z


def share(x, y):
    z = x + y
    x.mul_(2)
    return z + y


def out_of(x, y):
    return x.contiguous(), y.to(x.dtype), x.view(-1), y + 1


def steer(x, n: int, k: float, b: bool, o: Optional[int] = None):
    y = x * n + k
    return -y if b else y if o is None else y + o


def strings(x, s: str, items: List[int], table: Dict[str, int]):
    for k in table:
        x = x * 2 + table[k]
    return x + items[-1] + len(items) + len(s)


def colored(x, c: Color):
    return x * 2 if c == Color.RED else x * 3


def tensors_in(x, items: List[Tensor], table: Dict[str, Tensor], pair: Tuple[Tensor, Tensor]):
    if items[0] is items[1]:
        x = x + 100
    if pair[0] is pair[1]:
        x = x + 1000
    if table["a"] is x:
        x = x + 10000
    return x + items[0] * pair[0] - table["a"]


def written_in(x, items: List[Tensor]):
    items[0].add_(1)
    return x + items[0]


def of_kinds(x, d: torch.device, t: int):
    return x.to(d).to(t) * 2


def noisy(x, n: int):
    print("n", n)
    assert n < 3, "too big"
    return x * n


def forked(x):
    a = torch.jit.fork(pointwise, x, x)
    return torch.jit.wait(a) + x


def random(x):
    return x + torch.rand(3) * torch.randn_like(x)


def of_grad(x, y):
    g = x.grad
    return y if g is None else g + y


def vectors(n, *sizes):
    torch.manual_seed(1)
    return [torch.randn(*(sizes or (3,))) for _ in range(n)]


def identity_cases():
    a, b, c = vectors(3)
    return [(a, b, c), (a, a, c), (a, b, b), (a, a, a), (b, a, c), (a, b, a)]


def overlapping():
    base = torch.arange(8.)
    return [(torch.ones(4), torch.ones(4)), (base[:4], base[2:6]), (base[:4], base[:4]), (base[1:5], base[4:])]


def with_grad():
    x, y = vectors(2)
    x.requires_grad_()
    (x * 2).sum().backward()
    z = x.detach().clone().requires_grad_()
    return [(x.detach(), y), (x.detach(), y), (z.detach(), y)]


def containers():
    a, b, c = vectors(3)
    return [(a, [b, c], {"a": b}, (b, c)), (a, [b, b], {"a": b}, (b, c)), (a, [b, c], {"a": a}, (c, c)), (a, [c, b], {"a": c, "b": a}, (b, b))]


ARGUMENTS = {
    is_same: identity_cases, share: overlapping, out_of: overlapping,
    steer: lambda: [(vectors(1)[0], *o) for o in ((1, 2.0, True), (2, 2.0, True), (1, 3.0, True), (1, 2.0, False), (1, 2.0, False, 5), (1, -0.0, True), (1, 0.0, True))],
    strings: lambda: [(vectors(1)[0], *o) for o in (("a", [1], {"a": 1, "b": 2}), ("ab", [1], {"a": 1, "b": 2}), ("a", [1, 2], {"b": 2, "a": 1}), ("a", [2], {"a": 3}))],
    colored: lambda: [(vectors(1)[0], Color.RED), (vectors(1)[0], Color.BLUE)], tensors_in: containers,
    written_in: lambda: [(a, [b]) for a, b in (vectors(2), vectors(2))] + [(v, [v]) for v in vectors(1)],
    of_kinds: lambda: [(vectors(1)[0], torch.device("cpu"), t) for t in (torch.float32, torch.float64, torch.int32)],
    noisy: lambda: [(vectors(1)[0], n) for n in (1, 2, 5)], forked: lambda: [tuple(vectors(1))], random: lambda: [tuple(vectors(1))], of_grad: with_grad,
    norm: lambda: [(v,) for v in (torch.randn(3, 4), torch.randn(4, 3).t(), torch.randn(3, 8)[:, ::2], torch.randn(2, 4), torch.randn(3, 4, dtype=torch.float64))]}


@pytest.mark.parametrize("function", ARGUMENTS, ids=lambda f: f.__name__)
def test_arguments_that_change_between_calls(function):
    calls_with(function, ARGUMENTS[function])


def test_modes_that_change_between_calls():
    @contextlib.contextmanager
    def dtype(d):
        was = torch.get_default_dtype()
        torch.set_default_dtype(d)
        try:
            yield
        finally:
            torch.set_default_dtype(was)

    contexts = [contextlib.nullcontext, torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu"), lambda: dtype(torch.float64), torch.no_grad]

    def run():
        seen, f, g = [], script_anew(made), script_anew(norm)
        x = torch.randn(3, 4)
        with torch.inference_mode():
            inner = torch.randn(3, 4)
        for context in contexts * 2:
            for v in (x, x.clone().requires_grad_(), inner):
                for h in (f, g):
                    seen += observe(h, (v,), context=context, n=4)
        return seen, uses(f)

    assert equal_in_all_modes(run)


def test_hooks_that_come_and_go():
    def run():
        m, x, seen = torch.jit.script(Net().eval().requires_grad_(False)), torch.ones(2, 4), []
        with torch.no_grad():
            for p in m.parameters():
                p.fill_(0.5)
        seen += observe(m, (x,))
        h = nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 100)
        seen += observe(m, (x,))
        h.remove()
        return seen + observe(m, (x,)), uses(m)

    assert equal_in_all_modes(run)


def versioned(x):
    y = x * 2
    y.add_(1)
    z = y[0]
    z.mul_(2)
    return y, z, x.detach(), torch.zeros(2).fill_(1)


def data_of(x):
    return x.data, x * 2


def test_versions_of_results():
    for function, uses_programs in ((versioned, True), (data_of, False)):
        used = calls_with(function, lambda: [(v,) for v in (torch.ones(3, 2), torch.ones(2, 4).t())])
        assert (used > 0) == uses_programs


def test_gradients_of_an_argument_are_read_again():
    def run():
        f = torch.jit.script(of_grad)
        x, y = torch.ones(3, requires_grad=True), torch.ones(3)
        x.grad = y
        seen = []
        with torch.no_grad():
            for g in (y, torch.full((3,), 4.0), None):
                x.grad = g
                seen += observe(f, (x, y))
        return seen, uses(f)

    assert not equal_in_all_modes(run)


def test_views_of_conjugates_and_negatives_run_by_steps():
    def run():
        f, z = script_anew(pointwise), torch.randn(3, dtype=torch.complex64)
        seen = []
        for x in (z, z.conj(), z.imag, z.conj().imag, z):
            seen += [bits(f(x, x).resolve_conj().resolve_neg()) for _ in range(4)]
        return seen, True

    equal_in_all_modes(run)


def test_calls_run_by_their_steps_unless_programs_are_asked_for():
    text = "import cresset as torch\nwas = torch._C._script_programs(0), torch._C._script_programs_here(-1)\nwith torch.jit.optimized_execution(True):\n    print(*was, torch._C._script_programs_here(1))\nprint(torch._C._script_programs_here(-1))"
    out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["0", "-1", "1", "-1"]


def test_an_argument_that_is_a_constant_of_the_program():
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.p = torch.nn.Parameter(torch.ones(3), requires_grad=False)

        def forward(self, x):
            return self.p, x + 1
    m = torch.jit.freeze(torch.jit.script(M().eval()))
    p, other = m(torch.zeros(3))[0], torch.full((3,), 7.0)
    for x in (p, p, p, other, other, other, p):
        got = m(x)
        assert got[0].tolist() == [1, 1, 1] and got[1].tolist() == (x + 1).tolist()
        assert got[0].data_ptr() == p.data_ptr()


def test_views_without_gradients_of_results_that_have_one():
    @torch.jit.script
    def f(x, y):
        return x, y + 1
    node = torch.linspace(0, 3, 4, requires_grad=True) * 2
    with torch.no_grad():
        x = node.view(2, 2)
        for _ in range(4):
            got = f(x, torch.ones(2))
            assert got[0] is x and x.requires_grad and x.is_leaf


def test_errors_of_recorded_calls_are_whole():
    m = torch.jit.script(nn.BatchNorm1d(3))
    with torch.inference_mode():
        x = torch.ones(2, 3)
    for _ in range(4):
        with pytest.raises(RuntimeError) as e:
            m(x)
        assert "or use `torch.no_grad()` instead of `torch.inference_mode()`." in str(e.value)


def test_frozen_lists_that_change_are_read_at_each_call():
    class Sized(nn.Module):
        def __init__(self):
            super().__init__()
            self.sizes = [2, 3]

        def forward(self, x):
            return x.reshape(self.sizes) * 2

        @torch.jit.export
        def turn(self):
            self.sizes.reverse()

    m = torch.jit.script(Sized().eval())
    f, x = torch.jit.freeze(m), torch.arange(6.0)
    for _ in range(3):
        assert same(calls(f, x), calls(m, x))
        m.turn()
