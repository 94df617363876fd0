"""Arguments that no schema takes as they are: bools and numbers as numbers, outputs by name, and defaulted arguments.

Code and results are what torch 2.13 printed; None: torch's code has an overload that the table lacks.  "refused": the
program or its call is an error."""
import re
from typing import List, NamedTuple

import pytest

import cresset as torch
from cresset._ops import table_names

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PROGRAM = """def g(n: number):
    return n
def h(n: int):
    return n
def f(x: Tensor, b: bool):
    return %s
"""

# expression, code, result for x = [1, 4] and b = True
CALLS = [
    ('torch.full([1], True)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.full([1], 1)\n',
     ['int64', [1]]),
    ('torch.full([2], b, dtype=torch.bool)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.full([2], int(b), dtype=11)\n',
     ['bool', [True, True]]),
    ('torch.add(x, b, alpha=b)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.add(x, int(b), int(b))\n',
     ['float32', [2.0, 5.0]]),
    ('torch.eq(x, b)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.eq(x, int(b))\n',
     ['bool', [True, False]]),
    ('x.fill_(True)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.fill_(x, 1)\n',
     ['float32', [1.0, 1.0]]),
    ('torch.clamp(x, b, b)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.clamp(x, int(b), int(b))\n',
     ['float32', [1.0, 1.0]]),
    ('x[0].item() + b', 'def f(x: Tensor,\n    b: bool) -> int:\n  _0 = int(torch.item(torch.select(x, 0, 0)))\n  return torch.add(_0, int(b))\n',
     2),
    ('torch.add(1, b)', 'def f(x: Tensor,\n    b: bool) -> int:\n  return torch.add(1, int(b))\n',
     2),
    ('g(b)', None, 1),
    ('torch.linspace(b, 2.5, 3)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.linspace(int(b), 2.5, 3)\n',
     ['float32', [1.0, 1.75, 2.5]]),
    ('torch.dropout(x, b, False)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.dropout(x, float(b), False)\n',
     ['float32', [1.0, 4.0]]),
    ('abs(b)', 'def f(x: Tensor,\n    b: bool) -> int:\n  return ops.prim.abs(int(b))\n',
     1),
    ('max(b, 2)', 'def f(x: Tensor,\n    b: bool) -> int:\n  return ops.prim.max(int(b), 2)\n',
     2),
    ('b * 2.5', 'def f(x: Tensor,\n    b: bool) -> float:\n  return torch.mul(float(b), 2.5)\n',
     2.5),
    ('torch.mul(b, x[0])', 'refused', None),
    ('torch.where(x > 2, b, 1.5)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  _0 = torch.where(torch.gt(x, 2), int(b), 1.5)\n  return _0\n',
     ['float32', [1.5, 1.0]]),
    ('torch.arange(b)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.arange(int(b))\n',
     ['int64', [0]]),
    ('b == 1', 'def f(x: Tensor,\n    b: bool) -> bool:\n  return torch.eq(int(b), 1)\n',
     True),
    ('b < 1', 'def f(x: Tensor,\n    b: bool) -> bool:\n  return torch.lt(int(b), 1)\n',
     False),
    ('torch.pow(b, 2)', 'def f(x: Tensor,\n    b: bool) -> float:\n  return torch.pow(int(b), 2)\n',
     1.0),
    ('b & 1', 'def f(x: Tensor,\n    b: bool) -> int:\n  return torch.__and__(int(b), 1)\n',
     1),
    ('-b', 'def f(x: Tensor,\n    b: bool) -> int:\n  return torch.neg(int(b))\n',
     -1),
    ('x ** b', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.pow(x, int(b))\n',
     ['float32', [1.0, 4.0]]),
    ('b + x[0]', 'refused', None),
    ('h(x[0].item())', None, 1),
    ('h(b)', None, 1),
    ('torch.sort(x, values=torch.zeros(2), indices=torch.zeros(2, dtype=torch.long), dim=0)', None, [['float32', [1.0, 4.0]], ['int64', [0, 1]]]),
    ('torch.sort(x, indices=torch.zeros(2, dtype=torch.long), values=torch.zeros(2), descending=True)', None, [['float32', [4.0, 1.0]], ['int64', [1, 0]]]),
    ('torch.ops.aten.special_zeta(2, x, out=torch.zeros(2))', None, ['float32', [1.644934058189392, 0.2838229537010193]]),
    ('torch.float_power(2, x, out=torch.zeros(2, dtype=torch.float64))', None, ['float64', [2.0, 16.0]]),
    ('torch.ops.aten.copy(x, torch.ones(2), True)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.copy(x, torch.ones([2]), True)\n',
     ['float32', [1.0, 1.0]]),
    ('torch.ops.aten.view_copy(x, torch.int32)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.view_copy(x, 3)\n',
     ['int32', [1065353216, 1082130432]]),
    ('torch.ops.aten.unique_dim(x, 0)', 'def f(x: Tensor,\n    b: bool) -> Tuple[Tensor, Tensor, Tensor]:\n  _0, _1, _2 = torch.unique_dim(x, 0)\n  return (_0, _1, _2)\n',
     [['float32', [1.0, 4.0]], ['int64', [0, 1]], ['int64', [1, 1]]]),
    ('torch.ops.aten._to_sparse(x, dense_dim=0).to_dense()', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  _0 = torch._to_sparse(x, layout=None, blocksize=None, dense_dim=0)\n  return torch.to_dense(_0)\n',
     ['float32', [1.0, 4.0]]),
    ('torch.ops.aten.norm(x, 3, dtype=torch.float64)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  return torch.norm(x, 3, dtype=7)\n',
     ['float64', 4.020725758589058]),
    ('torch.ops.aten.gradient(x, dim=[0])', None, [['float32', [3.0, 3.0]]]),
    ('torch.ops.aten.cumulative_trapezoid(torch.ones(2, 3, 2), torch.arange(6.).view(3, 2), dim=1)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  _0 = torch.cumulative_trapezoid(torch.ones([2, 3, 2]), torch.view(torch.arange(6.), [3, 2]), dim=1)\n  return _0\n',
     ['float32', [[[2.0, 2.0], [4.0, 4.0]], [[2.0, 2.0], [4.0, 4.0]]]]),
    ('torch.ops.aten.trapezoid(torch.ones(2, 3, 2), torch.arange(6.).view(3, 2), dim=1)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  _0 = torch.trapezoid(torch.ones([2, 3, 2]), torch.view(torch.arange(6.), [3, 2]), dim=1)\n  return _0\n',
     ['float32', [[4.0, 4.0], [4.0, 4.0]]]),
    ('torch.ops.aten.upsample_nearest2d(torch.arange(16.).view(1, 1, 4, 4), [3, 3], 0.5)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  _0 = torch.view(torch.arange(16.), [1, 1, 4, 4])\n  _1 = torch.upsample_nearest2d(_0, [3, 3], 0.5)\n  return _1\n',
     ['float32', [[[[0.0, 1.0, 2.0], [8.0, 9.0, 10.0], [12.0, 13.0, 14.0]]]]]),
    ('torch.ops.aten.upsample_nearest2d(torch.arange(16.).view(1, 1, 4, 4), [3, 3], None, 0.5)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  _0 = torch.view(torch.arange(16.), [1, 1, 4, 4])\n  _1 = torch.upsample_nearest2d(_0, [3, 3], None, 0.5)\n  return _1\n',
     ['float32', [[[[0.0, 2.0, 3.0], [4.0, 6.0, 7.0], [8.0, 10.0, 11.0]]]]]),
    ('torch.ops.aten._upsample_bilinear2d_aa(torch.arange(16.).view(1, 1, 4, 4), [3, 3], False, None, 0.5)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  _0 = torch.view(torch.arange(16.), [1, 1, 4, 4])\n  _1 = torch._upsample_bilinear2d_aa(_0, [3, 3], False, None, 0.5)\n  return _1\n',
     ['float32', [[[[1.9142857789993286, 3.4857144355773926, 4.199999809265137], [6.714285850524902, 8.285714149475098, 9.0], [11.514286041259766, 13.085714340209961, 13.800000190734863]]]]]),
    ('torch.ops.aten.upsample_nearest3d(torch.arange(8.).view(1, 1, 2, 2, 2), [2, 2, 3], None, 0.5, None)', 'def f(x: Tensor,\n    b: bool) -> Tensor:\n  _0 = torch.view(torch.arange(8.), [1, 1, 2, 2, 2])\n  _1 = torch.upsample_nearest3d(_0, [2, 2, 3], None, 0.5)\n  return _1\n',
     ['float32', [[[[[0.0, 0.0, 1.0], [2.0, 2.0, 3.0]], [[4.0, 4.0, 5.0], [6.0, 6.0, 7.0]]]]]]),
    ('torch.relu(x, foo=x)', 'refused', None),
    ('torch.sort(x, a=x, b=x)', 'refused', None),
    ('torch.sort(x, out0=x, out1=x)', 'refused', None),
    ('torch.zeros([b])', 'refused', None),
]


