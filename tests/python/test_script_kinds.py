"""Values that become numbers, refusals of freezing, passes on graphs, memory of traces: what torch's own tests ask for."""
import gc
import math
import weakref
from typing import Any, List, Tuple

import numpy
import pytest

import cresset as torch
from cresset import nn

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"),
              pytest.mark.filterwarnings("ignore::cresset.jit.TracerWarning")]


# --- arguments: torch 2.13 takes what Python converts ---

@torch.jit.script
def as_bool(x: bool):
    return x


@torch.jit.script
def as_int(x: int):
    return x


@torch.jit.script
def as_float(x: float):
    return x


@torch.jit.script
def total(x: List[bool]) -> int:
    return sum(x)


CONVERTED = [
    (as_bool, 3, True), (as_bool, 0, False), (as_bool, 2.5, True), (as_bool, None, False), (as_bool, numpy.bool_(1), True),
    (as_bool, torch.zeros(1), False), (as_int, torch.ones(1), 1), (as_int, torch.tensor(2.7), 2), (as_int, True, 1),
    (as_int, numpy.int32(3), 3), (as_int, torch.tensor(True), 1), (as_float, torch.tensor(3), 3.0), (as_float, True, 1.0),
    (as_float, numpy.float32(1.5), 1.5), (total, [0, 1, 1, 0], 2),
]


@pytest.mark.parametrize("function, value, want", CONVERTED, ids=range(len(CONVERTED)))
def test_numbers_of_other_types_are_converted(function, value, want):
    made = function(value)
    assert made == want and type(made) is type(want)


@pytest.mark.parametrize("function, value", [
    (as_bool, "a"), (as_bool, []), (as_bool, torch.ones(2)), (as_int, 2.5), (as_int, "a"), (as_int, torch.ones(2)),
    (as_float, "a"), (as_float, None), (as_float, torch.ones(2))])
def test_what_is_no_number_is_refused(function, value):
    with pytest.raises(RuntimeError, match="Expected a value of type '(bool|int|float)' for argument 'x'"):
        function(value)


def test_a_number_that_is_too_large_is_no_int_from_a_tensor():
    with pytest.raises(RuntimeError, match="Expected a value of type 'int'"):
        as_int(torch.tensor(math.inf))


# --- freezing ---

