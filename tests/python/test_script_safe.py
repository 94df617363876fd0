"""Compiled programs: values that archives cannot hold or share, loops of unequal length, compilers in several threads."""
import gc
import io
import threading
import weakref
import zipfile

import pytest

import cresset as torch
from cresset import nn

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


# --- loops over what is known when compiled ---

def long_then_short(x: torch.Tensor):
    n = 0
    for i, (a, b) in enumerate(zip((x, x, x), (x, x + 1))):
        n += i + int(a + b)
    return n


def short_then_long(x: torch.Tensor):
    n = 0
    for a, (b, c) in zip((x, x + 1), zip((x, x, x), (x, x, x, x))):
        n += int(a + b + c)
    return n


def listed(x: torch.Tensor):
    return [a + b for a, b in zip((x, x, x), (x,))]


def known_and_unknown(x: torch.Tensor, n: list[int]):
    for a, b in zip((x, x), n):
        x = x + a * b
    return x


@pytest.mark.parametrize("fn", [long_then_short, short_then_long, listed])
def test_a_loop_over_tuples_ends_with_the_shortest(fn):
    x = torch.tensor(2)
    assert torch.jit.script(fn)(x) == fn(x)


def test_a_list_has_no_length_that_a_tuple_could_follow():
    with pytest.raises(RuntimeError, match="Can not iterate over a module list or tuple with a value that does not have a static length"):
        torch.jit.script(known_and_unknown)


# --- what archives hold ---

class Holds(nn.Module):
    def __init__(self, held):
        super().__init__()
        self.register_buffer("held", held)

    def forward(self, x):
        return x


@pytest.mark.parametrize("held, text", [
    (torch.eye(3).to_sparse(), "layout torch.sparse_coo cannot be saved"),
    (torch.eye(3).to_sparse_csr(), "layout torch.sparse_csr cannot be saved"),
])
def test_a_tensor_without_a_strided_storage_is_refused(held, text):
    with pytest.raises(NotImplementedError, match=text):
        torch.jit.script(Holds(held)).save_to_buffer()


def reloaded(m):
    return torch.jit.load(io.BytesIO(m.save_to_buffer()))


RING = b"""class Ring(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  first : List[int]
  second : List[int]
  link : Optional[__torch__.Ring]
  def forward(self: __torch__.Ring, x: int) -> int:
    _0 = torch.append(self.first, x)
    return torch.len(self.second)
  def close(self: __torch__.Ring) -> NoneType:
    self.link = self
    return None
  def share(self: __torch__.Ring) -> NoneType:
    self.second = self.first
    return None
"""
RING_STATE = b"\x80\x02c__torch__\nRing\n)\x81}(X\x08\0\0\0training\x89X\x05\0\0\0first](K\x01eX\x06\0\0\0second](K\x02eX\x04\0\0\0linkNub."


def test_lists_stay_shared_and_an_object_that_refers_to_itself_is_refused():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in (("data.pkl", RING_STATE), ("code/__torch__.py", RING), ("constants.pkl", b"\x80\x02)."), ("version", b"10\n")):
            made.writestr("ring/" + name, data)
    m = torch.jit.load(io.BytesIO(out.getvalue()))
    assert m(5) == 1
    m.share()
    again = reloaded(m)
    assert again(6) == 3 and again(7) == 4  # a list that two attributes share
    m.close()
    with pytest.raises(RuntimeError, match="an object of type '__torch__.Ring' refers to itself and cannot be saved"):
        m.save_to_buffer()


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = self.b = nn.Linear(2, 2)
        self.w = self.a.weight

    def forward(self, x):
        return self.b(self.a(x)) @ self.w


def test_submodules_and_parameters_stay_shared():
    m = reloaded(torch.jit.trace(Twice(), torch.ones(1, 2)))
    assert m._c.get("a") == m._c.get("b")
    assert m.a.weight is m.b.weight is m.w
    assert len(list(m.parameters())) == 2


def test_hundreds_of_values_stay_shared():
    layers = [nn.Linear(2, 2) for _ in range(150)]  # more values than numbers of one byte
    m = torch.jit.trace(nn.Sequential(*layers, layers[0], layers[-1]), torch.ones(1, 2))
    again = reloaded(m)
    assert [len(list(x.parameters())) for x in (m, again)] == [300, 300]
    assert again._c.get("150") == again._c.get("0") and again._c.get("151") == again._c.get("149")
    assert torch.equal(again(torch.ones(1, 2)), m(torch.ones(1, 2)))


def test_a_save_that_fails_keeps_the_file(tmp_path):
    path = tmp_path / "m.pt"
    torch.jit.script(Holds(torch.ones(2))).save(path)
    before = path.read_bytes()
    with pytest.raises(NotImplementedError):
        torch.jit.script(Holds(torch.eye(2).to_sparse())).save(path)
    assert path.read_bytes() == before