def flat(v):
    if isinstance(v, (list, tuple)):
        return [flat(i) for i in v]
    return [str(v.dtype).split(".")[1], v.tolist()] if isinstance(v, torch.Tensor) else v


def same(made, want):
    if isinstance(want, list):
        return len(made) == len(want) and all(same(a, b) for a, b in zip(made, want))
    return made == pytest.approx(want, rel=1e-6) if isinstance(want, float) else made == want


@pytest.mark.parametrize("call, code, want", CALLS)
def test_calls_are_those_of_torch(call, code, want):
    def run():
        f = torch.jit.CompilationUnit(PROGRAM % call).f
        return f.code, flat(f(torch.tensor([1.0, 4.0]), True))

    if code == "refused":
        with pytest.raises(RuntimeError):
            run()
        return
    made, result = run()
    assert code is None or made == code
    assert same(result, want), result


@pytest.mark.parametrize("call, value, text", [
    ("h(x)", torch.tensor(1.5), "Cannot input a tensor of type Float as an integral argument"),
    ("h(x)", torch.tensor(True), "Cannot input a tensor of type Bool as an integral argument"),
    ("int(x)", torch.tensor(float("inf")), "value cannot be converted to type int64_t without overflow"),
    ("int(x)", torch.tensor(float("nan")), "value cannot be converted to type int64_t without overflow"),
    ("int(x)", torch.tensor(-1e30), "value cannot be converted to type int64_t without overflow"),
    ("float(x)", torch.tensor(1j), "value cannot be converted to type double without overflow"),
    ("int(x.item())", torch.tensor(1j), "value cannot be converted to type int without overflow")])
