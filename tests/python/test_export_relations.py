"""Sizes that other sizes give: relations that the operators need, in errors and in programs.  Texts are torch 2.13's."""
import io

import cresset as torch
import pytest
from cresset import nn
from cresset._dynamo.exc import UserError
from cresset.export import Dim, export, load, save
from export_cases import Function

F = nn.functional
MORE = 'For more information, run with TORCH_LOGS="+dynamic".'

# function, sizes of its arguments, which dims vary, the relation that one dim has to others
RELATIONS = {
    "a slice": (lambda x, y: x + y[1:], [(5,), (6,)], ["x", "y"], "y = x + 1"),
    "a slice of the first": (lambda x, y: x[1:] + y, [(6,), (5,)], ["x", "y"], "x = y + 1"),
    "every second": (lambda x, y: torch.cat([x, x]) + y, [(5,), (10,)], ["x", "y"], "y = 2*x"),
    "twice the second": (lambda x, y: x + torch.cat([y, y]), [(10,), (5,)], ["x", "y"], "x = 2*y"),
    "padding": (lambda x, y: F.pad(torch.cat([x, x]), (1, 0)) + y, [(5,), (11,)], ["x", "y"], "y = 2*x + 1"),
    "rows": (lambda x, y: x.flatten() + y, [(4, 3), (12,)], ["x", "y"], "y = 3*x"),
    "a product": (lambda x, y: x @ y[1:], [(4, 3), (4, 5)], ["w", "x", "y"], "y = x + 1"),
}
DIMS = {"a product": {"x": ("w", "x"), "y": ("y", None)}}


def shapes(name, dims):
    """The dynamic_shapes of a program; dims: {name: Dim}."""
    given = DIMS.get(name, {"x": ("x",), "y": ("y",)})
    return {arg: {d: dims[n] for d, n in enumerate(names) if n is not None} for arg, names in given.items()}


@pytest.mark.parametrize("name", RELATIONS)
def test_named_dims_are_refused_with_the_relation(name):
    f, sizes, names, relation = RELATIONS[name]
    args = tuple(torch.randn(size) for size in sizes)
    d, root = relation[0], next(c for c in relation[1:] if c in "xy")
    sources = {"x": "L['x'].size()[1]" if name == "a product" else "L['x'].size()[0]", "y": "L['y'].size()[0]"}
    with pytest.raises(UserError) as error:
        export(Function(f), args, dynamic_shapes=shapes(name, {n: Dim(n) for n in names}))
    text, _, _ = str(error.value).partition("\n\nThe error above")
    assert text == (f"Constraints violated ({d})! {MORE}\n  - The values of {d} = {sources[d]} must always be related to the values of "
                    f"{root} = {sources[root]} by {relation}.\nSuggested fixes:\n  {relation}")


@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize("kind", ["AUTO", "DYNAMIC", "derived"])
def test_sizes_vary_together(name, kind):
    f, sizes, names, relation = RELATIONS[name]
    args = tuple(torch.randn(size) for size in sizes)
    dims = {n: Dim(n) if kind == "derived" else getattr(Dim, kind) for n in names}
    if kind == "derived":
        dims[relation[0]] = eval(relation[4:], dict(dims))
    program = export(Function(f), args, dynamic_shapes=shapes(name, dims))
    buffer = io.BytesIO()
    save(program, buffer)
    value, root = eval(f"lambda x, y: {relation[4:]}"), next(c for c in relation[1:] if c in "xy")
    place = {"x": 1 if name == "a product" else 0, "y": 0}
    for module in (program.module(), load(io.BytesIO(buffer.getvalue())).module()):
        for n in (4, 7):
            new = {arg: list(size) for arg, size in zip("xy", sizes)}
            new[root][place[root]] = n
            new[relation[0]][place[relation[0]]] = value(n, n)
            x, y = torch.randn(new["x"]), torch.randn(new["y"])
            assert torch.equal(module(x, y), f(x, y))
            new[relation[0]][place[relation[0]]] += 1
            with pytest.raises(AssertionError, match="Guard failed"):
                module(torch.randn(new["x"]), torch.randn(new["y"]))


