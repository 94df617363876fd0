"""TorchScript archives that torch wrote (tests/data/script/record.py): loading, calls, training."""
import math
import io
import os
import signal
import zipfile

import pytest

import cresset as torch

DATA = os.path.join(os.path.dirname(__file__), "..", "data", "script")
CASES = sorted(name[:-5] for name in os.listdir(DATA) if name.endswith(".ckpt"))

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def load(name, **options):
    return torch.jit.load(os.path.join(DATA, name + ".pt"), **options)


def flat(x):
    if isinstance(x, (list, tuple)):
        return [t for item in x for t in flat(item)]
    return [x.detach() if isinstance(x, torch.Tensor) else torch.tensor(x)]


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_torch(name):
    want = torch.load(os.path.join(DATA, name + ".ckpt"))
    made = flat(load(name)(*[want[k] for k in sorted(want) if k.startswith("input.")]))
    assert len(made) == sum(k.startswith("output.") for k in want)
    for i, t in enumerate(made):
        assert t.dtype == want[f"output.{i}"].dtype
        torch.testing.assert_close(t, want[f"output.{i}"])


def test_parameters_are_shared_with_the_program_and_train():
    m = load("trunk")
    assert [n for n, _ in m.named_parameters()] == ["linear.weight", "linear.bias"]
    assert [n for n, _ in m.named_buffers()] == ["scale"]
    x = torch.ones(2, 3)
    before = m(x)[0].detach().clone()
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    m(x)[0].sum().backward()
    assert m.linear.weight.grad is not None
    optimizer.step()
    assert not torch.equal(m(x)[0], before)


def test_the_state_dict_loads_and_buffers_can_be_set():
    m, other = load("trunk"), load("trunk")
    state = {k: torch.zeros_like(v) for k, v in m.state_dict().items()}
    m.load_state_dict(state)
    assert float(m(torch.ones(1, 3))[0].abs().sum()) == 0
    other.scale = torch.zeros(4)
    assert not torch.equal(other(torch.ones(1, 3))[0], load("trunk")(torch.ones(1, 3))[0])


def test_attributes_are_read_set_and_checked():
    m = load("trunk")
    assert m.steps == 3 and m.names == ["first", "second"] and m.factor == {"first": 1.5, "second": -2.0}
    m.steps = 4
    assert m(torch.ones(1, 3))[2] == len("4-first")
    with pytest.raises(RuntimeError, match="Could not cast attribute 'steps' to type int: Unable to cast Python instance of type <class 'str'>"):
        m.steps = "many"
    with pytest.raises(AttributeError):
        m.missing


def test_calls_change_attributes_of_the_program():
    m = load("counter")
    m(torch.ones(2)), m(torch.ones(2))
    assert m.calls == 2 and m.seen == [0, 1, 2]


def test_train_and_eval_reach_the_program():
    m = load("trunk")
    assert m.eval().linear.training is False and m._c.get("training") is False
    assert m.train()._c.get("training") is True


def test_code_graph_and_extra_files():
    extra = {"note.txt": "", "absent": "kept"}
    m = load("branches", _extra_files=extra)
    assert extra == {"note.txt": b"branches", "absent": b"kept"}
    assert m.code.startswith("def forward(self,") and "while" not in m.original_name
    assert str(m.graph).startswith("graph(%self") and "prim::Loop" in str(m.graph)
    assert [v.debugName() for v in m.graph.inputs()][0] == "self.1"
    assert torch.equal(m.shift(torch.ones(1), 3), torch.tensor([4.0]))
    assert torch.equal(m.shift(torch.ones(1), by=None), torch.tensor([0.0]))


def test_an_operator_that_fails_names_the_lines():
    with pytest.raises(RuntimeError) as e:
        load("fails")(torch.ones(2), 3)
    text = str(e.value)
    assert text.startswith("The following operation failed in the TorchScript interpreter.\n"
                           "Traceback of TorchScript, serialized code (most recent call last):\n"
                           '  File "code/__torch__')
    assert "in forward\n" in text and "in inner\n" in text and "~ <--- HERE" in text
    assert "RuntimeError: The size of tensor a (2) must match the size of tensor b (3)" in text


def test_an_exception_of_the_program_is_jit_error():
    with pytest.raises(torch.jit.Error, match="builtins.ValueError: seven is bad"):
        load("fails")(torch.ones(2), 7)
    with pytest.raises(RuntimeError, match="list index out of range"):
        load("fails")(torch.ones(2), 8)