def test_elements_that_are_no_such_number_are_refused(call, value, text):
    f = torch.jit.CompilationUnit(PROGRAM % call).f
    with pytest.raises(RuntimeError, match=text):
        f(value, True)


@pytest.mark.parametrize("call", ["torch.norm(x, 3, dtype=torch.float64)", "torch.norm(x, 2)",
                                  "torch.norm(x, 1, [0], True, dtype=torch.float64)", "x.norm()"])
def test_norms_have_torchs_overloads(call):
    x = torch.tensor([1.0, 4.0])
    f = torch.jit.CompilationUnit(PROGRAM % call).f
    torch.testing.assert_close(f(x, True), eval(call))
    assert "None" not in f.code  # no overload of torch has both a dtype and no dim


# --- values of Python that become those of programs ---

def _takes(annotation):
    unit = torch.jit.CompilationUnit(f"def f(x: {annotation}):\n    return x\n")
    return unit.f


ITERABLES = {"generator": lambda x: (v for v in x), "keys": lambda x: dict.fromkeys(x).keys(),
             "values": lambda x: dict(enumerate(x)).values(), "map": lambda x: map(lambda v: v, x),
             "set": lambda x: set(x), "range": lambda x: range(len(x))}


@pytest.mark.parametrize("made", ITERABLES.values(), ids=ITERABLES)
@pytest.mark.parametrize("annotation, items", [("List[int]", [0, 1, 2]), ("List[float]", [0.0, 1.0, 2.0]),
                                               ("Optional[List[int]]", [0, 1, 2])])
def test_lists_of_numbers_are_made_of_what_gives_items(annotation, items, made):
    assert _takes(annotation)(made(items)) == items


def test_lists_of_tensors_are_made_of_what_gives_items():
    items = [torch.ones(1), torch.zeros(1)]
    for x in ((v for v in items), dict.fromkeys(items).keys(), dict(enumerate(items)).values()):
        assert [t.tolist() for t in _takes("List[Tensor]")(x)] == [[1.0], [0.0]]


class Interrupts:
    def __iter__(self):
        raise KeyboardInterrupt

    def __int__(self):
        raise KeyboardInterrupt


def test_an_interrupt_while_a_value_is_converted_is_no_other_type():
    for annotation in ("Dict[str, int]", "Optional[Dict[str, int]]", "List[str]"):
        with pytest.raises(KeyboardInterrupt):
            _takes(annotation)(Interrupts())


def test_text_that_is_no_unicode_is_refused():
    for annotation, x in (("Dict[str, int]", [("\ud800", 1)]), ("Optional[Dict[str, int]]", {"\ud800": 1}), ("str", "\ud800"),
                          ("List[str]", ["\ud800"])):
        with pytest.raises(RuntimeError, match="Expected a value of type"):
            _takes(annotation)(x)


@pytest.mark.parametrize("blank", [" ", "\t", "  ", "\f", "\\\n"])
def test_a_coroutine_is_refused_whatever_stands_behind_async(blank, tmp_path):
    file, names = tmp_path / "coroutine.py", {}
    file.write_text(f"async{blank}def f(x: int):\n    return x\n")
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(RuntimeError, match="Expected a single top-level function"):
        torch.jit.script(names["f"])


def test_the_modules_that_types_name_are_there():
    import subprocess
    import sys
    code = ("import sys, cresset\nassert cresset.jit._script.RecursiveScriptModule is cresset.jit.RecursiveScriptModule\n"
            "for t in (cresset.jit.ScriptModule, cresset.jit.RecursiveScriptModule):\n"
            "    assert getattr(sys.modules[t.__module__], t.__name__) is t\nprint('there')\n")
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "there\n"