def test_sizes_of_a_range_vary_alone():
    f = Function(lambda x, y: x + y[::2])
    module = export(f, (torch.ones(3), torch.ones(6)), dynamic_shapes={"x": {0: Dim.AUTO}, "y": {0: Dim.AUTO}}).module()
    for n, m in ((3, 5), (4, 7), (4, 8), (9, 18)):
        assert torch.equal(module(torch.ones(n), torch.ones(m)), torch.full((n,), 2.0))
    with pytest.raises(RuntimeError, match="must match"):
        module(torch.ones(3), torch.ones(9))


def test_sizes_of_two_others():
    for f, sizes, other, relation in ((lambda x, y: x.flatten() + y, [(4, 3), (12,)], [(5, 7), (35,)], "s27*s77"),
                                      (lambda x, y: torch.cat([x[:, 0], x[0]]) + y, [(4, 3), (7,)], [(5, 8), (13,)], "s27 + s77")):
        program = export(Function(f), tuple(torch.randn(size) for size in sizes),
                         dynamic_shapes={"x": {0: Dim.AUTO, 1: Dim.AUTO}, "y": {0: Dim.AUTO}})
        assert [str(n.meta["val"].shape[0]) for n in program.graph.nodes if n.name == "y"] == [relation]
        x, y = (torch.randn(size) for size in other)
        assert torch.equal(program.module()(x, y), f(x, y))
        with pytest.raises(AssertionError, match="Guard failed"):
            program.module()(x, y[1:])


@pytest.mark.parametrize("test", ["x.shape[0] != y.shape[0]", "x.shape[0] + y.shape[0] > 10", "x.shape[0] * y.shape[0] > 10",
                                  "(x.shape[0] * y.shape[0]) % 4 == 0", "2 * x.shape[0] > y.shape[0]"])
def test_comparisons_of_two_sizes_are_left_to_the_call(test):
    f = eval(f"lambda x, y: x * 2 if {test} else x")
    program = export(Function(f), (torch.ones(6), torch.ones(8)), dynamic_shapes={"x": {0: Dim("x")}, "y": {0: Dim("y")}})
    assert [str(r) for r in program.range_constraints.values()] == ["VR[0, int_oo]"] * 2
    found = {}
    for a, b in ((7, 9), (20, 3), (2, 4), (3, 3), (5, 5), (2, 20)):
        x, y = torch.ones(a), torch.ones(b)
        try:
            assert torch.equal(program.module()(x, y), x * 2)
            found[a, b] = True
        except AssertionError:
            found[a, b] = False
    assert found == {(a, b): eval(f"(lambda x, y: {test})(torch.ones({a}), torch.ones({b}))") for a, b in found}


def test_a_size_below_another_has_a_bound():
    f = Function(lambda x, y: x * 2 if x.shape[0] < y.shape[0] else x)
    args = torch.ones(6), torch.ones(8)
    with pytest.raises(UserError) as error:
        export(f, args, dynamic_shapes={"x": {0: Dim("x")}, "y": {0: Dim("y")}})
    assert str(error.value).partition("\n\nThe error above")[0] == (
        f"Constraints violated (y)! {MORE}\n  - Not all values of y = L['y'].size()[0] in the specified range satisfy the generated guard "
        "3 <= L['y'].size()[0] and L['y'].size()[0] <= IntInfinity()\nSuggested fixes:\n  y = Dim('y', min=3)")
    program = export(f, args, dynamic_shapes={"x": {0: Dim("x")}, "y": {0: Dim("y", min=3)}})
    assert torch.equal(program.module()(torch.ones(2), torch.ones(3)), torch.full((2,), 2.0))
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(torch.ones(3), torch.ones(3))