@pytest.mark.parametrize("args, text", [
    ((1,), r"forward\(\) is missing value for argument 'n'. Declaration: forward\("),
    ((1, 2, 3), r"forward\(\) expected at most 3 argument\(s\) but received 4 argument\(s\). Decl"),
    ((1, "a"), r"Expected a value of type 'int' for argument 'n' but instead found type 'str'.\nPosition: 2\nValue: 'a'"),
])
def test_wrong_arguments_have_torchs_text(args, text):
    with pytest.raises(RuntimeError, match=text):
        load("fails")(torch.ones(2), *args[1:])


def rewritten(name, edit, version=None):
    """The archive with another code; `edit` changes the text of each record of code."""
    out = io.BytesIO()
    with zipfile.ZipFile(os.path.join(DATA, name + ".pt")) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith(".py"):
                data = edit(data.decode()).encode()
            if version is not None and entry.filename.endswith("/version"):
                data = b"%d\n" % version
            new.writestr(entry.filename, data)
    out.seek(0)
    return out


def test_an_operator_that_is_missing_fails_when_it_runs():
    def edit(text):
        return text.replace("x: Tensor,\n    n: int) -> Tensor:\n", "x: Tensor,\n    n: int) -> Tensor:\n"
                            "    if torch.eq(n, 5):\n"
                            "      y, z = torch._of_the_future(x, [1], mode=2)\n"
                            "      x = torch.add(y, torch._of_the_past(z))\n"
                            "    else:\n"
                            "      pass\n")
    m = torch.jit.load(rewritten("fails", edit))
    assert m(torch.ones(1), 1).tolist() == [2]
    with pytest.raises(RuntimeError, match="Unknown builtin op: aten::_of_the_future"):
        m(torch.ones(1), 5)


def test_operators_that_the_table_lacks_are_saved_under_their_names():
    def edit(text):
        return text.replace("torch.add(x, torch.ones([n]))", "torch.add(torch.nonzero_numpy(x)[0], n)")
    m = torch.jit.load(rewritten("fails", edit))
    assert m(torch.tensor([0., 1, 2]), 1).tolist() == [2, 3]
    again = torch.jit.load(io.BytesIO(m.save_to_buffer()))
    assert "torch.nonzero_numpy(x)" in again.inner.code
    assert again(torch.tensor([0., 1, 2]), 1).tolist() == [2, 3]


def test_an_operator_that_is_missing_is_saved_as_it_was_read():
    def edit(text):
        return text.replace("x: Tensor,\n    n: int) -> Tensor:\n", "x: Tensor,\n    n: int) -> Tensor:\n"
                            "    if torch.eq(n, 5):\n"
                            "      y, z = torch._of_the_future(x, [1], mode=2)\n"
                            "      x = torch.add(y, z)\n"
                            "    else:\n"
                            "      pass\n")
    again = torch.jit.load(io.BytesIO(torch.jit.load(rewritten("fails", edit)).save_to_buffer()))
    assert "torch._of_the_future(x, [1], mode=2)\n    y, z, = _0" in again.inner.code
    assert again(torch.ones(1), 1).tolist() == [2]
    with pytest.raises(RuntimeError, match="Unknown builtin op: aten::_of_the_future"):
        again(torch.ones(1), 5)


def test_an_operator_that_is_missing_fails_although_no_result_is_read():
    def edit(text):
        return text.replace("    return torch.add(x", "    _9 = torch._change_([x], 1)\n    return torch.add(x")
    with pytest.raises(RuntimeError, match="Unknown builtin op: aten::_change_"):
        torch.jit.load(rewritten("fails", edit))(torch.ones(1), 1)


def test_keywords_of_operators_that_the_table_lacks_are_saved():
    def edit(text):
        return text.replace("torch.add(x, torch.ones([n]))", "torch.gradient(x, spacing=2, edge_order=n)[0]")
    m = torch.jit.load(rewritten("fails", edit))
    again = torch.jit.load(io.BytesIO(m.save_to_buffer()))
    assert "torch.gradient(x, spacing=2, dim=None, edge_order=n)" in again.inner.code
    assert again(torch.tensor([0., 2, 6]), 1).tolist() == m(torch.tensor([0., 2, 6]), 1).tolist() == [1, 1.5, 2]


FORMER = {
    "div": (3, "torch.div(x, y)", [3, -3]), "div_": (3, "torch.div_(x, y)", [3, -3]),
    "div_out": (3, "torch.div(x, y, out=x)", [3, -3]),
    "full": (4, "torch.full([2], 3)", [3., 3.]), "full_out": (4, "torch.full([2], 3, out=x)", [3, 3]),
    "linspace": (7, "torch.slice(torch.linspace(0, 99), 0, 0, 2)", [0., 1.]),
    "linspace_out": (7, "torch.slice(torch.linspace(0, 99, out=x), 0, 0, 2)", [0, 1]),
    "logspace": (8, "torch.slice(torch.logspace(0, 99), 0, 0, 2)", [1., 10.]),
    "gelu": (9, "torch.gelu(torch.zeros_like(x, dtype=6))", [0., 0.]),
}


