"""Errors of the compiler whole: texts and places that torch 2.13 gives; modules that take the places of interfaces."""
import enum
from typing import Dict, List, Optional, Tuple

import pytest

import cresset as torch
from cresset import nn
from cresset.testing import FileCheck

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"foo": nn.Linear(1, 1)})

    def forward(self, x):
        return self.layers["blah"](x)


class Late(nn.Module):
    def forward(self, x):
        self.x: int = 3
        return x


def name_of_attribute(x, name: str):
    return hasattr(x, name)


def attribute_of_tuple(x: Tuple[str, int]) -> int:
    return getattr(x, "x", 2)


def with_number(x: int):
    with x as y:
        pass
    return 1


def wrong_key():
    a = {"b": 1}
    a[1] = 2
    return a


def floats_for_ints():
    x: List[int] = [1.0, 2.0]
    return x


def number_and_text():
    x: List[Optional[int]] = [1, "a"]
    return x


def mixed_values():
    x: Dict[str, int] = {"a": 1.0, "b": "c"}
    return x


def wrong_keys():
    x: Dict[str, int] = {1: 1}
    return x


def two_kinds_of_keys():
    return {"a": 1, 2: 3}


def text_into_ints(x: List[int]):
    x.append("a")


def colors():
    res = []
    for e in Color:
        res.append(e.value)
    return res


def starts_with_number(x: str):
    return x.startswith(3)


def no_dim(x):
    return torch.softmax(x)


# (program, part of the text, what the line below marks)
REFUSED = [
    (Layers, 'Key Error, blah', 'self.layers["blah"'),
    (Late, "Type annotations on instance attributes must be declared in __init__, not 'forward'", "self.x: int"),
    (name_of_attribute, "hasattr's second argument must be a string literal", "name"),
    (attribute_of_tuple, "hasattr's first argument must be a object or NamedTuple, but got a normal Tuple Tuple[str, int] instead", ""),
    (with_number, "With item expression must return an object", "x"),
    (wrong_key, "aten::_set_item.str(Dict(str, t)(a!) l, str(b -> *) idx, t(c -> *) v) -> ():\n  Expected a value of type 'str'", "a[1] = 2"),
    (floats_for_ints, "did not match the types of the given list elements, which were unified to float:", "[1.0, 2.0"),
    (number_and_text, "`List[Optional[int]]` did not match the types of the given list elements, which were unified to Union[int, str]:", ""),
    (mixed_values, "Type annotation was inferred to be `Dict[str, int]`, but the type of values given by the dict literal is "
     "Union[float, str]:", ""),
    (wrong_keys, "Type annotation was inferred to be Dict[str, int]but the type of keys given by the dict literal is int:", "{1: 1"),
    (two_kinds_of_keys, "Dict keys must contain only a single type. Expected: str but found int instead:", "2"),
    (text_into_ints, "\n\naten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!):\nCould not match type str to t in argument 'el': Type "
     "variable 't' previously matched to type int is matched to type str.\n:\n", "x.append"),
    (colors, "Type variable 't' previously matched to type Tensor is matched to type int.\n:\n", ""),
    (starts_with_number, "\n\naten::startswith(str self, str substr, int start=0, int end=-1) -> bool:\nExpected a value of type 'str' for "
     "argument 'substr' but instead found type 'int'.\n:\n", "x.startswith"),
    (no_dim, "aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor:\n  Argument dim not provided.", ""),
]


@pytest.mark.parametrize("what, text, marked", REFUSED, ids=lambda x: getattr(x, "__name__", ""))
def test_errors_have_torchs_text_and_place(what, text, marked):
    with pytest.raises((RuntimeError, ValueError)) as found:
        torch.jit.script(what() if isinstance(what, type) else what)
    assert text in str(found.value)
    if marked:
        FileCheck().check_source_highlighted(marked).run(str(found.value))


def test_a_dict_of_several_types_has_values_of_their_union():
    def mixed():
        return {"a": 1, "b": "c"}
    f = torch.jit.script(mixed)
    assert f() == {"a": 1, "b": "c"} and "Dict(str, Union(int, str))" in str(f.graph)


