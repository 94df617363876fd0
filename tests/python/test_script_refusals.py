"""What the compiler refuses, in torch's words; and results that depend on the same rules."""
import enum
from collections import OrderedDict
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import pytest

import cresset as torch
from cresset import nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@torch.jit.interface
class One(nn.Module):
    def one(self, x: torch.Tensor) -> torch.Tensor:
        pass


class HasOne(nn.Module):
    def one(self, x: torch.Tensor) -> torch.Tensor:
        return x


class UsesOne(nn.Module):
    part: One

    def __init__(self):
        super().__init__()
        self.part = HasOne()

    def forward(self, x):
        return self.part.two(x)


class Bare(object):
    kind = ""

    def __init__(self):
        self.n = 1


class NoTruth(object):
    def __init__(self):
        pass

    def __bool__(self):
        return (1, 2)


class Late(object):
    def __init__(self, n: int):
        self.n = n

    def set(self, n: int):
        self.n: int = n


class Parent(object):
    def __init__(self):
        self.parent = torch.jit.annotate(Optional[Parent], None)


class Listed(nn.Module):
    __jit_ignored_attributes__ = ["secret"]

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([HasOne(), HasOne()])
        self.named = nn.ModuleDict({"a": HasOne()})
        self.plain = [nn.ReLU()]
        self.secret = 1


class FarIndex(Listed):
    def forward(self, x):
        return self.parts[-3].one(x)


class VariableIndex(Listed):
    def forward(self, x):
        i = 1
        return self.parts[i].one(x)


class VariableKey(Listed):
    def forward(self, x):
        key = "a"
        return self.named[key].one(x)


class UsesPlain(Listed):
    def forward(self):
        return len(self.plain)


class UsesSecret(Listed):
    def forward(self):
        return self.secret


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Mixed(enum.Enum):
    RED = 1
    GREEN = "g"


class Pair(NamedTuple):
    a: int
    b: float


def class_attribute():
    return Bare().kind


def no_member(x: Color):
    return x == Color.PURPLE


def mixed_enum(x: Mixed):
    return x.name


def no_delete():
    b = Bare()
    del b["1"]


def deleted_in_a_branch(x):
    a = x * 2
    if a:
        del a
    return a


def name_of_a_comprehension():
    d = {i: str(i) for i in range(4)}
    return i + 1


def union_keys():
    x: Dict[Union[int, str], str] = {}
    return x


def tuple_item(a: Tuple[int, int]):
    a[0] = 1


def tuple_item_added(a: Tuple[int, int]):
    a[0] += 1


def unknown_keyword():
    return torch.ones([2], size_of=3)


def no_truth():
    if NoTruth():
        print(1)


def mutable_default(a: List[int] = [1, 2]):
    return a


def none_as_key(a: Dict[str, int]):
    return a[None]


def none_into_ints(a: List[int]):
    a.append(None)


def wrong_field():
    return Pair("a", 1.0)


def mixed_keys():
    d: Dict[int, str] = {k: v for k, v in zip([1, "foo"], ["a", "b"])}
    return d


def mixed_values():
    d: Dict[str, int] = {k: v for k, v in zip(["a", "b"], [1, "foo"])}
    return d


def unknown_exception(n: int):
    if n > 1:
        raise UnknownError(n)
    return n


def exception_as_value():
    a = ValueError()
    print(a)


def raised_number():
    raise 3 + 4


def dict_expansion():
    d = {"a": 1}
    return {**d}


def slice_keyword(x: List[int]):
    return x[slice(1, stop=2)]


def method_of_a_number():
    n = 1
    return n.add(1)


def late_annotation():
    return Late(1)


def annotated_again():
    x = 5
    if 1 == 1:
        x: Optional[int] = 7
    return x


def float_range(n: int):
    for i in range(2 ** n):
        print(i)


def contains_itself():
    return Parent()