@pytest.mark.parametrize("name", FORMER)
def test_older_archives_are_saved_with_what_their_operators_meant(name):
    """torch's upgraders put the former meaning into the graph; the saved archive has the version after it."""
    version, call, want = FORMER[name]

    class M(torch.nn.Module):
        def forward(self, x, y):
            return x
    saved = torch.jit.script(M()).save_to_buffer()
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved)) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            data = old.read(entry)
            if entry.filename.endswith("/version"):
                assert data == b"3\n"
                data = b"%d\n" % version
            if entry.filename.endswith(".py"):
                data = data.replace(b"    return x\n", b"    return %s\n" % call.encode())
            new.writestr(entry.filename, data)
    first = torch.jit.load(io.BytesIO(out.getvalue()))
    again = first.save_to_buffer()
    second = torch.jit.load(io.BytesIO(again))
    for m in (first, second):
        x = torch.tensor([7, -7])
        got = m(x, torch.tensor([2, 2]))
        assert got.tolist() == want and (got.dtype == torch.float32) == isinstance(want[0], float)
    with zipfile.ZipFile(io.BytesIO(again)) as archive:
        [record] = [archive.read(n) for n in archive.namelist() if n.endswith("/version")]
    assert record == b"%d\n" % (version + 1) and second.code == first.code and "__library__" not in first.code


def test_operators_of_old_versions_have_their_old_meaning():
    def edit(text):
        return text.replace("torch.add(x, torch.ones([n]))", "torch.div(x, torch.full([n], 2))")
    x = torch.tensor([7, -7])
    assert torch.jit.load(rewritten("fails", edit))(x, 2).tolist() == [3.5, -3.5]
    old = torch.jit.load(rewritten("fails", edit, version=3))
    assert old(x, 2).tolist() == [3.5, -3.5] and old(x, 2).dtype == torch.float32  # full gave floats

    def whole(text):
        return text.replace("torch.add(x, torch.ones([n]))", "torch.div(x, 2)")
    assert torch.jit.load(rewritten("fails", whole, version=3))(x, 2).tolist() == [3, -3]


def test_overloads_that_are_younger_than_an_archive_have_no_old_meaning():
    def edit(text):
        return text.replace("torch.add(x, torch.ones([n]))", "torch.linspace(x, torch.add(x, 2), 3)")
    m = torch.jit.load(rewritten("fails", edit, version=3))
    assert m(torch.tensor(1.), 1).tolist() == [1, 2, 3]
    assert "linspace(x, " in torch.jit.load(io.BytesIO(m.save_to_buffer())).inner.code


def test_damaged_archives_are_refused():
    with open(os.path.join(DATA, "trunk.pt"), "rb") as file:
        whole = file.read()
    refused = 0
    for cut in range(0, len(whole), 97):
        with pytest.raises(RuntimeError):
            torch.jit.load(io.BytesIO(whole[:cut]))
        refused += 1
    assert refused > 20


def test_other_formats_are_refused_by_name():
    with pytest.raises(RuntimeError, match="FlatBuffer"):
        torch.jit.load(io.BytesIO(b"\0\0\0\0PTMF" + b"\0" * 64))
    with pytest.raises(ValueError, match="does not exist"):
        torch.jit.load("no such file")


def edited(name, *replaced):
    """An archive with another text of its program."""
    out = io.BytesIO()
    with zipfile.ZipFile(os.path.join(DATA, name + ".pt")) as source, zipfile.ZipFile(out, "w") as made:
        for entry in source.namelist():
            data = source.read(entry)
            for old, new in zip(replaced[::2], replaced[1::2]) if entry.endswith(".py") else ():
                data = data.replace(old, new)
            if not entry.endswith(".debug_pkl"):
                made.writestr(entry, data)
    return io.BytesIO(out.getvalue())


def test_a_loop_without_end_is_interrupted():
    m = torch.jit.load(edited("branches", b"torch.eq(torch.remainder(n0, 4), 0)", b"torch.eq(n0, -1)", b"torch.lt(n0, 10), x2", b"True, x2"))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            m(torch.ones(3))
    finally:
        signal.signal(signal.SIGALRM, before)


def test_lines_of_a_long_program():
    lines = b"".join(b"    x = torch.add(x, %d)\n" % i for i in range(300))
    graph = torch.jit.load(edited("trunk", b"    linear = self.linear\n", lines + b"    linear = self.linear\n")).graph
    numbers = [int(line.rsplit(":", 2)[1]) for line in str(graph).splitlines() if "aten::add(" in line][:300]
    assert numbers == list(range(numbers[0], numbers[0] + 300))