@pytest.mark.parametrize("size, dims, error, text", [
    ((4, 6), lambda d: (d, d + 1), UserError, "Expected input L['x'].size()[1] to be equal to d + 1, where d = 4, but got 6"),
    ((8,), lambda d: (2 * d + 1,), UserError, "Expected shape[0] = 8 of input Tensor to be of the form 2*d + 1, where d is an integer"),
    ((7, 6), lambda d: (d, d - 1), AssertionError, "Expected derived min value of d - 1 to be >= 0. Please specify an appropriate min "
     "value for d (currently 0).")])
def test_wrong_derived_dims(size, dims, error, text):
    with pytest.raises(error) as found:
        export(Function(lambda x: x * 2), (torch.ones(size),), dynamic_shapes={"x": dims(Dim("d"))})
    assert str(found.value).partition("\n\nThe error above")[0] == text


def test_texts_of_sizes_have_symbols_and_fix_nothing():
    texts = []

    def f(x):
        torch._assert(x.dim() == 2, f"got {x.shape}")
        texts.append(f"{x.shape} {x.shape[0]} {x.shape[0] * 2 + 1!s} {x.size()!r} {list(x.shape)} %s" % x.shape[0])
        n = x.nonzero().shape[0]
        texts.append(f"n={n}")
        return x * n
    program = export(Function(f), (torch.ones(3, 4),), dynamic_shapes={"x": {0: Dim.AUTO}})
    assert texts == ["torch.Size([s77, 4]) s77 2*s77 + 1 torch.Size([s77, 4]) [s77, 4] s77", "n=u0"]
    assert torch.equal(program.module()(torch.ones(5, 4)), torch.full((5, 4), 20.0))
    program = export(Function(lambda x: x * int(f"{x.shape[0]:d}")), (torch.ones(3, 4),), dynamic_shapes={"x": {0: Dim.AUTO}})
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(torch.ones(5, 4))


def test_assignments_by_indices_fix_no_size():
    def f(x):
        order = torch.argsort(x.reshape(-1))
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(order.size(0))
        x = x.clone()
        x[torch.tensor([1, 0])] = x[:2] * 2
        x[x > 2] = 0.5
        return x, inverse
    program = export(Function(f), (torch.randn(4, 3),), dynamic_shapes={"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}})
    x = torch.randn(6, 5)
    assert all(map(torch.equal, program.module()(x), f(x)))


def test_assignments_by_masks_without_elements():
    x = torch.zeros(4, 3, device="meta")
    x[x > 2] = 0.5
    x[(x > 2)[:, 0]] = torch.zeros(2, 3, device="meta")  # as in torch, the call that has elements checks these sizes
    with pytest.raises(IndexError, match="The shape of the mask"):
        x[torch.zeros(3, dtype=torch.bool, device="meta")] = 1.0
    f = Function(lambda x, y: torch.zeros_like(x).index_put((x > 0,), y))
    module = export(f, (torch.tensor([1., -1., 2.]), torch.tensor([5., 6.]))).module()
    assert module(torch.tensor([-1., 1., 2.]), torch.tensor([5., 6.])).tolist() == [0, 5, 6]
    with pytest.raises(RuntimeError, match=r"shape mismatch: value tensor of shape \[2\] cannot be broadcast to indexing result of shape \[3\]"):
        module(torch.ones(3), torch.tensor([5., 6.]))


def test_a_conversion_that_changes_nothing_fixes_no_size():
    f = Function(lambda x: torch.ops.aten.to.dtype_layout(x, device=torch.device("cpu")) + 1)
    program = export(f, (torch.ones(5, 3),), dynamic_shapes={"x": {0: Dim.DYNAMIC}})
    assert torch.equal(program.module()(torch.ones(7, 3)), torch.full((7, 3), 2.0))
    assert torch.equal(program.run_decompositions().module()(torch.ones(7, 3)), torch.full((7, 3), 2.0))
