"""Programs of two classes of one name: saved, loaded, and saved by torch."""
import io
import linecache
import os
import types
import zipfile
from typing import Any, Optional, Union

import pytest

import cresset as torch

DATA = os.path.join(os.path.dirname(__file__), "..", "data", "script")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

# The two programs have the same names: a named tuple, an enum, a function, an interface, a class, a module.
PROGRAM = '''
import cresset as torch
from typing import Any, List, NamedTuple
from enum import Enum
class N(NamedTuple):
    {field}: torch.Tensor
class C(Enum):
    R = {number}
def helper(x):
    return x {operation}
@torch.jit.interface
class I:
    def {method}(self, x: int) -> int:
        pass
@torch.jit.script
class K:
    def __init__(self, v: int):
        self.v = v
    def {method}(self, x: int) -> int:
        return self.v * x
class M(torch.nn.Module):
    k: List[K]
    i: I
    def __init__(self):
        super().__init__()
        self.k = [K({number})]
        self.i = K({number} + 1)
        self.w = torch.nn.Parameter(torch.ones(2))
    def forward(self, x):
        n = N(helper(x) * self.w)
        return n.{field} + self.k[0].{method}(2) + self.i.{method}(3) + C.R.value
'''


def saved(**parts):
    """A buffer with the saved module of a program, whose names are forgotten then."""
    text, name = PROGRAM.format(**parts), f"<twin {parts['method']}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    made = types.ModuleType("twin")
    import sys
    sys.modules["twin"] = made
    exec(compile(text, name, "exec"), made.__dict__)
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(made.M()), buffer)
    torch._C._jit_clear_class_registry()
    return buffer


def again(module):
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    return buffer


def loaded(buffer):
    buffer.seek(0)
    return torch.jit.load(buffer)


class Both(torch.nn.Module):
    def __init__(self, *parts):
        super().__init__()
        self.a, self.b, self.c = parts

    def forward(self, x):
        return self.b(self.a(x)) * 100 + self.c(x)


def one(x):  # what the first program computes
    return (x + 1) + 2 * 2 + 3 * 3 + 2


def two(x):
    return (x * 10) + 5 * 2 + 6 * 3 + 5


@pytest.fixture
def both():
    first = saved(field="a", number=2, operation="+ 1", method="get")
    second = saved(field="b", number=5, operation="* 10", method="other")
    return Both(loaded(first), loaded(second), loaded(first))


def test_classes_and_functions_of_one_name_stay_apart_in_an_archive(both):
    x = torch.tensor([1.0, 3.0])
    want = two(one(x)) * 100 + one(x)
    scripted = torch.jit.script(both)
    assert torch.equal(scripted(x), want)
    first = again(scripted)
    second = again(loaded(first))  # names that are made already get further ones
    assert torch.equal(loaded(first)(x), want) and torch.equal(loaded(second)(x), want)


def test_names_that_are_made_are_torchs(both):
    names = zipfile.ZipFile(again(torch.jit.script(both))).namelist()
    made = sorted(n.rpartition("/")[2] for n in names if "mangle" in n and n.endswith(".py"))
    assert made and made == sorted(f"___torch_mangle_{i}.py" for i in range(len(made)))


def test_an_archive_of_torch_with_two_classes_of_a_name():
    m = torch.jit.load(os.path.join(DATA, "twins.pt"))
    x = torch.ones(2)
    want = torch.tensor([75.0, 75.0])  # torch printed it
    assert torch.equal(m(x), want) and torch.equal(loaded(again(m))(x), want)


class Speaks(torch.nn.Module):
    def forward(self, x):
        return x + 1

    @torch.jit.export
    def say(self, n: int) -> str:
        return "n" + str(n)


@torch.jit.interface
class Says(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        pass

    def say(self, n: int) -> str:
        pass


class NoModule:
    def __init__(self):
        pass

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    def say(self, n: int) -> str:
        return "n"


def takes_what_says(x: Says) -> Says:
    return x


def test_only_modules_are_of_a_module_interface():
    torch.jit.script(NoModule)
    with pytest.raises(RuntimeError, match="only ScriptModule class can be subtype of module interface"):
        torch.jit.script(takes_what_says)(NoModule())
    assert torch.jit.script(takes_what_says)(torch.jit.script(Speaks())).say(1) == "n1"


class Asks(torch.nn.Module):
    part: Says

    def __init__(self):
        super().__init__()
        self.part = Speaks()

    def forward(self, x):
        return self.part(x), self.part.say(3)


def test_interfaces_are_saved_with_their_methods_and_the_class_behind_them():
    buffer = again(torch.jit.script(Asks()))
    texts = zipfile.ZipFile(buffer)
    code = "".join(texts.read(n).decode() for n in texts.namelist() if n.endswith(".py"))
    assert "(ModuleInterface):\n  def forward(self, x: Tensor) -> Tensor:\n    pass\n  def say(self, n: int) -> str:\n" in code
    x, said = loaded(buffer)(torch.zeros(1))
    assert x.item() == 1 and said == "n3"


class Held:
    def __init__(self, v: int):
        self.v = v


class Holds(torch.nn.Module):
    any: Any

    def __init__(self):
        super().__init__()
        self.any = Held(4)

    def forward(self) -> Any:
        return self.any


def test_classes_that_only_values_have_are_saved():
    torch.jit.script(Held)
    code = zipfile.ZipFile(again(torch.jit.script(Holds())))
    assert any(b"class Held:" in code.read(n) for n in code.namelist() if n.endswith(".py"))


def test_variables_of_an_archive_have_the_types_that_it_states():
    def f(flag: int):
        if flag == 0:
            x: Optional[Union[int, str]] = "foo"
        elif flag == 1:
            x: Optional[Union[int, str]] = 1
        else:
            x: Optional[Union[int, str]] = None
        return x

    m = loaded(again(torch.jit.script(f)))
    assert [m(0), m(1), m(2)] == ["foo", 1, None]
