"""Classes of Python in compiled code, and their objects between Python and programs."""
import dataclasses
import enum
import io
import pickletools
import zipfile
from typing import Any, Dict, List, Optional, Tuple, Union

import pytest

import cresset as torch

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Account:
    """Attributes of several types, a property, operators, a function without self."""

    def __init__(self, owner: str, balance: int = 10):
        self.owner = owner
        self.balance = balance
        self.history: List[int] = []

    def add(self, n: int) -> int:
        self.balance += n
        self.history.append(n)
        return self.balance

    @property
    def rich(self) -> bool:
        return self.balance > 100

    @rich.setter
    def rich(self, yes: bool):
        self.balance = 1000 if yes else 0

    @staticmethod
    def fee(n: int) -> int:
        return n // 10

    def __len__(self) -> int:
        return len(self.history)

    def __getitem__(self, i: int) -> int:
        return self.history[i]

    def __setitem__(self, i: int, n: int):
        self.history[i] = n

    def __contains__(self, n: int) -> bool:
        return n in self.history

    def __add__(self, n: int) -> int:
        return self.balance + n

    def __neg__(self) -> int:
        return -self.balance

    def __eq__(self, other: int) -> bool:
        return self.balance == other

    def __bool__(self) -> bool:
        return self.balance > 0

    def __int__(self) -> int:
        return self.balance


@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 7

    def norm(self) -> int:
        return self.x * self.x + self.y * self.y


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Other(enum.Enum):
    RED = 1