def test_constant_tensors_are_numbered_in_the_text():
    a, b = torch.tensor([1.0]), torch.tensor([2.0])
    text = torch.jit.trace(lambda x: x * a + b * a, torch.ones(1)).code
    assert text.count("CONSTANTS.c0") == 2 and text.count("CONSTANTS.c1") == 1


# --- traces ---

def test_a_trace_refuses_tensors_that_it_did_not_record(monkeypatch):
    monkeypatch.setattr(torch._C, "_script_has_operator", lambda name: name != "aten::sin")
    with pytest.raises(RuntimeError, match="Tracer cannot record 'sin': TorchScript has no such operator"):
        torch.jit.trace(lambda x: x.sin() + x, torch.ones(4))


# --- compilers ---

class Scaled(nn.Module):
    factor: torch.jit.Final[torch.Tensor]

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return x * self.factor


def test_modules_with_unequal_constant_tensors_have_unequal_classes():
    a, b = (torch.full((2000,), v) for v in (1.0, 1.0))
    b[1000] = 3.0
    x = torch.ones(2000)
    for t in (a, b, a.double(), torch.tensor(1.00001), torch.tensor(1.00002)):
        assert torch.equal(torch.jit.script(Scaled(t))(x), x * t)


class Helper(nn.Module):
    def forward(self, x):
        return x

    def more(self, x):
        return x + 1


class Fails(nn.Module):
    def __init__(self):
        super().__init__()
        self.helper = Helper()

    def forward(self, x):
        return self.helper(x) + absent  # noqa: F821


class Works(Fails):
    def forward(self, x):
        return self.helper.more(x)


def test_a_compilation_that_fails_leaves_no_class_behind():
    with pytest.raises(RuntimeError, match="absent"):
        torch.jit.script(Fails())
    assert float(torch.jit.script(Works())(torch.zeros(1))) == 1


class Waits:
    """An object whose attribute is found when another thread had time to compile."""

    def __init__(self):
        self.asked, self.done = threading.Event(), threading.Event()

    @property
    def number(self):
        self.asked.set()
        self.overtaken = self.done.wait(0.3)
        return 5


waits = Waits()


def slow(x: int) -> int:
    return x + waits.number


def quick(x: int) -> int:
    return x + 1


def test_one_thread_compiles_at_a_time():
    made = []

    def work():
        waits.asked.wait(10)
        made.append(torch.jit.script(quick))
        waits.done.set()
    thread = threading.Thread(target=work)
    thread.start()
    compiled = torch.jit.script(slow)
    thread.join()
    assert compiled(1) == 6 and made[0](1) == 2
    assert not waits.overtaken


# --- attributes that are replaced while a program that has read them runs ---

class Replaced(nn.Module):
    def __init__(self):
        super().__init__()
        self.held = torch.ones(3)

    def forward(self, x):
        old = self.held
        x = replace(x)
        return old + self.held * 10 + x


@torch.jit.ignore
def replace(x: torch.Tensor) -> torch.Tensor:
    replacing.pop().held = torch.full((3,), 2.)
    return x


replacing = []


def test_a_value_stays_when_its_attribute_is_replaced_by_python():
    program = torch.jit.script(Replaced())
    replacing.append(program)
    assert program(torch.zeros(3)).tolist() == [21, 21, 21]
    assert not replacing and program.held.tolist() == [2, 2, 2]


class Many(nn.Module):
    """More attributes than the executor's first table has places."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(40)])

    def forward(self, x, n: int):
        for _ in range(n):
            for layer in self.layers:
                x = x + layer(x)
        return x


def test_a_program_reads_many_attributes_many_times():
    torch.manual_seed(0)
    first, m = torch.jit.script(Many()), Many()  # a class keeps the module that it was made for
    program, x = torch.jit.script(m), torch.ones(1, 2) / 1e6
    assert not torch.equal(first(x, 1), program(x, 1))
    assert torch.equal(program(x, 3), m(x, 3))
    weight = weakref.ref(m.layers[39].weight)
    del m, program
    gc.collect()
    assert weight() is None


def test_many_returns_and_long_literals_need_little_memory():
    """Each `if` that returns copied what follows with a table of its own: 600 needed 6 GB.  The string's text was searched
    for each of its characters."""
    import resource
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    branches = "".join(f"    if x == {i}:\n        return {i * i}\n" for i in range(1500))
    unit = torch.jit.CompilationUnit(f"def f(x: int):\n{branches}    return -2\n\ndef g():\n    return '{'a' * 3000000}'\n")
    assert [unit.f(i) for i in (0, 5, 700, 1499, 1500)] == [0, 25, 490000, 2247001, -2]
    assert unit.g() == "a" * 3000000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1000000  # KB


def test_functions_of_a_unit_keep_their_lines():
    unit = torch.jit.CompilationUnit("def f(x: int):\r\n    return x + 1\r\n\r\ndef g(x: int):\n    return f(x) * 2  # é\n")
    assert unit.g(2) == 6 and "return" in unit.g.code
