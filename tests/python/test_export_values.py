"""Numbers and sizes that depend on elements, in exported programs: each program computes what its module computes, for inputs with
other elements and sizes, before and after a file."""
import io
import json
import zipfile

import cresset as torch
import pytest
from cresset.export import Dim, export, load, save
from cresset.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from cresset.utils._pytree import tree_leaves


class Function(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x, y=None, z=None):
        return self.f(*(a for a in (x, y, z) if a is not None))


def equal(a, b):
    a, b = tree_leaves(a), tree_leaves(b)
    return len(a) == len(b) and all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(a, b))


def again(program):
    buffer = io.BytesIO()
    save(program, buffer)
    loaded = load(io.BytesIO(buffer.getvalue()))
    return loaded


def n(x):
    k = x.item()
    torch._check_is_size(k)
    return k


def checked(k, low, high):
    torch._check(k >= low)
    torch._check(k <= high)
    return k


def first(x, y):
    k = n(x)
    torch._check(k <= y.shape[0])
    return y[:k] * 2


# name: (function, several lists of arguments, whether sizes of dim 0 of the last one vary)
I, R = torch.tensor, torch.arange
PROGRAMS = {
    "item": (lambda x: x.item(), [(I(3),), (I(-4),)], False),
    "item of a float": (lambda x: x.item(), [(I(3.5),), (I(-1.0),)], False),
    "item of a bool": (lambda x: x.item(), [(I(True),), (I(False),)], False),
    "arithmetic": (lambda x, y: (x.item() * 2 + 1, y * x.item() - (x.item() + 3)), [(I(3), R(4.)), (I(0), R(4.))], True),
    "a float": (lambda x, y: y * x.item() + 1, [(I(2.5), R(4.)), (I(0.), R(4.))], True),
    "full": (lambda x: torch.full((n(x), 2), 1.5), [(I(3),), (I(0),), (I(1),), (I(9),)], False),
    "ones": (lambda x: torch.ones(checked(x.item(), 2, 8)).sum(), [(I(4),), (I(2),), (I(8),)], False),
    "sizes of two": (lambda x, y: torch.zeros(n(x), n(y)) + torch.ones(n(y)), [(I(3), I(2)), (I(5), I(5)), (I(0), I(1))], False),
    "sum of sizes": (lambda x: torch.cat([torch.zeros(n(x)), torch.ones(n(x) + 2)]), [(I(3),), (I(0),)], False),
    "slice": (first, [(I(3), R(6.)), (I(0), R(9.)), (I(9), R(9.))], True),
    "nonzero": (lambda x: x.nonzero(), [(I([1, 0, 2, 3]),), (I([0, 0]),), (I([1]),), (I([1] * 9),)], True),
    "nonzero as tuple": (lambda x: torch.nonzero(x, as_tuple=True), [(I([[1, 0], [0, 3]]),), (I([[0, 0]]),)], True),
    "nonzero of a number": (lambda x: x.nonzero(), [(I(3),), (I(0),)], False),
    "where": (lambda x: torch.where(x > 0), [(I([1, 0, 2]),), (I([0]),)], True),
    "argwhere": (lambda x: torch.argwhere(x), [(I([[1, 0], [2, 3]]),), (I([[0, 0]]),)], True),
    "masked select": (lambda x: torch.masked_select(x, x > 2) + 1, [(R(7.),), (R(2.),)], True),
    "mask": (lambda x: x[x > 2].exp(), [(R(7.),), (R(2.),)], True),
    "mask of rows": (lambda x: x[x.sum(1) > 2] @ torch.ones(3, 2), [(R(12.).reshape(4, 3),), (torch.zeros(2, 3),)], True),
    "an index without a mask": (lambda i, x: x[i, 1], [(I([1, 0]), R(6.).reshape(3, 2)), (I([1, 1]), R(4.).reshape(2, 2))], True),
    "unique": (lambda x: torch.unique(x), [(I([3, 1, 3, 0]),), (I([2]),)], True),
    "unique with counts": (lambda x: torch.unique(x, return_inverse=True, return_counts=True), [(I([3, 1, 3, 0]),), (I([2]),)], True),
    "repeat interleave": (lambda k, x: x.repeat_interleave(k, 0), [(I([2, 0, 1]), R(3.)), (I([1, 4, 0]), R(3.))], False),
    "bincount": (lambda x: torch.bincount(x), [(I([3, 1, 3, 0]),), (I([9, 2]),)], True),
    "size of a result": (lambda x: x.nonzero().shape[0] * 2 + x.shape[0], [(I([1, 0, 2, 3]),), (I([0, 0]),)], True),
    "two masks that must agree": (lambda x: x[x > 2] + (x * 2)[x > 2], [(R(7.),), (R(3.),)], True),
    "tolist": (lambda x: x.tolist(), [(I([1, 2, 3]),), (I([4, 5, 0]),)], False),
    "a fact about a sum": (lambda x, y: torch.ones(checked(n(x) + n(y), 1, 9)), [(I(3), I(2)), (I(0), I(4))], False),
    "cond": (lambda x: torch.cond(x.nonzero().size(0) > 3, lambda y: y + 1, lambda y: y * 2, (x,)), [(R(9),), (R(2),)], True),
    "item in cond": (lambda p, k, x: torch.cond(p, lambda y: y * k.item(), lambda y: y - k.item(), (x,)),
                     [(I(True), I(4), R(3)), (I(False), I(5), R(3))], False),
}


