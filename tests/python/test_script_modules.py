"""Modules and containers in compiled code: hooks, properties, interfaces, calls of Python, shared lists and dicts."""
import copy
import gc
import io
import typing
import weakref
import zipfile
from typing import Dict, List, Tuple, Union

import pytest

import cresset as torch
from cresset import nn
from cresset.jit import _forms

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Inner(nn.Module):
    def forward(self, x):
        return x + 1


class Outer(nn.Module):
    """A module with hooks, a property, a method that stays in Python."""

    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.n = 2
        self.seen = 0

    @property
    def pair(self) -> int:
        return self.n * 2

    @pair.setter
    def pair(self, v: int):
        self.n = v // 2

    @torch.jit.ignore
    def note(self, x, k: int) -> int:
        self.seen += 1
        return int(x.sum()) + k

    @torch.jit.unused
    def never(self, x):
        return x.no_such_thing

    def forward(self, x):
        if x.dim() > 5:
            return self.never(x)
        self.pair = self.pair + 2
        return self.inner(x) * self.pair + self.note(x, 3)


def before(self, input: Tuple[torch.Tensor]) -> torch.Tensor:
    return input[0] * 2


def after(self, input: Tuple[torch.Tensor], result: torch.Tensor) -> torch.Tensor:
    return result - input[0]


def test_hooks_properties_and_calls_of_python():
    m = Outer()
    m.inner.register_forward_pre_hook(before)
    m.inner.register_forward_hook(after)
    s = torch.jit.script(m)
    x = torch.ones(2)
    assert torch.equal(m(x), s(x)) and (m.seen, s.seen) == (1, 1)
    assert s.pair == 6 and s.n == 3
    s.pair = 10
    assert s.n == 5
    with pytest.raises(RuntimeError, match="Could not export Python function call 'note'"):
        s.save_to_buffer()


class Shifts(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((2,), 2.))

    @torch.jit.ignore
    def shift(self, x) -> torch.Tensor:
        return x + self.weight

    def forward(self, x):
        return self.shift(x)