def _with_outs(a: torch.Tensor, b: torch.Tensor, o: torch.Tensor):
    a = torch.addcmul(a, b, b, value=2, out=a)
    torch.add(a, b, out=o)
    torch.mul(a, 3.0, out=o)
    return torch.sum(o, 0, out=torch.empty(2)), torch.max(a, b, out=o)


def test_out_is_an_argument_of_operators():
    a, b, o = torch.ones(2, 2), torch.full((2, 2), 2.0), torch.empty(0)
    f = torch.jit.script(_with_outs)
    total, most = f(a, b, o)
    assert total.tolist() == [54, 54] and a.tolist() == most.tolist() == o.tolist() == [[9, 9], [9, 9]]
    assert [line.strip() for line in f.code.splitlines()[3:]] == [
        "a0 = torch.addcmul(a, b, b, value=2, out=a)", "_0 = torch.add(a0, b, out=o)", "_1 = torch.mul(a0, 3., out=o)",
        "_2 = torch.empty([2])", "_3 = (torch.sum(o, [0], out=_2), torch.max(a0, b, out=o))", "return _3"]
    trained = torch.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation, but one of the arguments requires grad"):
        f(trained, b, o)


class Recipe:
    def __init__(self, sizes: list[int], scale: float):
        self.sizes = sizes
        self.scale = scale

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(self.sizes) * self.scale


class WithRecipes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.recipes = {1: Recipe([2, -1], 2.0), 2: Recipe([-1], 3.0)}
        self.more = [Recipe([1, -1], 1.0)]

    def forward(self, x: torch.Tensor):
        return self.more[0].apply(self.recipes[x.dim()].apply(x))


def test_attributes_that_are_lists_and_dicts_of_objects():
    made = torch.jit.script(WithRecipes())
    assert made(torch.ones(4)).tolist() == [[2, 2, 2, 2]] and made(torch.ones(2, 2)).tolist() == [[3, 3, 3, 3]]


def test_scripts_are_not_compiled():
    def asks(x):
        if not torch.jit.is_scripting() or torch.compiler.is_compiling() or torch.compiler.is_exporting():
            return x + 1
        return x

    assert torch.jit.script(asks)(torch.ones(1)).item() == 1 and asks(torch.ones(1)).item() == 2


NUMBERS = ["atan2(a, b)", "fmod(a, b)", "copysign(a, -b)", "remainder(a, b)", "log(a, b)", "log(a, 3)", "log(2, b)", "ldexp(a, 3)",
           "modf(a)[0]", "frexp(a)[1]", "factorial(5)", "atan2(1, 2)"]
WORDS = ["swapcase()", "istitle()", "isprintable()", "isdecimal()", "isnumeric()", "expandtabs(3)", "rsplit(' ')", "rsplit('b', 1)",
         "rsplit('ab', 2)", "partition('b')", "rpartition('b')", "index('b')", "rindex('b')"]


@pytest.mark.parametrize("call", NUMBERS)
def test_functions_of_math_are_those_of_python(call):
    kind = "int" if call.startswith("f") and call != "fmod(a, b)" else "float"
    f = torch.jit.CompilationUnit(f"def f(a: float, b: float) -> {kind}:\n    return math.{call}\n").f
    for a, b in (2.5, 3.0), (0.25, 7.5):
        assert f(a, b) == eval(f"math.{call}", {"math": math, "a": a, "b": b})


@pytest.mark.parametrize("call", WORDS)
def test_methods_of_strings_are_those_of_python(call):
    value = eval(f"'ab'.{call}")
    kind = {list: "List[str]", tuple: "Tuple[str, str, str]"}.get(type(value), type(value).__name__)
    f = torch.jit.CompilationUnit(f"def f(s: str) -> {kind}:\n    return s.{call}\n").f
    for s in "ab", "Ab Cd", "a\tb b", "b ab abab", "12b", "aBb c\x7f":
        assert f(s) == eval(f"s.{call}", {"s": s}), s
    if "index" in call:
        with pytest.raises(RuntimeError, match="ValueError: substring not found"):
            f("x")


def test_sizes_of_tensors_without_dims():
    unit = torch.jit.CompilationUnit("def size(x, d: int):\n    return x.size(d)\n\ndef stride(x, d: int):\n    return x.stride(d)\n")
    for f in (unit.size, unit.stride):
        for d in (0, -1, 1):
            with pytest.raises(RuntimeError, match=f"Dimension specified as {d} but tensor has no dimensions"):
                f(torch.tensor(2.0), d)
        assert f(torch.ones(2, 3), -1) == (3 if f.name == "size" else 1)
