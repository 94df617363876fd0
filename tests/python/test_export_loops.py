"""while_loop, scan, map and associative_scan in exported programs: each is one node with the graphs of its functions."""
import io
import re

import cresset as torch
import pytest
from cresset import nn
from cresset._dynamo.exc import UncapturedHigherOrderOpError, UserError
from cresset._higher_order_ops import associative_scan, map as hop_map, scan, while_loop
from cresset.export import Dim, export, load, save, unflatten
from cresset.utils._pytree import tree_leaves
from export_cases import Function

WEIGHT = torch.arange(9.).reshape(3, 3) / 10


def zero():
    return torch.zeros((), dtype=torch.int64)


def repeat(n, f, x):
    return while_loop(lambda i, y: i < n, lambda i, y: (i + 1, f(y)), (zero(), x))[1]


def half_step(h, x):
    h = torch.tanh(x @ WEIGHT + h @ WEIGHT.t())
    return h, h * 2


# name: function, sizes of its arguments, the operators of its graph and of the graphs inside, which dims vary
PROGRAMS = {
    "collatz": (lambda x: while_loop(lambda n, k: n != 1, lambda n, k: (torch.where(n % 2 == 0, n // 2, 3 * n + 1), k + 1),
                                     (x.long().sum().abs() + 27, zero())), [(4,)], "while_loop", "0"),
    "newton": (lambda x: while_loop(lambda g, x: (g * g - x).abs().max() > 1e-4, lambda g, x: ((g + x / g) / 2, x.clone()),
                                    (torch.ones_like(x), x.abs() + 1))[0], [(5,)], "while_loop", "0"),
    "reads others": (lambda x, n: while_loop(lambda i, y: i < n.sum(), lambda i, y: (i + 1, torch.tanh(y @ WEIGHT)), (zero(), x)),
                     [(4, 3), (2,)], "while_loop", "0"),
    "carried twice": (lambda x: while_loop(lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b * 2, a + 1), (zero(), x, x)),
                      [(2, 2)], "while_loop", "01"),
    "tree": (lambda x: while_loop(lambda d: d["i"] < 3, lambda d: ({"i": d["i"] + 1, "v": (d["v"][0] * 2, d["v"][1] - 1)},),
                                  ({"i": zero(), "v": (x, x + 1)},)), [(3,)], "while_loop", "0"),
    "loop in loop": (lambda x: repeat(3, lambda a: repeat(2, lambda b: b + a.sum(), a), x), [(4, 2)], "while_loop while_loop", "01"),
    "no step": (lambda x: while_loop(lambda i, a: i < 0, lambda i, a: (i + 1, a * 2), (zero(), x)), [(2, 2)], "while_loop", "0"),
    "branch in loop": (lambda x: repeat(4, lambda a: torch.cond(a.sum() > 0, lambda a: a - 1, lambda a: a * 0.5 + 1, (a,)), x),
                       [(3,)], "while_loop cond", "0"),
    "loop in branch": (lambda x: torch.cond(x.sum() > 0, lambda x: repeat(2, lambda a: a * 3, x), lambda x: x.sin(), (x,)),
                       [(3,)], "cond while_loop", "0"),
    "recurrent": (lambda h, x: scan(half_step, h, x), [(4, 3), (5, 4, 3)], "scan", "0"),
    "scan of trees": (lambda x: scan(lambda c, y: ({"a": c["a"] + y["p"], "b": c["b"] * 1.5}, (y["p"] * 2, y["q"] + c["b"])),
                                     {"a": torch.zeros(3), "b": x[0]}, {"p": x, "q": x * 2}, reverse=True), [(4, 3)], "scan", "0"),
    "scan of dim 1": (lambda x: scan(lambda c, y: (c + y, c * y), x[:, 0] * 0, x, dim=1), [(4, 5)], "scan", "01"),
    "scan from the end": (lambda x: scan(lambda c, y: (c + y, c * y), x[..., 0] * 0, x, dim=-1, reverse=True), [(2, 4, 5)], "scan", "012"),
    "scan in scan": (lambda x: scan(lambda c, y: (c + scan(lambda a, b: (a * 0.5 + b, a - b), y[0], y)[0].sum(), c * 2),
                                    torch.zeros(()), x), [(3, 4)], "scan scan", "01"),
    "map": (lambda x, y: hop_map(lambda x, y: {"a": x * y + WEIGHT.sum(), "b": x.sum()}, x, y), [(4, 3), (3,)], "map_impl", "0"),
    "map of trees": (lambda x: hop_map(lambda p: (p[0] @ WEIGHT, p[1].cos()), (x, x[:, 0])), [(4, 2, 3)], "map_impl", "0"),
    "branch in map": (lambda x: hop_map(lambda r: torch.cond(r.sum() > 0, lambda r: r * 2, lambda r: r - 1, (r,)), x),
                      [(4, 3)], "map_impl cond", "01"),
    "sums": (lambda x: associative_scan(lambda a, b: a + b, x, 0), [(7, 3)], "associative_scan", "01"),
    "pairs": (lambda a, b: associative_scan(lambda p, q: (p[0] * q[0], p[1] * q[0] + q[1]), (a, b), 1, combine_mode="generic"),
              [(3, 9), (3, 9)], "associative_scan", "01"),
    "reversed": (lambda x: associative_scan(lambda a, b: torch.maximum(a, b) * 1.0, x, 1, reverse=True, combine_mode="generic"),
                 [(2, 6)], "associative_scan", "01"),
}


def arguments(sizes, more=0, dims=""):
    """Random arguments; the dims of which the numbers are in `dims` are larger by `more`."""
    torch.manual_seed(7)
    return tuple(torch.randn([n + more * (str(d) in dims) for d, n in enumerate(size)]) for size in sizes)


def equal(a, b):
    return all(torch.equal(x, y) for x, y in zip(tree_leaves(a), tree_leaves(b), strict=True))


def again(program):
    buffer = io.BytesIO()
    save(program, buffer)
    loaded = load(io.BytesIO(buffer.getvalue()))
    assert str(loaded) == str(program)
    return loaded


def operators(module):
    """The operators with functions, in the order of the modules."""
    return " ".join(n.target.name() for m in module.modules() if hasattr(m, "graph") for n in m.graph.nodes
                    if getattr(n.target, "namespace", "") == "higher_order")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_have_eagers_bits(name):
    f, sizes, nodes, dims = PROGRAMS[name]
    args = arguments(sizes)
    program = export(Function(f), args)
    assert operators(program.graph_module) == nodes
    for found in (program, again(program)):
        assert equal(found.module()(*args), f(*args))
    assert equal(unflatten(program)(*args), f(*args))


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_vary(name):
    f, sizes, nodes, dims = PROGRAMS[name]
    shapes = tuple({d: Dim.AUTO for d in range(len(size)) if str(d) in dims} for size in sizes)
    program = export(Function(f), arguments(sizes), dynamic_shapes=shapes)
    assert operators(program.graph_module) == nodes
    varying = [d for d in dims if any(hasattr(n.meta["val"].shape[int(d)], "node") for n in program.graph.nodes
                                      if n.op == "placeholder" and n.meta["val"].dim() > int(d))]
    assert varying == list(dims)
    for found in (program, again(program)):
        for more in (0, 3):
            args = arguments(sizes, more, dims if name not in ("recurrent", "map") else "")
            assert equal(found.module()(*args), f(*args))


@pytest.mark.parametrize("name", PROGRAMS)
def test_decomposed_programs(name):
    f, sizes, nodes, dims = PROGRAMS[name]
    shapes = tuple({d: Dim.AUTO for d in range(len(size)) if str(d) in dims} for size in sizes)
    for dynamic in (None, shapes):
        program = export(Function(f), arguments(sizes), dynamic_shapes=dynamic).run_decompositions()
        assert operators(program.graph_module) == nodes and program.dialect == "ATEN"
        for found in (program, again(program)):
            for more in (0, 3) if dynamic else (0,):
                args = arguments(sizes, more, dims if name not in ("recurrent", "map") else "")
                assert all(torch.allclose(a, b) for a, b in zip(tree_leaves(found.module()(*args)), tree_leaves(f(*args)), strict=True))


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, n):
        y = while_loop(lambda i, y: i < n, lambda i, y: (i + 1, self.layer(y)), (zero(), x))[1]
        last, all_ = scan(lambda h, row: (torch.tanh(self.layer(h) + row), h * row), y[0], y)
        return last.sum() + all_.sum() + hop_map(lambda row: self.layer(row).sum(), y).sum()