class HasShifts(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Shifts()

    def forward(self, x):
        return self.inner(x) * 2


class MadeInPlace(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.inner = Shifts()

    @torch.jit.script_method
    def forward(self, x):
        return self.inner(x) * 2


def scripted(made):
    return torch.jit.script(made)


def traced(made):
    made.inner = torch.jit.script(made.inner)
    return torch.jit.trace(made, torch.ones(2))


WAYS = {
    "module": lambda s: s, "method": lambda s: s.forward, "inner module": lambda s: lambda x: s.inner(x) * 2,
    "inner module alone": lambda s: (lambda inner: lambda x: inner(x) * 2)(s.inner),
    "copy": copy.copy, "deep copy": copy.deepcopy, "inner module of a copy": lambda s: (lambda inner: lambda x: inner(x) * 2)(copy.copy(s).inner),
    "inside of another": lambda s: torch.jit.script(nn.Sequential(s)),
}


@pytest.mark.parametrize("make", [scripted, traced])
@pytest.mark.parametrize("way", WAYS)
def test_programs_keep_the_modules_whose_methods_stay_in_python(way, make):
    original = HasShifts()
    gone = weakref.ref(original.inner)
    program = WAYS[way](make(original))
    del original
    gc.collect()
    assert program(torch.ones(2)).tolist() == [6, 6]
    del program
    gc.collect()
    assert gone() is None


class Counts(nn.Module):
    """A module whose methods of Python read and change what they find in `self`."""

    def __init__(self):
        super().__init__()
        self.count = 2
        self.weight = nn.Parameter(torch.ones(2))
        self.register_buffer("total", torch.ones(1))
        self.note = object()

    @torch.jit.ignore
    def change(self, x, n: int) -> torch.Tensor:
        self.count += 1
        self.total += 1
        self.extra = 3
        assert isinstance(self, torch.jit.ScriptModule) and not hasattr(self, "note")
        return x + n + self.product(x)

    @torch.jit.export
    def product(self, x):
        return x * self.count

    @torch.jit.unused
    def never(self, x: int) -> int:
        return x

    def forward(self, x, flag: bool = False):
        if flag:
            return x + self.never(1)
        return self.change(x, 3) + self.change(x, 4)


class HasCounts(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Counts()
        self.factor = 5

    def forward(self, x):
        return self.inner(x) * self.factor


def test_methods_of_python_see_the_script_module():
    """Results of torch 2.13, which gives such a method a script module over the program's object."""
    x, original = torch.ones(2), Counts()
    first, second = torch.jit.script(original), torch.jit.script(Counts())
    assert first(x).tolist() == [16, 16] and second(x).tolist() == [16, 16]
    assert (first.count, second.count, original.count, first.total.item()) == (4, 4, 2, 3)
    assert not hasattr(first, "extra") and first._c.name == second._c.name
    assert first.never(7) == 7
    with pytest.raises(torch.jit.Error, match="annotated to be ignored and cannot be run"):
        first(x, True)
    outer = torch.jit.script(HasCounts())
    assert outer(x).tolist() == [80, 80] and outer.inner.count == 4
    assert first.code == """def forward(self,
    x: Tensor,
    flag: bool=False) -> Tensor:
  _0 = "This Python function is annotated to be ignored and cannot be run"
  if flag:
    ops.prim.RaiseException(_0)
  else:
    pass
  _1 = torch.add(^change()(self, x, 3), ^change()(self, x, 4))
  return _1
"""


def test_deep_copies_of_modules_with_methods_of_python():
    """torch copies what the attributes hold, and keeps the class."""
    x, made = torch.ones(2), torch.jit.script(Counts())
    shared, deep = copy.copy(made), copy.deepcopy(made)
    made(x)
    assert (made.count, shared.count, deep.count) == (4, 2, 2)
    assert (made.total.item(), shared.total.item(), deep.total.item()) == (3, 3, 1)
    assert deep(x).tolist() == [16, 16] and deep.total.item() == 3 and deep._c.name == made._c.name
    assert deep.weight.requires_grad and deep.weight.is_leaf and deep.weight is not made.weight
    assert not hasattr(deep, "change")
    outer = copy.deepcopy(torch.jit.script(HasCounts()))
    assert outer(x).tolist() == [80, 80]


class Holds(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.tied = self.weight
        self.register_buffer("buffer", torch.zeros(4))
        self.lists = {"a": [self.buffer, torch.ones(4)], "b": [torch.ones(2)]}
        self.pairs = (1, [2, 3])
        self.fixed = nn.Parameter(torch.ones(1), requires_grad=False)
        self.inner = Inner()

    def forward(self, x):
        self.lists["b"].append(x)
        return self.inner(x) * self.weight + len(self.lists["b"]) + self.pairs[1][0]


def test_deep_copies_keep_what_is_the_same():
    made = torch.jit.script(Holds()).eval()
    deep = copy.deepcopy(made)
    deep(torch.ones(2))
    assert deep.weight is deep.tied and not deep.training and not deep.fixed.requires_grad
    assert deep.lists["a"][0] is deep.buffer and deep.buffer is not made.buffer
    assert len(deep.lists["b"]) == 2 and len(made.lists["b"]) == 1 and deep.pairs == (1, [2, 3])
    deep.inner.eval()
    with torch.no_grad():
        deep.buffer.add_(1)
    assert made.buffer.tolist() == [0] * 4 and deep.lists["a"][0].tolist() == [1] * 4
    deep(torch.ones(2)).sum().backward()
    assert deep.weight.grad.tolist() == [2, 2] and made.weight.grad is None


class Turned(nn.Module):
    """Tensors whose elements are not in row-major order."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(120.0).view(2, 3, 4, 5).to(memory_format=torch.channels_last))
        self.register_buffer("turned", torch.arange(6.0).view(2, 3).t())
        self.register_buffer("rows", torch.arange(24).view(2, 3, 4).permute(2, 0, 1))
        self.register_buffer("parts", torch.arange(20.0).view(4, 5)[::2, 1:4])
        self.register_buffer("wide", torch.arange(3.0)[:, None].expand(3, 4))
        self.items = [torch.arange(6.0).view(3, 2).t()]

    def forward(self, x):
        self.items.append(x)
        return x * self.turned


def test_deep_copies_of_modules_keep_the_order_of_elements():
    """The strides of torch 2.13: those of dense tensors stay, others become row-major."""
    made = torch.jit.script(Turned())
    deep = copy.deepcopy(made)
    strides = {"weight": (60, 1, 15, 3), "turned": (1, 3), "rows": (1, 12, 4), "parts": (3, 1), "wide": (4, 1)}
    for name, stride in strides.items():
        was, now = getattr(made, name), getattr(deep, name)
        assert now.stride() == stride and now.tolist() == was.tolist() and now.data_ptr() != was.data_ptr()
    assert deep.items[0].stride() == (1, 2) and deep.items[0].tolist() == made.items[0].tolist()


def test_frozen_modules_lack_attributes_that_only_python_reads():
    """As in torch: the program keeps those that its graphs read."""
    frozen = torch.jit.freeze(torch.jit.script(Shifts()).eval())
    with pytest.raises(RuntimeError, match="AttributeError: 'RecursiveScriptModule' object has no attribute 'weight'"):
        frozen(torch.ones(2))


@torch.jit.ignore
def raises(x, n: int) -> int:
    return [1, 2][n]


@torch.jit.script
def calls_raises(x, n: int):
    return raises(x, n) + 1


def test_exceptions_of_functions_of_python_are_errors_of_the_program():
    assert calls_raises(torch.ones(1), 1) == 3 and "^raises()(x, n)" in calls_raises.code
    assert ": int = ^raises[]()(" in str(calls_raises.graph)
    [node] = calls_raises.graph.findAllNodes("prim::PythonOp")
    assert node.pyname() == "raises" and len(list(node.inputs())) == 2
    with pytest.raises(RuntimeError) as e:
        calls_raises(torch.ones(1), 2)
    assert str(e.value).startswith("The following operation failed in the TorchScript interpreter.\n")
    assert "    return raises(x, n) + 1\n           ~~~~~~ <--- HERE\nRuntimeError: IndexError: list index out of range\n\nAt:\n  " in str(e.value)
    assert f"{__file__}(" in str(e.value) and "): raises\n" in str(e.value)


def test_modules_that_compile_themselves_are_freed():
    made = MadeInPlace()
    gone = weakref.ref(made)
    assert made(torch.ones(2)).tolist() == [6, 6]
    del made
    gc.collect()
    assert gone() is None


def test_hooks_of_the_outer_module_run_and_are_saved():
    m = Inner()
    m.register_forward_pre_hook(before)
    m.register_forward_hook(after)
    s = torch.jit.script(m)
    x = torch.ones(2)
    other = torch.jit.load(io.BytesIO(s.save_to_buffer()))
    for made in (s, other):
        assert torch.equal(made(x), m(x)) and torch.equal(made.forward(x), m.forward(x))


def test_two_hooks_of_one_name_are_refused():
    m = Inner()

    def hook(self, input: Tuple[torch.Tensor]) -> None:
        pass
    m.register_forward_pre_hook(hook)

    def hook(self, input: Tuple[torch.Tensor]) -> None:
        return None
    m.register_forward_pre_hook(hook)
    with pytest.raises(RuntimeError, match="Pre-hook 'hook' on Inner has at least two different python definitions"):
        torch.jit.script(m)


class Scripted(torch.jit.ScriptModule):
    def __init__(self, n: int):
        super().__init__()
        self.n = n
        self.linear = nn.Linear(2, 2)

    @torch.jit.script_method
    def forward(self, x):
        self.n += 1
        return self.linear(x) * self.n


def test_subclasses_of_script_module_are_compiled_when_made():
    m = Scripted(2)
    x = torch.ones(1, 2)
    torch.testing.assert_close(m(x), m.linear(x) * 3)
    assert m.n == 3 and "torch.mul" in m.code
    m.n = 5
    m.define("def twice(self, k: int):\n    return self.n * k\n")
    assert m.twice(2) == 10 and len(list(m.parameters())) == 2


@torch.jit.interface
class Area:
    def area(self, k: int) -> int:
        pass


class Square:
    def __init__(self, a: int):
        self.a = a

    def area(self, k: int) -> int:
        return self.a * self.a * k


class Line:
    def __init__(self, a: int):
        self.a = a

    def area(self, k: int) -> int:
        return 0


def test_interfaces_take_objects_that_have_their_methods():
    def measure(shape: Area, k: int) -> int:
        return shape.area(k)

    def f(n: int) -> Tuple[int, int]:
        return measure(Square(n), 2), measure(Line(n), 2)
    assert torch.jit.script(f)(3) == (18, 0)

    def g(n: int) -> int:
        return measure(n, 2)
    with pytest.raises(RuntimeError, match="Expected a value of type"):
        torch.jit.script(g)


def test_lists_and_dicts_are_shared_when_they_are_scripted():
    @torch.jit.script
    def add(l: List[int], d: Dict[str, int]):
        l.append(4)
        d["z"] = l[0]
    l, d = torch.jit.script([1, 2]), torch.jit.script({"a": 1})
    add(l, d)
    assert list(l) == [1, 2, 4] and dict(d) == {"a": 1, "z": 1} and l == [1, 2, 4] and repr(d) == "{'a': 1, 'z': 1}"
    l[0] = 7
    del l[1], d["a"]
    l.extend([5])
    add(l, d)
    assert list(l) == [7, 4, 5, 4] and d["z"] == 7 and 5 in l and l.count(4) == 2 and l[1:3] == [4, 5]
    for wrong in (lambda: l.append("a"), lambda: d.__setitem__("b", "c"), lambda: "x" in l, lambda: l.extend([1, "a"])):
        with pytest.raises(TypeError, match="Unable to cast"):
            wrong()
    assert len(l) == 4
    with pytest.raises(KeyError):
        d["no"]
    with pytest.raises(IndexError):
        l[9]


def helper(x, k: int = 2):
    return x * k


def test_functions_are_saved_and_their_graphs_inlined():
    @torch.jit.script
    def f(x, n: int = 3):
        return helper(x) + helper(x, n)
    assert "prim::CallFunction" in str(f.graph) and "prim::CallFunction" not in str(f.inlined_graph)
    assert str(f.inlined_graph).count("aten::mul") == 2
    m = torch.jit.load(io.BytesIO(f.save_to_buffer()))
    assert torch.equal(m(torch.ones(2)), f(torch.ones(2))) and torch.equal(m(torch.ones(2), 5), f(torch.ones(2), n=5))


def test_stores_through_masks_change_the_tensor():
    @torch.jit.script
    def f(x):
        x[x > 2] = 0.5
        x[[0, 1]] += 1
        return x
    assert f(torch.arange(4.0)).tolist() == [1.0, 2.0, 2.0, 0.5]


@pytest.mark.parametrize("text, kind", [("try:\n        x = 1\n    except Exception:\n        pass", "try blocks aren't supported"),
                                        ("g = lambda y: y", "Lambda aren't supported"), ("import math", "import statements"),
                                        ("z = {1, 2}", "Set aren't supported")])
def test_syntax_that_is_missing_has_torchs_error(text, kind, tmp_path):
    import importlib.util
    path = tmp_path / "made.py"
    path.write_text(f"def f(x: int):\n    {text}\n    return x\n")
    spec = importlib.util.spec_from_file_location("made", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from cresset.jit.frontend import UnsupportedNodeError
    with pytest.raises(UnsupportedNodeError, match=kind):
        torch.jit.script(module.f)


class Bag(nn.Module):
    """Modules and parameters by name and by place."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"one": Inner(), "two": nn.ReLU()})
        self.weights = nn.ParameterList([nn.Parameter(torch.full((2,), 3.0)), nn.Parameter(torch.ones(2))])
        self.op = torch.neg

    def forward(self, x):
        for name, layer in self.layers.items():
            x = layer(x) + len(name)
        for key in self.layers:
            x = x + len(key)
        for w in self.weights:
            x = x * w
        known = 1 if "one" in self.layers and "six" not in self.layers else 0
        return self.op(self.layers["two"](x)) + len(self.layers) + known + self.weights[0]


def test_containers_of_modules_are_known():
    m = Bag()
    x = torch.ones(2)
    assert torch.equal(torch.jit.script(m)(x), m(x))

    class Wrong(Bag):
        def forward(self, x):
            return self.layers["six"](x)
    with pytest.raises(RuntimeError, match="Key Error, six"):
        torch.jit.script(Wrong())


def test_traces_take_containers_of_tensors():
    def f(pair, named):
        return pair[0] + named["k"][1], [pair[1]]
    x, y = torch.ones(2), torch.full((2,), 2.0)
    t = torch.jit.trace(f, ((x, y), {"k": [x, y]}))
    assert "pair: Tuple[Tensor, Tensor]" in t.code and "named: Dict[str, List[Tensor]]" in t.code
    got = t((y, x), {"k": [x, x]})
    assert torch.equal(got[0], y + x) and torch.equal(got[1][0], x)
    with pytest.raises(RuntimeError, match="Encountering a dict at the output"):
        torch.jit.trace(lambda x: {"a": x}, (x,))
    assert torch.equal(torch.jit.trace(lambda x: {"a": x + 1}, (x,), strict=False)(y)["a"], y + 1)
    with pytest.raises(RuntimeError, match=r"Type 'Tuple\[Tensor, int\]' cannot be traced"):
        torch.jit.trace(lambda x, n: x * n, (x, 3))


class Trouble(Exception):
    pass


def fails(n: int, s: str):
    if n > 1:
        raise Trouble("bad", n)
    return "%s has %d" % (s, n), tuple((n, s))


def test_errors_name_their_class_and_formats_take_tuples():
    f = torch.jit.script(fails)
    assert f(1, "a") == ("a has 1", (1, "a"))
    with pytest.raises(torch.jit.Error, match="test_script_modules.Trouble: \\(bad, 2\\)"):
        f(2, "a")


def wrong_dict(x):
    return dict([("a", 1)], x)


def wrong_hasattr(x):
    return hasattr(x)


@pytest.mark.parametrize("f, text", [(wrong_dict, "dict expected at most 1 argument"), (wrong_hasattr, "hasattr expected 2 arguments")])
def test_wrong_numbers_of_arguments_are_refused(f, text):
    with pytest.raises(RuntimeError, match=text):
        torch.jit.script(f)


def example_of(*size):
    return torch.linspace(-1, 1, torch.Size(size).numel()).reshape(size)


class Joins(nn.Module):
    @torch.jit._overload_method
    def forward(self, x: List[torch.Tensor]) -> torch.Tensor:
        pass

    @torch.jit._overload_method
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass

    def forward(self, x):
        if isinstance(x, torch.Tensor):
            parts = [x]
        else:
            parts = x
        return torch.cat(parts)


class UsesJoins(nn.Module):
    def __init__(self):
        super().__init__()
        self.join = Joins()

    def forward(self, x):
        return self.join(x), self.join([x, x]), doubled(2), doubled("a")


@torch.jit._overload
def doubled(x: int) -> int:
    pass


@torch.jit._overload
def doubled(x: str) -> str:
    pass


def doubled(x):
    return x + x


def test_calls_choose_overloads():
    made = torch.jit.script(UsesJoins())
    loaded = torch.jit.load(io.BytesIO(made.save_to_buffer()))
    for m in (made, loaded):
        one, two, *rest = m(torch.ones(2))
        assert one.tolist() == [1, 1] and two.tolist() == [1, 1, 1, 1] and rest == [4, "aa"]
    assert ".forward__1(x, )" in made.code and ".forward__0([x, x], )" in made.code
    with pytest.raises(RuntimeError, match="Expected a value of type"):
        torch.jit.script(uses_doubled)


def uses_doubled(x: float):
    return doubled(x)


def twice__0(x: int) -> int:
    return x + x


def twice__1(x: str) -> str:
    return x + x


def uses_twice():
    return twice__1("b") + twice__0("a")


class Numbered(nn.Module):
    def part__0(self, x: int) -> int:
        return x

    def part__1(self, x: str) -> str:
        return x

    def forward(self):
        return self.part__0("a")


@pytest.mark.parametrize("make", [Numbered, lambda: uses_twice])
def test_names_with_numbers_are_no_overloads(make):
    with pytest.raises(RuntimeError, match="Expected a value of type 'int' for argument 'x' but instead found type 'str'"):
        torch.jit.script(make())


RECURRENT = [
    (lambda: nn.RNNCell(3, 4, nonlinearity="relu"), example_of(2, 3), example_of(2, 4)),
    (lambda: nn.GRUCell(3, 4), example_of(3), example_of(4)), (lambda: nn.GRUCell(3, 4, bias=False), example_of(2, 3), None),
    (lambda: nn.LSTMCell(3, 4), example_of(2, 3), (example_of(2, 4), example_of(2, 4))),
    (lambda: nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True), example_of(5, 2, 3), None),
    (lambda: nn.LSTM(3, 4, proj_size=2), example_of(5, 3), (example_of(1, 2), example_of(1, 4))),
    (lambda: nn.GRU(3, 4), example_of(5, 2, 3), example_of(1, 2, 4)), (lambda: nn.RNN(3, 4, bias=False), example_of(5, 3), None)]


def flat(x):
    return [x] if isinstance(x, torch.Tensor) else [t for item in x for t in flat(item)]


@pytest.mark.parametrize("make, x, state", RECURRENT)
def test_recurrent_layers_are_compiled(make, x, state):
    torch.manual_seed(0)
    m = make()
    made = torch.jit.script(m)
    loaded = torch.jit.load(io.BytesIO(made.save_to_buffer()))
    for k in (made, loaded):
        assert all(map(torch.equal, flat(k(x, state)), flat(m(x, state))))
    with pytest.raises(Exception, match="Expected input to be"):
        made(example_of(1, 1, 1, 1))


def pooled(x):
    return torch.nn.functional.max_pool2d(x, 2)


def test_a_default_of_a_list_of_fixed_length_is_saved_as_a_list():
    class Pools(nn.Module):
        def forward(self, x):
            return pooled(x)
    made = torch.jit.script(Pools())
    with zipfile.ZipFile(io.BytesIO(made.save_to_buffer())) as archive:
        code = "".join(archive.read(n).decode() for n in archive.namelist() if n.endswith(".py"))
    assert "padding: List[int]=[0, 0]" in code and made(torch.ones(1, 1, 4, 4)).shape == (1, 1, 2, 2)


@pytest.mark.parametrize("name", sorted(_forms._forms))
def test_every_function_with_a_form_is_compiled(name):
    made = torch.jit.script(_forms.named(name))
    assert f"def {made.name}(" in made.code
    leaving = "interpolate", "embedding_bag", "get_enum", "multilabel_soft_margin_loss", "_weighted", "cdist"
    if name not in leaving and "assert" not in _forms._forms[name].source:
        # these leave inside of branches, as torch's do
        assert not any(node.kind() == "prim::Uninitialized" for node in made.graph.nodes())


def _pools(d):
    x = torch.randn(2, 4, *[6] * d)
    t = f"{d}d"
    yield from ((f"MaxPool{t}(2)", (x,)), (f"MaxPool{t}(2, return_indices=True)", (x,)),
                (f"AdaptiveMaxPool{t}(2, return_indices=True)", (x,)), (f"LPPool{t}(2, 2)", (x.abs(),)),
                (f"LPPool{t}(float('inf'), 2)", (x,)), (f"InstanceNorm{t}(4, affine=True)", (x,)),
                (f"InstanceNorm{t}(4, track_running_stats=True)", (x,)), (f"ConvTranspose{t}(4, 2, 3, stride=2)", (x,)),
                (f"Dropout{t}()", (x,)), (f"Upsample(scale_factor=1.5, mode='area')", (x,)),
                (f"Upsample(size={(5,) * d}, mode='{('linear', 'bilinear', 'trilinear')[d - 1]}', align_corners=True)", (x,)))


def _losses():
    x, y, z = torch.randn(4, 3), torch.rand(4, 3), torch.randint(0, 3, (4,))
    sign = torch.tensor([1., -1, 1, -1])
    for text in ("L1Loss()", "SmoothL1Loss(beta=0.5)", "HuberLoss(delta=0.5)", "BCEWithLogitsLoss()", "PoissonNLLLoss()",
                 "KLDivLoss(reduction='batchmean')", "HingeEmbeddingLoss()", "SoftMarginLoss(reduction='sum')",
                 "MultiLabelSoftMarginLoss()", "CosineSimilarity()"):
        yield text, (x, y)
    yield from (("BCELoss()", (y, y)), ("MultiLabelMarginLoss()", (x, z.reshape(4, 1).expand(4, 3))), ("MultiMarginLoss()", (x, z)),
                ("MarginRankingLoss()", (x[:, 0], y[:, 0], sign)), ("CosineEmbeddingLoss()", (x, y, sign)),
                ("TripletMarginLoss()", (x, y, x + y)),
                ("CTCLoss()", (torch.randn(5, 2, 3).log_softmax(2), torch.ones(2, 2, dtype=torch.long),
                               torch.tensor([5, 5]), torch.tensor([2, 1]))))


def _layers():
    image = torch.randn(2, 4, 6, 6)
    yield from (("Conv3d(4, 2, 2, padding=1, padding_mode='reflect')", (torch.randn(2, 4, 3, 3, 3),)), ("Unfold(2)", (image,)),
                ("Fold(3, 2)", (torch.randn(1, 8, 4),)), ("RReLU()", (image,)), ("Softmin(1)", (image,)),
                ("LocalResponseNorm(2)", (image,)), ("EmbeddingBag(5, 3)", (torch.tensor([[0, 1], [4, 2]]),)),
                ("UpsamplingNearest2d(scale_factor=2)", (image,)), ("UpsamplingBilinear2d(size=7)", (image,)))


def _fractional(d):
    for options in ("output_size=3", "output_ratio=0.5, return_indices=True"):
        yield f"FractionalMaxPool{d}d(2, {options})", (torch.randn(2, 4, *(8, 9, 7)[:d]),)
    yield f"FractionalMaxPool{d}d(2, output_size=1)", (torch.randn(4, *(8, 9, 7)[:d]),)


def _attention():
    x, y, hidden = torch.randn(3, 5, 8), torch.randn(3, 7, 8), torch.rand(5, 5) > 0.8
    padded = torch.arange(5).expand(3, 5) > torch.tensor([[4], [2], [3]])
    turned, short = x.transpose(0, 1).contiguous(), x[0]
    for options in ("batch_first=True", "batch_first=True, bias=False", "add_bias_kv=True, add_zero_attn=True, batch_first=True"):
        text = f"MultiheadAttention(8, 2, {options})"
        yield from ((text, (x, x, x)), (text, (x, y, y)), (text, (x, x.clone(), x.clone())), (text, (short, short, short)),
                    (text, (x, x, x, padded, True, hidden, False)), (text, (x, x, x, padded, False)))
    yield from (("MultiheadAttention(8, 2)", (turned, turned, turned)), ("MultiheadAttention(8, 2, kdim=6, vdim=4)",
                (torch.randn(5, 3, 8), torch.randn(7, 3, 6), torch.randn(7, 3, 4))))
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    layer = "nn.TransformerEncoderLayer(8, 2, 16, activation='gelu', batch_first=True)"
    yield from (("TransformerEncoderLayer(8, 2, 16, norm_first=True, batch_first=True)", (x, mask)),
                (f"TransformerEncoder({layer}, 2, nn.LayerNorm(8))", (x, mask)), (f"TransformerEncoder({layer}, 2)", (x, None, padded)),
                ("TransformerDecoderLayer(8, 2, 16, activation=nn.ReLU())", (turned, turned)),
                ("Transformer(8, 2, 1, 2, 16, batch_first=True)", (x, x, None, mask)))


@pytest.mark.parametrize("text, inputs", [*_pools(1), *_pools(2), *_pools(3), *_losses(), *_layers(), *_fractional(2), *_fractional(3),
                                          *_attention()], ids=lambda x: x if isinstance(x, str) else "")
def test_modules_compute_the_same_compiled(text, inputs):
    m = eval(f"nn.{text}", {"nn": nn}).eval()
    made = torch.jit.script(m)
    torch.manual_seed(0)
    found = made(*inputs)
    torch.manual_seed(0)
    want = m(*inputs)
    pairs = list(zip(found, want)) if isinstance(want, tuple) else [(found, want)]
    assert all(a is b if b is None else torch.equal(a, b) for a, b in pairs)


class Applies(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_modules_that_hold_other_functions_have_other_classes():
    x = torch.randn(5)
    for function in (torch.relu, torch.nn.functional.gelu, torch.tanh, torch.relu):
        assert torch.equal(torch.jit.script(Applies(function))(x), function(x))


def test_operators_that_functions_of_the_library_compute_are_saved_by_their_names():
    made = torch.jit.script(nn.FractionalMaxPool2d(2, output_size=3))
    with zipfile.ZipFile(io.BytesIO(made.save_to_buffer())) as archive:
        code = "".join(archive.read(n).decode() for n in archive.namelist() if n.endswith(".py"))
    assert "torch.fractional_max_pool2d(" in code and "__library__" not in code
    with pytest.raises(RuntimeError, match=r"fractional_max_pool2d\(\): pool height 2 too large relative to input height 3"):
        made(torch.ones(1, 1, 3, 3))


def test_children_are_unrolled():
    class Kids(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.bc = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            n = 0
            for m in self.children():
                x = m(x)
            for name, m in self.named_children():
                x = m(x)
                n += len(name)
            return x, n
    m, x = Kids(), torch.randn(2, 3)
    found, want = torch.jit.script(m)(x), m(x)
    assert torch.equal(found[0], want[0]) and found[1] == want[1] == 3


class Chosen(torch.nn.Module):
    def __init__(self, twice):
        super().__init__()
        self.forward = self.twice if twice else self.plus

    def twice(self, x):
        return x * 2

    def plus(self, x):
        return x + self.more(x)

    def more(self, x):
        return x * 3


def test_a_method_that_init_chooses_is_compiled():
    """Modules whose objects chose different methods do not share a class."""
    made = torch.jit.script(torch.nn.Sequential(Chosen(True), Chosen(False), Chosen(True)))
    assert made(torch.ones(2)).tolist() == [16., 16.]
    assert "more" in made[1].code and "more" not in made[0].code


def test_isinstance_of_a_list_is_written_as_torch_reads_it():
    def f(x: Union[torch.Tensor, List[torch.Tensor]]):
        return x[0] if isinstance(x, list) else x
    assert "isinstance(x, list)" in torch.jit.script(f).code


def scale_by(number):
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.number = number

        def forward(self, x):
            return x * self.number
    return Scale()


def test_names_are_free_again_when_the_registry_is_cleared():
    def double(x):
        return x * 2
    modules, functions = [], []
    for number in (2, 3.5):  # attributes of different types make different classes
        torch._C._jit_clear_class_registry()
        modules.append(torch.jit.script(scale_by(number)))
        functions.append(torch.jit.script(double))
    first, second = (m._c.qualified_name for m in modules)
    assert first == second and first.endswith(".Scale") and "mangle" not in first and functions[0].qualified_name == functions[1].qualified_name
    assert "mangle" in str(torch.jit.script(scale_by(2)).graph)  # a third class, without clearing
    # what was compiled before computes as before, and programs made later call it
    x, (old, new) = torch.ones(2), functions
    assert torch.equal(modules[0](x), 2 * x) and torch.equal(modules[1](x), 3.5 * x)

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = modules[0]

        def forward(self, x):
            return old(self.inner(x)) + 10 * new(x)
    torch._C._jit_clear_class_registry()
    made = torch.jit.script(Both())
    assert torch.equal(made(x), torch.full((2,), 24.0))
    file = io.BytesIO()
    torch.jit.save(made, file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(x), made(x))


@torch.jit.interface
class Doubles(nn.Module):
    def twice(self, x: torch.Tensor) -> torch.Tensor:
        pass


class HasTwice(nn.Module):
    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class UsesDoubles(nn.Module):
    part: Doubles

    def __init__(self):
        super().__init__()
        self.part = HasTwice()

    def forward(self, x):
        return self.part.twice(x)


def test_interfaces_are_known_after_the_registry_is_cleared():
    for _ in range(2):
        torch._C._jit_clear_class_registry()
        assert torch.equal(torch.jit.script(UsesDoubles())(torch.ones(2)), torch.full((2,), 2.0))


class Inspector:
    """A class that no script can hold: its annotation is not a type of scripts."""

    def __init__(self, cls: type):
        self.cls = cls

    def names(self, value: typing.Type) -> typing.Any:
        return dir(value)


def test_an_attribute_whose_class_does_not_compile_is_left_out():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inspector, self.scale = Inspector(Net), 3.0

        def forward(self, x):
            return x * self.scale

    class Reads(Net):
        def forward(self, x):
            return self.inspector.names(x)
    x = torch.ones(2)
    assert torch.equal(torch.jit.script(Net())(x), x * 3)
    with pytest.raises(RuntimeError, match="Module 'Reads' has no attribute 'inspector'"):
        torch.jit.script(Reads())