def _closing(branch, other=lambda x, z: x.sum() - 1):
    """A torch.cond whose branches are functions of the operand and of a tensor that they close over, whose size depends on elements."""
    def run(p, x):
        z = x.nonzero()
        return torch.cond(p, lambda y: branch(y, z), lambda y: other(y, z), (x,))
    return run


_CALLS = [(I(True), I([1, 0, 2, 3])), (I(True), I([5, 0, 0, 0])), (I(False), I([5, 0, 1, 0])), (I(True), I([5, 1, 1, 7]))]
PROGRAMS.update({
    "a size of an operand of cond": (lambda p, x: torch.cond(p, lambda z: z + z.shape[0], lambda z: z - z.numel(), (x.nonzero(),)), _CALLS, False),
    "sizes that branches make": (lambda p, x: torch.cond(p, lambda z: torch.ones(z.shape[0]), lambda z: torch.zeros(z.shape[0]), (x.nonzero(),)), _CALLS, False),
    "a slice in cond": (lambda p, x: torch.cond(p, lambda z: z[:z.shape[0] // 2 + 1].sum(0), lambda z: z[:1].sum(0), (x.nonzero(),)), _CALLS, False),
    "a size that a branch closes over": (_closing(lambda y, z: y.sum() + z.shape[0]), _CALLS, False),
    "a tensor and its size": (_closing(lambda y, z: (z * z.shape[0]).sum() + y.numel()), _CALLS, False),
    "two closures": (_closing(lambda y, z: z.sum() + y[0], lambda y, z: y[0] * z.shape[0]), _CALLS, False),
    "a branch in a branch": (_closing(lambda y, z: torch.cond(y[0] > 3, lambda w: w.sum() + z.shape[0], lambda w: w.sum() - z.shape[0], (y,))), _CALLS, False),
    "an element and a size in a branch": (_closing(lambda y, z: y.sum() + z.shape[0] * y[0].item()), _CALLS, False),
    "a size that varies in cond": (lambda p, x: torch.cond(p, lambda y: y.mean(0) / y.shape[0], lambda y: y.sum(0) * x.numel(), (x,)),
                                   [(I(True), R(4.)), (I(True), R(7.)), (I(False), R(9.))], True),
})


@pytest.mark.parametrize("branch", [
    lambda y, a: y + a, lambda y, a: y * 2 if a > 4 else y, lambda y, a: y + torch.zeros(a).sum(), lambda y, a: y - (a * 2 + 1),
    lambda y, a: y + 1 // a, lambda y, a: y[:a].sum(0), lambda y, a: torch.cond(y[0] > 0, lambda z: z + a, lambda z: z + 1, (y,)),
    lambda y, a: torch.full_like(y, a), lambda y, a: y + float(a), lambda y, a: y + sum(range(a))])
@pytest.mark.parametrize("number", [lambda k, x: k.item(), lambda k, x: n(k) + 1, lambda k, x: x.nonzero().shape[0]])
def test_a_number_that_a_branch_closes_over_is_refused(branch, number):
    def f(p, k, x):
        a = number(k, x)
        return torch.cond(p, lambda y: branch(y, a), lambda y: y - 1, (x,))
    with pytest.raises((torch._dynamo.exc.UncapturedHigherOrderOpError, GuardOnDataDependentSymNode)):
        export(Function(f), (I(True), I(3), R(5.)))


def test_a_float_that_a_branch_closes_over_is_refused():
    def f(p, k, x):
        a = k.item()
        return torch.cond(p, lambda y: y * a, lambda y: y - 1, (x,))
    with pytest.raises(torch._dynamo.exc.UncapturedHigherOrderOpError, match="a branch uses a number that varies"):
        export(Function(f), (I(True), I(2.5), R(5.)))


def test_a_fact_of_an_element_and_a_size_in_a_branch_is_refused():
    def branch(y, z):
        k = y[0].item()
        torch._check(k <= z.shape[0])
        return z[0] + k
    with pytest.raises(GuardOnDataDependentSymNode):
        export(Function(_closing(branch, lambda y, z: z[0] * 1)), _CALLS[0])

def count(x):
    return x[x > 0].shape[0]


_MASKS = [(I([1., 2, 3]),), (I([0., 0, 3]),), (I([0., 0, 0]),)]
PROGRAMS.update({
    "a tensor of a size": (lambda x: torch.tensor(count(x)), _MASKS, False),
    "a tensor of a list": (lambda x: torch.tensor([count(x), 1.5]) * 2, _MASKS, False),
    "a tensor of nested lists": (lambda x: torch.tensor([[count(x), 1], [2, count(x) * 2 + 1]]), _MASKS, False),
    "a tensor of a dtype": (lambda x: torch.tensor([count(x)], dtype=torch.float64) / 3, _MASKS, False),
    "as_tensor": (lambda x: torch.as_tensor(count(x)) + x, _MASKS, False),
    "asarray": (lambda x: torch.asarray([count(x), 2]), _MASKS, False),
    "new_tensor": (lambda x: x.new_tensor([count(x)]), _MASKS, False),
    "a tensor of a float": (lambda x: torch.tensor(x.sum().item()) * 2, _MASKS, False),
    "a tensor of an element": (lambda x: torch.tensor(x.sum().long().item()) * 2, _MASKS, False),
    "a tensor of elements": (lambda x: torch.tensor(x.long().tolist()), _MASKS, False),
    "an index by numbers": (lambda x: x[[x.long()[0].item(), 2]], [(I([1., 2, 3]),), (I([0., 0, 3]),), (I([2., 0, 0]),)], False),
    "nonzero_static": (lambda x: torch.nonzero_static(x, size=2), _MASKS, False),
    "more rows than elements": (lambda x: torch.nonzero_static(x, size=4, fill_value=7), _MASKS, False),
})


@pytest.mark.parametrize("function, operator", [
    (lambda y, x: len(torch.chunk(y, 2)) * x, "chunk"), (lambda y, x: torch.cat([c.sum()[None] for c in y.chunk(2)]), "chunk"),
    (lambda y, x: [t * 2 for t in y.split(2)], "split"), (lambda y, x: y.unbind(0), "unbind"), (lambda y, x: [t + 1 for t in y], "unbind"),
    (lambda y, x: torch.stack([t for t in y[:2]]), "unbind"), (lambda y, x: len(y.split(100)) * x, "split"),
    (lambda y, x: len((y[:, None] * y).split(50, 1)) * x, "split"), (lambda y, x: len(x.split(x.long()[2].item())) * x, "split"),
    (lambda y, x: len(torch.unsafe_chunk(torch.cat([y, x]), 90)) * x, "unsafe_chunk")])
def test_a_count_of_results_that_an_element_decides_is_refused(function, operator):
    with pytest.raises(GuardOnDataDependentSymNode, match=f"number of results of {operator}"):
        export(Function(lambda x: function(x[x > 0], x)), _MASKS[0])


@pytest.mark.parametrize("branch", [lambda z: z.sum() * len(z.chunk(2)), lambda z: z.sum() * len(torch.cat([z, z]).split(40)),
                                    lambda z: torch.cond(z.sum() > 0, lambda a: a.sum() * len(a.unbind()), lambda a: a.sum(), (z,)),
                                    lambda z: z.sum() * len(z[1:].split(70))])
def test_a_count_of_results_in_a_branch_that_an_element_decides_is_refused(branch):
    def f(p, x):
        return torch.cond(p, branch, lambda z: z.sum() * 1.0, (x[x > 0],))
    with pytest.raises(GuardOnDataDependentSymNode, match="number of results of "):
        export(Function(f), (torch.tensor(True), *_MASKS[0]))


@pytest.mark.parametrize("f", [lambda x: x.split(2), lambda x: x.split(4), lambda x: x.chunk(4), lambda x: (x + 1)[1:].split(3), lambda x: x.unbind(),
                               lambda x: torch.cat([x, x]).split(5), lambda x: x.split(x.shape[0] // 2), lambda x: x.chunk(2)])
@pytest.mark.parametrize("dim", [Dim.AUTO, Dim.DYNAMIC, Dim("n"), Dim("n", max=40)])
def test_counts_of_results_are_guarded(f, dim):
    """No call of the program returns the example's number of tensors where the function returns another one."""
    try:
        program = export(Function(f), (torch.ones(6, 3),), dynamic_shapes=({0: dim},)).module()
    except Exception as error:
        assert dim is not Dim.AUTO and "Constraints violated" in str(error) or "marked" in str(error)
        return
    taken = 0
    for n in (*range(2, 30), 64):
        try:
            out = program(torch.ones(n, 3))
        except (AssertionError, RuntimeError):
            continue
        taken += 1
        assert [x.shape for x in out] == [x.shape for x in f(torch.ones(n, 3))], n
    assert taken


def test_a_fixed_count_of_results_in_a_branch():
    def branch(z):
        a, b = (z[:, None] * torch.ones(4)).chunk(2, 1)
        return a.sum() - b.sum() * 2

    def f(p, x):
        return torch.cond(p, branch, lambda z: z.sum() * 1.0, (x[x > 0],))
    program = export(Function(f), (torch.tensor(True), *_MASKS[0]))
    for call in _MASKS:
        assert equal(program.module()(torch.tensor(True), *call), f(torch.tensor(True), *call))


def test_a_count_of_results_that_a_size_decides_is_refused_in_a_branch():
    def f(p, x):
        return torch.cond(p, lambda z: z.sum() * len(z.split(50)), lambda z: z.sum() * 1.0, (x,))
    with pytest.raises(GuardOnDataDependentSymNode, match="number of results of split"):
        export(Function(f), (torch.tensor(True), torch.ones(3, 4)), dynamic_shapes=({}, {0: Dim("n", max=500)}))


@pytest.mark.parametrize("operator, arguments, follows", [
    ("unbind.int", (), "dim"), ("split.Tensor", (3,), "dim argument"), ("chunk", (3,), "dim argument"), ("tensor_split.sections", (3,), "argument"),
    ("unsafe_chunk", (3,), "dim argument"), ("unsafe_split.Tensor", (3,), "dim argument"), ("unbind_copy.int", (), "dim"),
    ("split_copy.Tensor", (3,), "dim argument"), ("meshgrid", (), ""), ("hsplit.int", (2,), "argument")])
def test_the_table_says_which_counts_of_results_follow_a_size(operator, arguments, follows):
    name, _, overload = operator.partition(".")
    function = getattr(getattr(torch.ops.aten, name), overload or "default")

    def count(n, *more):
        x = torch.ones(n, 12)
        return len(function([x[:, 0]] if name == "meshgrid" else x.t() if name == "hsplit" else x, *more))
    dim = len({count(n, *arguments) for n in (2, 4, 8, 64)}) > 1
    recorder, x = torch._C.Recorder(whole=True), torch.ones(4, 12)
    recorder.input(x)
    recorder.start()
    out = function([x[:, 0]] if name == "meshgrid" else x, *arguments)
    recorder.stop()
    counts = recorder.finish(list(out)).counts()
    assert dim == ("dim" in follows) == bool(counts) and [c[0] for c in counts] == [name] * dim


def test_a_fixed_count_of_results():
    def f(x):
        y = x[x > 0]
        return [t.sum() for t in torch.tensor_split(y, 2)], y[:, None].expand(-1, 4).chunk(2, 1)
    program = export(Function(f), _MASKS[0])
    for call in _MASKS:
        assert equal(program.module()(*call), f(*call))


def _file_json(program):
    buffer = io.BytesIO()
    save(program, buffer)
    with zipfile.ZipFile(buffer) as archive:
        found, = (name for name in archive.namelist() if name.endswith("models/model.json"))
        return json.loads(archive.read(found))


def test_conditions_and_floats_stand_in_files_as_in_torchs():
    def f(x):
        a, b = x.tolist()
        torch._check(a >= 0)
        torch._check(b >= 0)
        torch._check(a + b <= 6)
        return torch.ones(a + b), torch.zeros(6)[:a]
    program = export(Function(f), (I([1, 2]),))
    for found in (program, again(program)):
        model = _file_json(found)
        graph = model["graph_module"]["graph"]
        texts = {x["as_expr"]["expr_str"] for x in graph["sym_bool_values"].values()}
        assert {"GreaterThan(Symbol('u0', integer=True), Integer(0))", "LessThan(Symbol('u0', integer=True), Integer(6))",
                "GreaterThan(Symbol('u1', integer=True), Integer(0))", "LessThan(Symbol('u1', integer=True), Integer(6))"} < texts
        names = {a["arg"][k]["as_name"] for node in graph["nodes"] for a in node["inputs"] for k in a["arg"] if k == "as_sym_bool"}
        assert names and names == graph["sym_bool_values"].keys()
        assert model["range_constraints"] == {"u0": {"min_val": 0, "max_val": 6}, "u1": {"min_val": 0, "max_val": 6}}  # torch's
    model = _file_json(again(export(Function(lambda x: x * x.item()), (I(2.5),))))
    assert model["graph_module"]["graph"]["sym_float_values"] == {"item": {"as_expr": {"expr_str": "Symbol('zuf0')", "hint": None}}}
    assert model["range_constraints"] == {"zuf0": {"min_val": None, "max_val": None}}


@pytest.mark.parametrize("x, ranges", [(I(2), "{u0: VR[-int_oo, int_oo]}"), (I(2.5), "{zuf0: VR[-int_oo, int_oo]}")])
def test_numbers_without_facts_have_no_bounds(x, ranges):
    program = export(Function(lambda x: x * x.item()), (x,))
    assert str(program.range_constraints) == str(again(program).range_constraints) == ranges
    assert equal(again(program).module()(-x), x * x)


def test_decompositions_of_elements_are_refused():
    for f in (lambda x: x[x > 1] * 2, lambda x: x * x[0].item()):
        with pytest.raises(RuntimeError, match="run_decompositions: the program has (u0|zuf0), a number or size that depends on elements"):
            export(Function(f), _MASKS[0]).run_decompositions()


@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name):
    function, calls, varies = PROGRAMS[name]
    shapes = tuple({0: Dim.AUTO} if k == len(calls[0]) - 1 else {} for k in range(len(calls[0]))) if varies else None
    module = Function(function)
    program = export(module, calls[0], dynamic_shapes=shapes)
    for found in (program, again(program)):
        for call in calls:
            small = varies and call[-1].shape[0] < 2  # sizes of 0 and 1 do not vary
            if not small:
                assert equal(found.module()(*call), module(*call)), call


def text(function, *args, **kwargs):
    return str(export(Function(function), args, **kwargs))


def test_bounds_are_asserted():
    program = export(Function(lambda x: torch.ones(checked(n(x), 4, 5))), (I(3),))
    assert [str(r) for r in program.range_constraints.values()] == ["VR[4, 5]"]
    with pytest.raises(RuntimeError, match=r"Runtime assertion failed for expression u0 >= 4 on node 'ge'"):
        program.module()(I(3))
    with pytest.raises(RuntimeError, match=r"Runtime assertion failed for expression u0 <= 5 on node 'le'"):
        program.module()(I(6))
    assert program.module()(I(5)).shape == (5,)


def test_other_facts_are_asserted():
    def f(x, y):
        k = x.item()
        torch._check(k % 2 == 0)
        torch._check(k != 6)
        torch._check(k < y.shape[0] * 2)
        return y + k
    program = export(Function(f), (I(3), R(4.)), dynamic_shapes=({}, {0: Dim("rows")}))
    for bad, words in ((3, "Eq\\(Mod\\(u0, 2\\), 0\\)"), (6, "Ne\\(u0, 6\\)"), (40, "u0 < 2\\*s")):
        with pytest.raises(RuntimeError, match=f"Runtime assertion failed for expression {words}"):
            program.module()(I(bad), R(5.))
    assert equal(program.module()(I(8), R(5.)), R(5.) + 8)


def test_facts_decide_comparisons():
    def f(x, y, z):
        a, b, c = x.item(), y.item(), z.item()
        torch._check(a == b + c)
        assert a == b + c and b + c == a
        torch._check(a > 4)
        assert a > 4 and a >= 3 and a != 2 and not a < 5
        return a
    assert export(Function(f), (I(6), I(3), I(3))).module()(I(9), I(4), I(5)) == 9


@pytest.mark.parametrize("function, words", [
    (lambda x: x + 1 if x.item() > 3 else x, r"u0 > 3 \(unhinted: u0 > 3\)\.  \(Size-like symbols: none\)"),
    (lambda x: x + 1 if x.item() == 3 else x, r"Eq\(u0, 3\)"),
    (lambda x: x + 1 if x.item() * 2 != 3 else x, r"Ne\(2\*u0, 3\)"),
    (lambda x: x + 1 if x > 3 else x, r"Eq\(u0, 1\)"),
    (lambda x: x + 1 if n(x) > 3 else x, r"u0 > 3 \(unhinted: u0 > 3\)\.  \(Size-like symbols: u0\)"),
    (lambda x: x + 1 if torch.ones(n(x)).shape[0] > 3 else x, r"u0 > 3"),
    (lambda x: x + 1 if x.item() else x, r"Ne\(u0, 0\)"),
    (lambda x: x + 1 if x.float().item() > 0.5 else x, r"zuf0 > 0.5"),
])
def test_a_branch_by_an_element_is_refused(function, words):
    with pytest.raises(GuardOnDataDependentSymNode, match=f"Could not guard on data-dependent expression {words}(.|\n)*"
                       r"Caused by: \(.*test_export_values.py:\d+ in forward\)|Could not guard on data-dependent expression " + words):
        export(Function(function), (I(3),))


@pytest.mark.parametrize("function", [lambda x: list(range(x.item())), lambda x: [1, 2, 3][x.item()], lambda x: [1, 2][x], lambda x: int(x)])
def test_a_number_that_python_needs_is_refused(function):
    with pytest.raises(GuardOnDataDependentSymNode, match="Could not extract specialized integer from data-dependent expression u0"):
        export(Function(function), (I(1),))


def test_facts_that_cannot_hold_are_refused():
    def f(x):
        k = n(x)
        torch._check(k > 5)
        torch._check(k < 3)
        return x
    with pytest.raises(RuntimeError, match="Expected cond to be True, but got False"):
        export(Function(f), (I(1),))


def test_the_text_is_torchs():
    def f(x, y):
        k = n(x)
        torch._check(k <= y.shape[0])
        return torch.zeros(k, 3), y.nonzero(), y[y > 0]
    lines = [line.strip() for line in text(f, I(3), torch.ones(5)).splitlines()]
    assert 'item: "Sym(u0)" = torch.ops.aten.item.default(x);  x = None' in lines
    assert 'zeros: "f32[u0, 3]" = torch.ops.aten.zeros.default([item, 3], device = device(type=\'cpu\'), pin_memory = False);  item = None' in lines
    assert 'nonzero: "i64[u1, 1]" = torch.ops.aten.nonzero.default(y)' in lines
    assert 'index: "f32[u2]" = torch.ops.aten.index.Tensor(y, [gt]);  y = gt = None' in lines
    assert "Range constraints: {u0: VR[0, 5], u1: VR[0, 5], u2: VR[0, 5]}" in lines


def test_bounds_follow_from_those_of_sizes():
    shapes = ({0: Dim("a", max=100), 1: Dim("b", max=7)},)
    for f in (lambda x: torch.masked_select(x, x > 0.5), lambda x: torch.nonzero(x)):
        program = export(Function(f), (torch.randn(3, 4, 5),), dynamic_shapes=shapes)
        assert 3500 in [r.upper for r in program.range_constraints.values()]


@pytest.mark.parametrize("function, sizes", [
    (lambda z: torch.nn.utils.rnn.pad_sequence([z, torch.ones(3, 3)]), (4, 3, 6)),
    (lambda z: torch.nn.utils.rnn.pad_sequence([torch.ones(6, 3), z]), (4, 3, 6)),
    (lambda z: torch.gradient(z[:, 0]), (4, 3, 6)),
])
def test_comparisons_of_the_package_are_asserted(function, sizes):
    def f(x):
        return function(x[x[:, 0] > 0])
    program = export(Function(f), (torch.randn(8, 3),)).module()
    ran = 0
    for count in range(9):
        x = torch.randn(8, 3)
        x[:, 0] = torch.where(torch.arange(8) < count, 1.0, -1.0) * (x[:, 0].abs() + 0.5)
        try:
            found = program(x)
        except RuntimeError as error:
            assert "Runtime assertion failed for expression" in str(error) and count not in sizes, count
            continue
        assert equal(found, f(x)), count
        ran += 1
    assert ran >= len(sizes)