REFUSED = [
    (UsesOne, "One' object has no attribute or method 'two'."),
    (class_attribute, "'kind' is defined as a class attribute which currently is not supported"),
    (no_member, "Color>' has no attribute 'PURPLE'"),
    (mixed_enum, r"Could not unify type list since element 1 of type int did not match the types before it \(str\)"),
    (no_delete, "Class does not define __delitem__"), (deleted_in_a_branch, "undefined value a"),
    (name_of_a_comprehension, "undefined value i"), (union_keys, "Cannot create dict for key type"),
    (tuple_item, r"Tuple\[int, int\] does not support subscripted assignment"),
    (tuple_item_added, r"Tuple\[int, int\] does not support augmented assignment."),
    (unknown_keyword, "Keyword argument size_of unknown."),
    (no_truth, r"expected a bool expression for condition but found Tuple\[int, int\]"),
    (mutable_default, "Mutable default parameters are not supported"), (none_as_key, "Arguments for call are not valid"),
    (none_into_ints, r"aten::append.t\(t\[\]\(a!\) self, t\(c -> \*\) el\) -> t\[\]\(a!\):\n"),
    (wrong_field, r"Pair\(int a, float b\) -> \(\):\nExpected a value of type 'int' for argument 'a' but instead found type 'str'"),
    (mixed_keys, r"the type of the first generated key was Union\[int, str\]"),
    (mixed_values, r"`Dict\[str, int\]` did not match the type of an actual value type `Union\[int, str\]`"),
    (unknown_exception, "undefined value UnknownError"), (exception_as_value, "exception message cannot be used as a value"),
    (raised_number, "exceptions must derive from BaseException"), (dict_expansion, "Dict expansion "),
    (slice_keyword, "Slice does not accept any keyword arguments"),
    (method_of_a_number, "'int' object has no attribute or method 'add'."),
    (late_annotation, "Type annotations on instance attributes must be declared in __init__, not 'set'"),
    (annotated_again, "Attempting to declare and annotate the type of variable 'x' but it is already defined in an outer block"),
    (float_range, "all inputs of range must be ints, found float in argument 0"),
    (contains_itself, "Classes that recursively contain instances of themselves are not yet supported"),
    (FarIndex, "Index -3 out of range of length 2"),
    (VariableIndex, "Expected integer literal for index but got a variable or non-integer."),
    (VariableKey, "Unable to extract string literal index."),
    (UsesPlain, "Could not infer type of list element: Cannot infer concrete type of torch.nn.Module"),
    (UsesSecret, "Module 'UsesSecret' has no attribute 'secret' attribute was ignored during compilation"),
]


@pytest.mark.parametrize("what, text", REFUSED, ids=lambda x: getattr(x, "__name__", ""))
def test_a_program_is_refused_in_torchs_words(what, text):
    with pytest.raises((RuntimeError, ValueError, torch.jit.frontend.NotSupportedError), match=text):
        torch.jit.script(what() if isinstance(what, type) else what)


# --- results ---

def fields_by_name():
    p = Pair(b=3.5, a=9)
    return p.a, p.b


def ordered():
    a = OrderedDict()
    a["one"] = torch.tensor(1)
    return len(a)


def hashes(t: Tuple[int, str]):
    return hash(t) == hash((1, "a")), hash(t) == hash((2, "a"))


def refined_union():
    x: Union[Dict[str, int], Dict[str, torch.Tensor]] = {"a": torch.ones(2)}
    if torch.jit.isinstance(x, Dict[str, torch.Tensor]):
        x["b"] = torch.ones(1)
    return x


def test_values_that_these_rules_decide():
    assert torch.jit.script(fields_by_name)() == (9, 3.5) and torch.jit.script(ordered)() == 1
    assert torch.jit.script(hashes)((1, "a")) == (True, False)
    assert list(torch.jit.script(refined_union)()) == ["a", "b"]


def unhashable(t: Tuple[int, List[int]]):
    return hash(t)


def equal_lists(x):
    return [x] == [x]


def scaled(x, t):
    return x.addcmul(x, x, value=t)


@pytest.mark.parametrize("f, args, text", [
    (unhashable, ((1, [1]),), "unhashable type"), (equal_lists, (torch.ones(2),), "Boolean value of Tensor with more than one"),
    (scaled, (torch.ones(2), torch.tensor([2])), "Cannot input a tensor of dimension other than 0 as a scalar argument")])
def test_calls_that_are_refused(f, args, text):
    with pytest.raises(RuntimeError, match=text):
        torch.jit.script(f)(*args)
    assert torch.jit.script(equal_lists)(torch.ones(1))


def named(x: Pair) -> Any:
    return x