class ReturnsItself(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.ones(3)

    def forward(self, x):
        return self


class PartInside(nn.Module):
    """An attribute has another one inside, and is changed through its item."""

    def __init__(self):
        super().__init__()
        self.a = torch.arange(6)
        self.b = [self.a, torch.tensor([10])]

    def forward(self, x):
        self.b[0][0] += 10
        return self.a.sum()


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        a = torch.arange(6)
        self.b = [a.view(3, 2), torch.tensor([10])]
        self.c = (20, a.view(2, 3))

    def forward(self, x):
        return self.b[0].sum() + self.c[1].sum()


class ChangedItself(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.arange(6)
        self.b = [self.a, torch.tensor([10])]

    def forward(self, x):
        self.a[1] += 10
        return self.b[0].sum()


@torch.jit.interface
class Doer(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass


class Doubles(nn.Module):
    def forward(self, x):
        return x * 2


class Swaps(nn.Module):
    part: Doer

    def __init__(self):
        super().__init__()
        self.part, self.other = Doubles(), Doubles()

    def forward(self, x):
        self.part = self.other
        return self.part(x)


@pytest.mark.parametrize("module, why", [
    (ReturnsItself, "attempted to freeze a module that return itself"),
    (PartInside, "module contains attributes values that overlaps"),
    (Views, "module contains attributes values that overlaps"),
    (Swaps, "Freezing does not support SetAttr on an interface type. SetAttr is attempted on 'part'")])
def test_modules_that_torch_does_not_freeze_are_refused(module, why):
    with pytest.raises(RuntimeError, match=why):
        torch._C._freeze_module(torch.jit.script(module().eval())._c)


def test_an_attribute_that_changes_itself_stays_with_those_that_share_it():
    frozen = torch._C._freeze_module(torch.jit.script(ChangedItself().eval())._c)
    assert frozen.hasattr("a") and frozen.hasattr("b")
    assert frozen.forward(torch.ones(1)) == sum(range(6)) + 10


def test_a_missing_field_is_named_with_its_class():
    program = torch.jit.script(Doubles())._c
    with pytest.raises(AttributeError, match=r"Doubles \(of Python .*\) does not have a field with name 'nothing'"):
        program.nothing


# --- graphs ---

def test_passes_that_a_program_runs_stay_on_the_graph_of_the_function():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.dropout = nn.Dropout(0.5)

        def forward(self, x):
            return self.dropout(x)

    m = torch.jit.script(Net().eval())
    assert "prim::CallMethod" in str(m.graph)
    torch._C._jit_pass_inline(m.graph)
    assert "aten::dropout" in str(m.graph) and "CallMethod" not in str(m.graph)
    assert "aten::dropout" not in str(torch.jit.script(Net().eval()).graph)  # another program is as it was
    copy = m.graph.copy()
    torch._C._jit_pass_dce(copy)
    x = torch.ones(3)
    assert torch.equal(m(x), x)


def test_the_graph_that_runs_has_numbers_for_constant_tensors():
    def f(x):
        return ((x + 2 - 4) * 6) / 8

    traced = torch.jit.trace(f, (torch.ones(2),))
    assert str(traced.graph_for(torch.ones(2))).count(": int = prim::Constant") == 5  # as in torch: 2, 4, 6, 8, and alpha


# --- sources ---

def test_a_type_comment_may_lack_the_result():
    def f(x, name):
        # type: (Tensor, str)
        return x, name + "!"

    assert torch.jit.script(f)(torch.ones(1), "a")[1] == "a!"


def test_units_know_pythons_exceptions():
    unit = torch.jit.CompilationUnit("def f(x: int) -> int:\n    if x > 0:\n        raise ValueError('three')\n    return 1\n")
    assert unit.f(0) == 1
    with pytest.raises(torch.jit.Error, match="ValueError: three"):
        unit.f(1)


class Numbered(nn.ModuleList):
    def forward(self, x):
        for part in self:
            x = part(x)
        return x - 5


def test_containers_may_have_a_forward():
    m = Numbered([Doubles(), Doubles()])
    assert torch.jit.script(m)(torch.ones(1)).item() == m(torch.ones(1)).item() == -1


def test_the_arguments_of_exit_are_of_any_type():
    class Typed:
        def __enter__(self):
            return 1

        def __exit__(self, a: str, b: Any, c: Any) -> None:
            pass

    def f(x, cm: Typed):
        with cm as _:
            pass
        return x

    torch.jit.script(Typed)
    with pytest.raises(RuntimeError, match="argument 1 of __exit__ must have Any type; TorchScript does not support passing"):
        torch.jit.script(f)


# --- hooks: torch 2.13 wrote the texts ---

class Says(nn.Module):
    def forward(self, input: str):
        return input + "!"


class Pair(nn.Module):
    def forward(self, input: Tuple[int]):
        return input


class Alone(nn.Module):
    def forward(self):
        return 1


class Two(nn.Module):
    def forward(self, a: str, b: int):
        return a


def types_inside(self, input: Tuple[None]) -> Tuple[str]:
    return ("hello",)


def one_more(self, input: Tuple[str], more: str) -> Tuple[str]:
    return ("hello",)


def no_tuple(self, input: int) -> Tuple[str]:
    return ("hello",)


def returns_a_number(self, input: Tuple[str]) -> int:
    return 1


def returns_unsaid(self, input: Tuple[str]):
    return None


def loses_a_tuple(self, input: Tuple[Tuple[int]]) -> Tuple[int]:
    return (11,)


def returns_other_items(self, input: Tuple[str]) -> Tuple[int]:
    return (1,)


def returns_fewer(self, input: Tuple[str, int]) -> Tuple[str]:
    return ("a",)


def nothing_in(self, input: Tuple[()]) -> Tuple[str]:
    return ("a",)


PRE_HOOKS = [
    (Says, types_inside, "has the wrong inner types for the input tuple argument. Received type: 'Tuple[NoneType]'.\nThis error"),
    (Says, one_more, "was expected to only have exactly 2 inputs but it had 3 inputs. This error"),
    (Says, no_tuple, "expected the input argument to be typed as a Tuple but found type: 'int' instead.\nThis error"),
    (Says, returns_a_number, "returned the wrong type of: 'int'.This error"),
    (Says, returns_unsaid, "is missing a return annotation. Return annotations are required, please add one.\nThis error"),
    (Says, returns_other_items, "returned the wrong type of: 'Tuple[int]'. The returned tuple contains the wrong inner types.\nThis"),
    (Two, returns_fewer, "returned the wrong type of: 'Tuple[str]'. The returned tuple contains the wrong number of contained types.\n"),
    (Two, types_inside, "has the wrong number of contained types for the input argument's Tuple. Received type: 'Tuple[NoneType]'.\n"),
    (Alone, types_inside, "was expecting Tuple[()] as the input type. Received type: 'Tuple[NoneType]'.\nThis error"),
    (Alone, nothing_in, "Was expecting either 'None' or 'Tuple[()]' since forward had no arguments.\nThis error"),
    (Pair, loses_a_tuple, "returned the wrong type of: 'Tuple[int]'. When forward has a single tuple input argument, the return needs "
                          "to be 'None' or a nested tuple containing forward's input tuple argument as in: 'Tuple[Tuple[int]]'.\n"),
]


@pytest.mark.parametrize("module, hook, why", PRE_HOOKS, ids=[f"{m.__name__}-{h.__name__}" for m, h, _ in PRE_HOOKS])
def test_hooks_before_forward_are_declared_as_it_is(module, hook, why):
    m = module()
    m.register_forward_pre_hook(hook)
    with pytest.raises(RuntimeError) as e:
        torch.jit.script(m)
    assert str(e.value).startswith(f"Pre-hook '{hook.__name__}' on module '{module.__name__}' ") and why in str(e.value)


def counts(self, input: Tuple[str], output: str):
    return 7


def takes_text(self, input: Tuple[str], output: str):
    return 8


def takes_a_number(self, input: Tuple[str], output: int):
    return output + 1


def test_a_hook_takes_what_the_hook_before_it_returns():
    m = Says()
    m.register_forward_hook(counts)
    m.register_forward_hook(takes_a_number)
    assert torch.jit.script(m)("a") == 8
    m.register_forward_hook(takes_text)
    with pytest.raises(RuntimeError, match="wrong type for the output argument. Received type: 'str'. Expected type: 'int'."):
        torch.jit.script(m)


# --- sorting ---

class Unordered:
    def __init__(self):
        pass


class ComparesNumbers:
    def __init__(self):
        pass

    def __lt__(self, other: int) -> bool:
        return True


def sorts_objects():
    x = [Unordered(), Unordered()]
    x.sort()
    return x


def sorts_others():
    return sorted([ComparesNumbers(), ComparesNumbers()])


def sorts_lists():
    return sorted([[1], [2]])


@pytest.mark.parametrize("function, why", [
    (sorts_objects, r"To sort a list of __torch__\S*Unordered .* it must define a __lt__ method with two inputs of type .* a bool"),
    (sorts_others, r"To sort a list of __torch__\S*ComparesNumbers .* it must define a __lt__ method"),
    (sorts_lists, r"or Tuples of aforementioned types can be sorted, got list of List\[int\]")])
def test_lists_of_what_has_no_order_are_not_sorted(function, why):
    with pytest.raises(RuntimeError, match=why):
        torch.jit.script(function)()


# --- memory ---

class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x) + torch.ones(3)


@pytest.mark.parametrize("make", [lambda m: torch.jit.trace(m, torch.ones(1, 3)), torch.jit.script], ids=["trace", "script"])
def test_modules_and_their_parameters_are_freed(make):
    m = Linear()
    module, weight = weakref.ref(m), weakref.ref(m.inner.weight)
    program, x = make(m), torch.ones(1, 3)
    want = m(x).detach().clone()
    del m
    gc.collect()
    assert torch.equal(program(x), want)
    del program
    gc.collect()
    assert module() is None and weight() is None


def test_a_class_outlives_the_module_that_it_was_made_from():
    first = torch.jit.script(Linear())
    del first
    gc.collect()
    m = Linear()
    x = torch.ones(1, 3)
    assert torch.equal(torch.jit.script(m)(x), m(x))