def nodes(function):
    return [(node.kind(), [str(v.type()) for v in node.inputs()]) for node in function.graph.nodes()]


def read_again(function):
    """The function that the text of another one is; its operators are those of archives."""
    return torch.jit.CompilationUnit(re.sub(r"torch\.(\w+\()", r"torch.ops.aten.\1", function.code)).f


def test_written_calls_choose_the_overload_that_they_have():
    """Texts have no names of overloads, and arguments by position: what is read again must take the same conversions."""
    compared = 0
    for name in table_names("aten"):
        for parameters in torch._C._script_parameters(f"aten::{name}"):
            kinds, keys = [p[1] for p in parameters], [p[0] for p in parameters]
            if any(re.search(r"\bt\b", kind) for kind in kinds) or "from" in keys:  # no annotations, and no keyword of Python
                continue
            given = ", ".join(f"a{i}: {kind}" for i, kind in enumerate(kinds))
            args = ", ".join(f"{key}=a{i}" for i, key in enumerate(keys))
            f = torch.jit.CompilationUnit(f"def f({given}):\n    return torch.ops.aten.{name}({args})\n").f
            assert nodes(read_again(f)) == nodes(f), f.code
            compared += 1
    assert compared > 2000


def test_programs_have_no_view_of_another_dtype():
    """A dtype is an int of programs, which `view` takes as a size, as in torch."""
    source = "def f(x: Tensor):\n    return x.view({}torch.int32)\n"
    with pytest.raises(RuntimeError, match="Argument size not provided"):
        torch.jit.CompilationUnit(source.format("dtype="))
    assert "torch.view(x, [3])" in torch.jit.CompilationUnit(source.format("")).f.code


class Fields(NamedTuple):
    n: int
    words: List[str]


EMPTY = """def words(l: List[str]): return l
def pair(p: Tuple[List[int], int]): return p
def given(l: Optional[List[int]] = None): return l
def f(x: Tensor, a: Optional[List[int]], n: List[int], b: bool):
    return %s
"""


@pytest.mark.parametrize("expression, code", [
    ("words([])", "__torch__.words(annotate(List[str], []), )"),
    ("words(l=([]))", "__torch__.words(annotate(List[str], []), )"),
    ("pair(([], 1))", "__torch__.pair((annotate(List[int], []), 1), )"),
    ("given([])", "__torch__.given(annotate(List[int], []), )"),
    ("x.sum([])", "torch.sum(x, annotate(List[int], []))"),
    ("torch.zeros([])", "torch.zeros(annotate(List[int], []))"),
    ("n == []", "torch.eq(n, annotate(List[int], []))"),
    ("''.join([])", 'torch.join("", annotate(List[str], []))'),
    ("torch.cat([])", "torch.cat(annotate(List[Tensor], []))"),
])
def test_an_empty_list_has_the_type_of_what_takes_it(expression, code):
    """Code as torch prints it."""
    f = torch.jit.CompilationUnit(EMPTY % expression).f
    assert re.sub(r"\.___torch_mangle_\d+|\n  return _0\n|return |_0 = ", "", f.code.partition(":\n  ")[2]).strip() == code


def test_a_variable_with_an_empty_list_has_tensors():
    """Its list may have other readers, so its type stays; one that has a type before keeps that."""
    for body in ("    y = []\n    return words(y)\n", "    y = ([], 1)\n    return pair(y)\n", "    return words(list())\n"):
        with pytest.raises(RuntimeError, match=r"instead found type '.*List\[Tensor\]"):
            torch.jit.CompilationUnit(EMPTY.replace("    return %s\n", body))
    with pytest.raises(RuntimeError, match=r"Empty lists default to List\[Tensor\]\. Add a variable annotation"):
        torch.jit.CompilationUnit(EMPTY % "words(list())")
    f = torch.jit.CompilationUnit(EMPTY.replace("    return %s\n", "    if b:\n        a = []\n    return a\n")).f
    assert f(torch.ones(1), [1], [2], True) == [] and f(torch.ones(1), [1], [2], False) == [1]


def test_fields_and_layers_take_defaults_and_empty_lists():
    def fields(n: int):
        return Fields(n, []).words + ["a"]

    class Bag(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bag = torch.nn.EmbeddingBag(5, 3)

        def forward(self, x, y):
            return self.bag(x, y)

    x, y, bag = torch.tensor([1, 2, 4]), torch.tensor([0, 1]), Bag()
    assert torch.jit.script(fields)(1) == ["a"]
    assert torch.jit.script(bag)(x, y).equal(bag(x, y))