def test_the_fields_of_a_wrong_named_tuple_are_named():
    with pytest.raises(RuntimeError, match=r"found type 'Pair \(aka NamedTuple\(a, b\)\)'"):
        torch.jit.script(named)(Pair("3", "4"))
    assert torch.jit.script([]).__len__() == 0 and not torch.jit.script({})


class Indented(torch.nn.Module):
    def forward(self, x):
        y = x + 1

        # a comment behind an empty line
        return y.no_such()


def test_errors_show_lines_as_the_file_has_them():
    with pytest.raises(RuntimeError) as e:
        torch.jit.script(Indented())
    line = Indented.forward.__code__.co_firstlineno + 4
    place = (f"line {line}\n    \n        # a comment behind an empty line\n        return y.no_such()\n"
             "               ~~~~~~~~~ <--- HERE\n")
    assert place in str(e.value)


class Headless(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = None

    def forward(self, x):
        if x.dim() > 1:
            assert self.head is not None, "no head"
            x = self.head(x)
        return x + 1


def test_nothing_is_compiled_behind_an_assertion_that_always_fails():
    made = torch.jit.script(Headless())
    assert made(torch.ones(1)).tolist() == [2.]
    with pytest.raises(torch.jit.Error, match="AssertionError: no head"):
        made(torch.ones(1, 1))


@pytest.mark.parametrize("name", ["getattr", "hasattr", "isinstance", "annotate", "uninitialized", "slice", "int", "tuple", "str",
                                  "float", "bool", "unchecked_cast", "fork", "len", "min", "sorted"])
@pytest.mark.parametrize("given", ["", "x"])
def test_words_with_too_few_arguments_are_refused(name, given):
    if (name, given) in {(one, "x") for one in ("slice", "int", "str", "float", "bool", "len", "min", "sorted", "fork", "uninitialized")}:
        given = "x, x, x, x, x"
    with pytest.raises(RuntimeError):
        torch.jit.CompilationUnit(f"def f(x):\n    y = {name}({given})\n    return x\n")


# --- attributes and arguments of an interface; objects that are called ---

@torch.jit.interface
class TwoMethods:
    def one(self, x: torch.Tensor) -> torch.Tensor:
        pass

    def two(self, x: torch.Tensor) -> torch.Tensor:
        pass


class OneMethod(object):
    def __init__(self):
        pass

    def one(self, x):
        return x


class PlainObject:
    pass


class HoldsTwoMethods(nn.Module):
    part: TwoMethods

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part.two(x)


ASSIGNING = ("Assigning the object .* to an interface fails because the value is not a TorchScript compatible type, did you forget "
             "toturn it into a user defined TorchScript class\\?")


@pytest.mark.parametrize("part, text", [
    (OneMethod, "is not compatible with interface .*TwoMethods\nClass '.*OneMethod .*' does not have method 'two' but '.*TwoMethods' does"),
    (PlainObject(), ASSIGNING), (3, ASSIGNING)])
def test_attributes_of_an_interface_have_its_methods(part, text):
    part = torch.jit.script(part)() if part is OneMethod else part
    with pytest.raises(RuntimeError, match=f"Could not cast attribute 'part' to type .*TwoMethods: .*{text}"):
        torch.jit.script(HoldsTwoMethods(part))


def test_arguments_of_an_interface_are_compiled_objects():
    @torch.jit.script
    def use(part: TwoMethods, x):
        return part.two(x)
    for part in (3, PlainObject()):
        with pytest.raises(RuntimeError, match=f"^{ASSIGNING}$"):
            use(part, torch.ones(1))


class TypedAttributes(nn.Module):
    n: int
    l: List[int]
    t: torch.Tensor

    def __init__(self, **values):
        super().__init__()
        self.n, self.l, self.t = 1, [1], torch.ones(1)
        for name, value in values.items():
            setattr(self, name, value)

    def forward(self):
        return self.n


@pytest.mark.parametrize("values, text", [
    ({"n": "x"}, "'n' to type int: Unable to cast Python instance of type <class 'str'>"),
    ({"l": ["x"]}, "'l' to type List\\[int\\]: Unable to cast Python instance of type <class 'list'>"),
    ({"t": 3}, "'t' to type Tensor: Unable to cast 3 to Tensor")])
def test_attributes_of_another_type_are_refused_with_the_reason(values, text):
    with pytest.raises(RuntimeError, match=f"Could not cast attribute {text}"):
        torch.jit.script(TypedAttributes(**values))


def test_modules_that_are_no_part_of_the_caller_are_called_by_python():
    linear, scripted = nn.Linear(2, 2), torch.jit.script(nn.ReLU())

    def f(x):
        return linear(x)

    def g(x):
        return scripted(x)
    made, x = torch.jit.script(f), torch.ones(1, 2)
    assert "^<python_value>()(x)" in made.code and torch.equal(made(x), linear(x))
    with pytest.raises(RuntimeError, match="Cannot call a ScriptModule that is not a submodule of the caller"):
        torch.jit.script(g)
    with pytest.raises(RuntimeError, match="could not|Could not"):
        made.save("no.pt")


# --- unions of lists and dicts; named tuples of one name ---

def mixed_dict(x):
    d: Union[Dict[str, torch.Tensor], Dict[str, int]] = {"a": x, "b": 1}
    return d


def mixed_list(x):
    d: Union[List[str], List[torch.Tensor]] = [x, 1]
    return d


def empty_list():
    d: Union[List[str], List[torch.Tensor]] = []
    return d


def empty_dict():
    d: Union[Dict[str, torch.Tensor], Dict[str, int]] = {}
    return d


def called_dict(x):
    d: Union[Dict[str, torch.Tensor], Dict[str, int]] = dict(a=x)
    return d


def other_items():
    d: Union[List[torch.Tensor], int] = [x + "!" for x in ["a", "b"]]
    return d


def mixed_keys(x: List[Union[int, str]]):
    return dict(zip(x, [1, 2]))


@pytest.mark.parametrize("f, text", [
    (mixed_dict, "Union type annotation `Union[Dict[str, Tensor], Dict[str, int]]` can hold Dict[str, Tensor] or Dict[str, int], but none of "
     "those dict types can hold the types of the given keys and values, which were unified to Dict[str, Union[Tensor, int]:"),
    (mixed_list, "Union type annotation `Union[List[Tensor], List[str]]` can hold List[Tensor] or List[str], but none of those types match "
     "the types of the given list elements, which were unified to Union[Tensor, int]:"),
    (empty_list, "Cannot assign an empty list to a variable annotated to be type Union[List[Tensor], List[str]] because there are multiple "
     "possible List type candidates in the Union annotation:"),
    (empty_dict, "Cannot assign an empty dict to a variable annotated to be type Union[Dict[str, Tensor], Dict[str, int]] because there are "
     "multiple possible Dict type candidates in the Union annotation:"),
    (called_dict, "There are multiple candidate Dict types in the Union type annotation `Union[Dict[str, Tensor], Dict[str, int]]`, and full "
     "type inference is not yet supported for the `dict()` constructor.:"),
    (other_items, "List type annotation `List[Tensor]` did not match the types of the given list elements, which were unified to str:"),
    (mixed_keys, "Dicts may only contain homogeneous keys, but the type of the first generated key was Union[int, str]:")])
def test_displays_have_one_of_the_types_of_their_annotation(f, text):
    with pytest.raises(RuntimeError) as caught:
        torch.jit.script(f)
    assert text in str(caught.value)


def test_sources_iterate_over_one_value():
    with pytest.raises(RuntimeError, match="List of iterables is not supported currently"):
        torch.jit.CompilationUnit("def f(x: int):\n  for i, j in [2, 3], [5, 6]:\n    x += i\n  return x\n")
    assert torch.jit.CompilationUnit("def f(x: int):\n  for i in [2, 3]:\n    x += i\n  return x\n").f(1) == 6


def test_named_tuples_of_one_name_have_the_same_fields():
    same = [NamedTuple("SameFields", [("a", int)]) for _ in range(2)]
    other = [NamedTuple("OtherFields", [("a", kind)]) for kind in (int, str)]

    def both(x: same[0], y: same[1]):
        return x.a + y.a

    def refused(x: other[0], y: other[1]):
        return x.a
    assert torch.jit.script(both)(same[0](1), same[1](2)) == 3
    with pytest.raises(RuntimeError, match="Can't redefine NamedTuple: .*OtherFields$"):
        torch.jit.script(refused)