def test_a_later_place_may_be_the_highlighted_one():
    text = "x = x\n    ~ <--- HERE\n"
    FileCheck().check_source_highlighted("x").run(text)
    with pytest.raises(RuntimeError, match="find highlighted"):
        FileCheck().check_source_highlighted("x =").run(text)


def test_graphs_are_of_torchs_class():
    @torch.jit.script
    def f(x):
        return x + 1
    assert isinstance(f.graph, torch._C.Graph) and not isinstance(f.graph, torch._C.RecordedGraph)


# --- modules in the place of an interface ---

@torch.jit.interface
class Part(nn.Module):
    def one(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        pass

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        pass


class First(nn.Module):
    def one(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.one(input, input)


class Second(nn.Module):
    def one(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * b

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.one(input, input) + 5


class OfInts(nn.Module):
    def forward(self, input: int) -> int:
        return input + 1


class Lacks(nn.Module):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return input + 1


class Whole(nn.Module):
    part: Part

    def __init__(self):
        super().__init__()
        self.part = First()

    def forward(self, x):
        return self.part.forward(x)


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = First()

    def forward(self, x):
        return self.part(x)


def test_modules_of_an_interface_can_be_exchanged():
    m, x = torch.jit.script(Whole()), torch.full((2,), 3.0)
    assert m(x).tolist() == [6, 6] and [name for name, _ in m.named_modules()] == ["", "part"]
    m.part = torch.jit.script(Second())
    assert m(x).tolist() == [14, 14] and m.part(x).tolist() == [14, 14]
    with pytest.raises(RuntimeError, match="Cannot re-assign modules in a ScriptModule with non-scripted module, tried to replace "
                                           r"existing module 'part': Second\(\)"):
        m.part = Second()
    with pytest.raises(RuntimeError, match="is not compatible with interface .*Part\nClass '.*Lacks .*' does not have method 'one' but "
                                           "'.*Part' does"):
        m.part = torch.jit.script(Lacks())
    with pytest.raises(RuntimeError, match=r"Method on class '.*OfInts .*' \(1\) is not compatible with interface '.*Part' \(2\)\n"
                                           r"  \(1\) forward\(.*OfInts self, int input\) -> int\n"
                                           r"  \(2\) forward\(InterfaceType<Part> self, Tensor input\) -> Tensor\n"):
        m.part = torch.jit.script(OfInts())
    assert m(x).tolist() == [14, 14]


def test_other_modules_are_exchanged_for_their_like():
    m, x, other = torch.jit.script(Plain()), torch.full((2,), 3.0), torch.jit.script(First())
    m.part = other
    assert m(x).tolist() == [6, 6]
    with pytest.raises(RuntimeError, match=r"Expected a value of type '.*First \(of Python compilation unit at: .*\)' for field 'part', "
                                           r"but found '.*Second \(of Python"):
        m.part = torch.jit.script(Second())


# --- smaller rules ---

class WithDropped:
    def __init__(self, a: List[torch.Tensor]):
        self.a = a

    def first(self):
        return self.a[0]

    @torch.jit._drop
    def describe(self, n: "a type that nobody has") -> pytest.Item:
        return [n for n in self.a]


def test_a_dropped_method_may_have_any_types():
    def use(x):
        return WithDropped([x, x + 1]).first()
    assert torch.jit.script(use)(torch.ones(2)).tolist() == [1, 1]


def test_a_program_is_not_saved_where_no_folder_is(tmp_path):
    class Twice(nn.Module):
        def forward(self, x):
            return 2 * x
    m = torch.jit.script(Twice())
    with pytest.raises(RuntimeError, match="Parent directory .*missing does not exist."):
        m.save(tmp_path / "missing" / "m.pt")
    m.save(tmp_path / "m.pt")
    assert torch.jit.load(tmp_path / "m.pt")(torch.ones(1)).item() == 2