def test_parameters_are_operands_and_have_gradients():
    torch.manual_seed(3)
    module, x, n = Steps(), torch.randn(4, 3), torch.tensor(2)
    program = export(module, (x, n))
    loops = [n for n in program.graph.nodes if getattr(n.target, "namespace", "") == "higher_order"]
    assert [n.name for n in loops] == ["while_loop", "scan", "map_impl"]
    for node in loops:
        assert {"p_layer_weight", "p_layer_bias"} <= {a.name for a in node.args[-1]}
    found = program.module()
    for steps in (2, 0, 5):
        want = torch.autograd.grad(module(x, torch.tensor(steps)), list(module.parameters()))
        assert equal(torch.autograd.grad(found(x, torch.tensor(steps)), list(found.parameters())), want)


def test_text_is_torchs():
    program = export(Function(PROGRAMS["reads others"][0]), arguments([(4, 3), (2,)]))
    text = re.sub(r" *# File.*\n|\n *\n", "\n", program.graph_module.print_readable(print_output=False))
    assert "while_loop = torch.ops.higher_order.while_loop(while_loop_cond_graph_0, while_loop_body_graph_0, (zeros, x), (y, " in text
    assert "class while_loop_cond_graph_0(torch.nn.Module):" in text and "return lt\n" in text
    text = export(Function(PROGRAMS["scan of dim 1"][0]), arguments([(4, 5)])).graph_module.code
    assert "scan = torch.ops.higher_order.scan(scan_combine_graph_0, [mul], [movedim], ())" in text
    text = export(Function(PROGRAMS["map"][0]), arguments([(4, 3), (3,)])).graph_module.code
    assert "map_impl = torch.ops.higher_order.map_impl(body_graph_0, [x], [y, c_lifted_tensor_0])" in text