class Colored(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.color = Color.BLUE

    def forward(self, x, size: Optional[List[int]] = None):
        if size is None:
            size = 2, 3
        if self.color == Color.BLUE:
            return x.reshape(size)
        return x


def test_members_of_enums_are_called_with_their_value_in_archives():
    m = torch.jit.script(Colored())
    data = m.save_to_buffer()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        [name] = [n for n in archive.namelist() if n.endswith("/data.pkl")]
        ops = [(op.name, arg) for op, arg, _ in pickletools.genops(archive.read(name)) if op.name not in ("BINPUT", "PUT")]
    at = next(i for i, (op, arg) in enumerate(ops) if op == "GLOBAL" and arg.endswith("Color"))
    assert [arg for _, arg in ops[at + 1:at + 3]] == [2, None] and ops[at + 2][0] == "REDUCE"
    assert torch.jit.load(io.BytesIO(data))(torch.arange(6)).tolist() == [[0, 1, 2], [3, 4, 5]]


def use(name: str) -> Tuple[int, int, bool, int, List[int], int]:
    a = Account(name)
    first = a.add(5)
    a.add(200)
    a[0] = 6
    rich = a.rich
    a.rich = False
    return first, a.balance, rich, Account.fee(95) + a.fee(10), a.history, len(a)


def operators(n: int):
    a = Account("x", balance=n)
    a.add(1)
    seen = a[0] if a else -1
    return a + 1, -a, 1 in a, 2 in a, a == n, int(a), seen, not a


def test_classes_are_compiled_where_they_are_used():
    f = torch.jit.script(use)
    assert f("ann") == use("ann") == (15, 0, True, 10, [6, 200], 2)
    g = torch.jit.script(operators)
    for n in (3, -1, 0):
        assert g(n) == operators(n)


def test_dataclasses_have_their_functions():
    def f(n: int):
        p, q = Point(n), Point(n, 8)
        return p.norm(), p == q, p < q, p >= q, p == Point(n, 7)
    assert torch.jit.script(f)(3) == f(3) == (58, False, True, False, True)


@dataclasses.dataclass
class Share:
    count: int
    weight: Optional[torch.Tensor] = None
    name: Optional[str] = None


def test_dataclasses_compare_fields_that_may_be_none():
    def f(x: torch.Tensor):
        a, b = Share(1, x, "a"), Share(1, None, "a")
        return a == Share(1, x + 0, "a"), a == b, b == a, b == Share(1, None, "a"), b == Share(1, None, None), a == Share(1, x + 1, "a")
    assert torch.jit.script(f)(torch.ones(1)) == (True, False, False, True, False, False)


def test_objects_are_copied_between_python_and_programs():
    def f(p: Point) -> Point:
        p.x += 1
        return Point(p.x * 2, p.y)
    given = Point(1, 2)
    made = torch.jit.script(f)(given)
    assert isinstance(made, Point) and (made.x, made.y) == (4, 2) and given.x == 1
    broken = Point(1, 2)
    del broken.x
    with pytest.raises(RuntimeError, match="was missing attribute x"):
        torch.jit.script(f)(broken)


def test_a_scripted_object_is_shared():
    def f(a: Account):
        a.add(1)
    a = torch.jit.script(Account("ann", 1))
    torch.jit.script(f)(a)
    assert a.balance == 2 and a.add(3) == 5 and len(a) == 2 and not a.rich
    a.rich = True
    assert a.balance == 1000


def test_members_of_enums_keep_their_class():
    def f(c: Color, flag: bool):
        return c if flag else Color.BLUE
    g = torch.jit.script(f)
    assert g(Color.RED, True) is Color.RED and g(Color.RED, False) is Color.BLUE
    with pytest.raises(RuntimeError, match="Expected a value of type"):
        g(Other.RED, True)


def test_values_of_any_type_keep_theirs():
    def f(x: Any) -> str:
        if torch.jit.isinstance(x, List[int]):
            return "ints" + str(len(x))
        if torch.jit.isinstance(x, Dict[str, List[float]]):
            return "dict" + str(len(x))
        if torch.jit.isinstance(x, Tuple[int, str]):
            return x[1]
        if torch.jit.isinstance(x, List[Optional[str]]):
            return "texts"
        return "other"
    g = torch.jit.script(f)
    given = {"ints2": [1, 2], "dict1": {"a": [1.0]}, "z": (1, "z"), "texts": ["a", None]}
    assert [g(x) for x in given.values()] == list(given)
    assert {g(x) for x in ((1, 2), 3, None, torch.ones(1), [torch.ones(1)], [1.5])} == {"other"}


def test_a_union_takes_the_member_of_the_same_type():
    def f(x: Union[int, float, List[str]]) -> str:
        if isinstance(x, int):
            return "int"
        elif isinstance(x, float):
            return "float"
        return x[0]
    g = torch.jit.script(f)
    assert [g(1), g(1.0), g(["a"])] == ["int", "float", "a"]
    with pytest.raises(RuntimeError, match=r"Expected a member of Union\[List\[str\], float, int\] but instead found type "
                       r"List\[int\]"):
        g([1])


def missing(a: Account):
    return a.nothing


class Late:
    def __init__(self, x: int):
        self.x = x

    def change(self):
        self.y = 3


class Branch:
    def __init__(self, x: int):
        if x > 1:
            self.x = x


class Retyped:
    def __init__(self, x: int):
        self.x = x
        self.x = "text"


class Derived(Late):
    pass


@pytest.mark.parametrize("made, text", [
    (missing, "object has no attribute or method 'nothing'"),
    (Late, "Tried to set nonexistent attribute: y. Did you forget to initialize it in __init__()?"),
    (Branch, "First assignment cannot be in a control-flow block. Initialize the field at the top level first"),
    (Retyped, "Wrong type for attribute assignment. Expected int but got str"),
    (Derived, "TorchScript classes does not support inheritance yet"),
])
def test_what_classes_cannot_do_is_refused(made, text):
    with pytest.raises(RuntimeError) as e:
        torch.jit.script(made)
    assert text in str(e.value)


def test_a_refused_argument_leaves_no_reference():
    @torch.jit.script
    def f(xs: List[int], d: Dict[str, int]) -> int:
        return len(xs)
    for _ in range(50):
        for bad in (([1.5, None], {}), ([1, "a"], {}), ([1], {"a": "b"}), ([1], {1: 2})):
            with pytest.raises(RuntimeError, match="Expected a value of type"):
                f(*bad)
    assert f([1, 2], {"a": 1}) == 2


def test_containers_inside_of_themselves_are_refused():
    @torch.jit.script
    def f(x: Any) -> int:
        return 1
    inside: list = []
    inside.append(inside)
    with pytest.raises(RecursionError):
        f(inside)
    named: dict = {}
    named["a"] = named
    with pytest.raises(RecursionError):
        f(named)
    deep: list = [1]
    for _ in range(50):
        deep = [deep]
    assert f(deep) == 1


class Ranked:
    def __init__(self, rank: int, peers: List[int]):
        self.rank = rank
        self.peers = peers

    def __lt__(self, other: "Ranked") -> bool:
        if self.rank < 0:
            raise ValueError("no order")
        self.peers.append(other.rank)
        return self.rank < other.rank


def in_order(ranks: List[int]) -> Tuple[List[int], int]:
    peers: List[int] = []
    ranked = [Ranked(r, peers) for r in ranks]
    ranked.sort()
    return [r.rank for r in ranked], len(peers)


def sorted_tensors(items: List[torch.Tensor], down: bool) -> List[torch.Tensor]:
    items.sort(down)
    return items


def test_sorting_by_a_method():
    torch.jit.script(Ranked)
    order = torch.jit.script(in_order)
    assert order([3, 1, 2])[0] == [1, 2, 3] and order([3, 1, 2])[1] > 0
    with pytest.raises(torch.jit.Error, match="builtins.ValueError: no order"):
        order([3, -1, 2])


def test_sorting_tensors():
    f = torch.jit.script(sorted_tensors)
    items = [torch.tensor(1.), torch.tensor(3.), torch.tensor(2.)]
    assert f(items, False) == [items[0], items[2], items[1]] and f(items, True) == [items[1], items[2], items[0]]
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        f([torch.ones(2), torch.ones(2)], False)