def test_numbers_that_are_carried_are_those_of_the_call():
    f = Function(lambda x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (0, x)))
    program = export(f, (torch.ones(2),))
    assert operators(program.graph_module) == "" and equal(program.module()(torch.ones(2))[1], torch.full((2,), 8.0))


@pytest.mark.parametrize("f, error, text", [
    (lambda x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y[:1] * 2), (zero(), x)), UncapturedHigherOrderOpError,
     "body_fn_output and carried_inputs to have same metadata"),
    (lambda x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y.double()), (zero(), x)), UncapturedHigherOrderOpError, "dtype"),
    (lambda x: while_loop(lambda i, y: i < 3, lambda i, y: i + 1, (zero(), x)), UncapturedHigherOrderOpError, "same number of outputs"),
    (lambda x: while_loop(lambda i, y: y + 1, lambda i, y: (i + 1, y * 2), (zero(), x)), RuntimeError,
     "cond_fn must return a boolean scalar tensor or a boolean but got"),
    (lambda x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y.mul_(2)), (zero(), x)), UncapturedHigherOrderOpError, "input mutation"),
    (lambda x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y), (zero(), x)), UncapturedHigherOrderOpError, "aliasing"),
    (lambda x: scan(lambda c, y: (c + y.sum(), c, 1), torch.zeros(()), x), RuntimeError, "combine_fn must return a carry and an output"),
    (lambda x: scan(lambda c, y: ((c + y.sum(), c), c * 2), torch.zeros(()), x), UncapturedHigherOrderOpError, "same number of outputs"),
    (lambda x: scan(lambda c, y: (c + y, c * 2), torch.zeros(()), x.reshape(2, 2)), UncapturedHigherOrderOpError, "init and carry"),
    (lambda x: scan(lambda c, y: (c + y.sum(), 3), torch.zeros(()), x), UncapturedHigherOrderOpError, "unsupported function return type"),
    (lambda x: hop_map(lambda y: 3, x), UncapturedHigherOrderOpError, "unsupported function return type"),
    (lambda x: associative_scan(lambda a, b: (a + b, a), x, 0), RuntimeError, "number of leaves of the pytree"),
])
def test_wrong_functions_are_refused(f, error, text):
    with pytest.raises(error, match=text):
        export(Function(f), (torch.ones(4),))


def test_functions_that_compare_sizes_that_vary_are_refused():
    f = Function(lambda x: repeat(3, lambda y: y * 2 if y.shape[0] > 2 else y, x))
    with pytest.raises(UserError, match="torch.while_loop: a function compares a size that varies"):
        export(f, (torch.ones(4),), dynamic_shapes=({0: Dim.DYNAMIC},))


def _aoti(program):
    return torch._inductor.aoti_compile_and_package(program)


@pytest.mark.parametrize("name", ["no step", "loop in branch", "scan of dim 1", "recurrent", "map", "reversed", "scan in scan"])
def test_files_without_a_form_for_functions(name):
    """Steps of which the number is known are printed one after the other; others are refused."""
    f, sizes, nodes, dims = PROGRAMS[name]
    dims = dims[-1]  # a compiled program has one size that varies
    values = nodes.partition(" ")[0] in ("cond", "while_loop")
    shapes = tuple({d: Dim.AUTO for d in range(len(size)) if str(d) in dims} for size in sizes)
    fixed, varies = (export(Function(f), arguments(sizes), dynamic_shapes=d) for d in (None, shapes))
    text = "of the program calls a function by a value" if values else "of the program has as many steps as a size that varies"
    for function, what in ((torch.export.to_c, "to_c"), (torch.export.to_rt, "to_rt")):
        for program in (fixed, varies):
            if values:
                with pytest.raises(ValueError, match=f"{what}: torch.{nodes.partition(' ')[0]} {text}"):
                    function(program)
            else:
                assert function(program)
    for function, error in ((_aoti, ValueError), (torch.onnx.export, torch.onnx.OnnxExporterError)):
        for program in (fixed, varies):
            if values or program is varies:
                with pytest.raises(error, match=text):
                    function(program)
    if not values:
        assert torch.onnx.export(fixed).model_bytes()


def test_sizes_of_scanned_tensors_are_checked_at_each_call():
    scanned = export(Function(lambda x, y: scan(lambda c, r: (c + (r[0] * r[1]).sum(), c * 2), torch.zeros(()), (x, y))),
                     (torch.ones(3, 2), torch.ones(3, 2)), dynamic_shapes=({0: Dim("a")}, {0: Dim("b")}))
    with pytest.raises(RuntimeError, match="must have one size along the first dim"):
        scanned.module()(torch.ones(3, 2), torch.ones(4, 2))
