"""What may be inside of exported programs: branches by values, operators of programs, numbers of sizes, conversions."""
import io
from dataclasses import dataclass

import cresset as torch
import pytest
from cresset import nn
from cresset.export import Dim, draft_export, export, load, save
from cresset.utils._pytree import tree_leaves
from export_cases import Function


def again(program):
    buffer = io.BytesIO()
    save(program, buffer)
    loaded = load(io.BytesIO(buffer.getvalue()))
    assert str(loaded) == str(program)
    return loaded


def equal(a, b):
    return all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(tree_leaves(a), tree_leaves(b), strict=True))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        y = x * 2
        a = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() + 1, (x,))
        b, c = torch.cond(y.sum() < 0, lambda x: (self.layer(x), x + y), lambda x: (x.clone(), x * torch.tensor(3.0)), (x,))
        return a, b, c


@pytest.mark.parametrize("dynamic", [False, True])
def test_branches(dynamic):
    module = Branches()
    program = export(module, (torch.randn(2, 3),), dynamic_shapes=({0: Dim.DYNAMIC},) if dynamic else None)
    cond = [n for n in program.graph.nodes if n.target is torch.ops.higher_order.cond]
    assert [n.name for n in cond] == ["cond", "cond_1"] and program.graph_module.true_graph_0 is not None
    assert [n.name for n in cond[1].args[3]][0] == "x" and {"p_layer_weight", "p_layer_bias", "mul"} <= {n.name for n in cond[1].args[3]}
    for found in (program, again(program)):
        for x in [torch.ones(2, 3), -torch.ones(2, 3)] + [torch.ones(5, 3)] * dynamic:
            want = (x.sin() if x.sum() > 0 else x.cos() + 1, *((module.layer(x), x + x * 2) if x.sum() < 0 else (x, x * 3)))
            assert equal(found.module()(x), want)


def test_branches_of_different_results_are_refused():
    f = Function(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x[:1] * 2, (x,)))
    with pytest.raises(torch._dynamo.exc.UncapturedHigherOrderOpError, match="pair\\[0\\] differ in 'shape"):
        export(f, (torch.ones(2),))


def test_a_branch_that_compares_a_size_that_varies_is_refused():
    f = Function(lambda x: torch.cond(x.sum() > 0, lambda x: x * 2 if x.shape[0] > 2 else x * 3, lambda x: x + 1, (x,)))
    with pytest.raises(torch._dynamo.exc.UserError, match="a branch compares a size that varies"):
        export(f, (torch.ones(4),), dynamic_shapes=({0: Dim.DYNAMIC},))
    assert equal(export(f, (torch.ones(4),)).module()(torch.ones(4)), torch.full((4,), 2.0))


@torch.library.custom_op("export_test::scaled", mutates_args=())
def scaled(x: torch.Tensor, k: int = 2) -> torch.Tensor:
    return x * k


@scaled.register_fake
def _(x, k=2):
    return torch.empty_like(x)


@torch.library.custom_op("export_test::fill", mutates_args={"x"})
def fill(x: torch.Tensor, v: float) -> None:
    x.fill_(v)


def test_operators_of_the_program():
    def f(x):
        y = scaled(x) + torch.ops.export_test.scaled(x, 3)
        fill(y, 3.0)
        return y + x
    program = export(Function(f), (torch.ones(2, 3),), dynamic_shapes=({0: Dim.DYNAMIC},))
    assert [str(n.target) for n in program.graph.nodes if n.op == "call_function"] == [
        "export_test.scaled.default", "export_test.scaled.default", "aten.add.Tensor", "export_test.fill.default", "aten.add.Tensor"]
    assert equal(again(program).module()(torch.ones(4, 3)), torch.full((4, 3), 4.0))


def test_numbers_of_sizes():
    f = Function(lambda x: x * (x.shape[0] ** 0.5) + x.shape[0] / 2 - x.shape[0] % 3)
    program = export(f, (torch.ones(4, 3),), dynamic_shapes=({0: Dim.DYNAMIC},))
    x = torch.rand(7, 3)
    assert equal(program.module()(x), f(x)) and equal(again(program).module()(x), f(x))


def test_sizes_of_values_between():
    def f(x, y):
        z = torch.cat([x, y])
        return z.view(z.shape[0], 1, -1) if z.shape[0] > 6 else z
    program = export(Function(f), (torch.ones(4, 3), torch.ones(5, 3)), dynamic_shapes=({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}))
    val = list(program.graph.nodes)[-1].args[0][0].meta["val"]
    assert str(val.shape) in ("torch.Size([s17 + s77, 1, 3])", "torch.Size([s77 + s17, 1, 3])")
    x, y = torch.rand(3, 3), torch.rand(9, 3)
    assert equal(program.module()(x, y), f(x, y))
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(torch.ones(2, 3), torch.ones(3, 3))


def test_sizes_of_equal_examples_stay_apart():
    f = Function(lambda x, y: (x + 1, y * 2, torch.cat([x.flatten(), y.flatten()])))
    program = export(f, (torch.ones(4, 4), torch.ones(4, 4)), dynamic_shapes=({0: Dim.DYNAMIC, 1: Dim.DYNAMIC}, {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}))
    assert len(program.range_constraints) == 4
    vals = [str(n.meta["val"].shape) for n in list(program.graph.nodes)[-1].args[0]]
    assert vals[0] == "torch.Size([s77, s27])" and vals[1].count("s") == 2 and vals[0] != vals[1]
    args = torch.rand(3, 5), torch.rand(2, 7)
    assert equal(program.module()(*args), f(*args))


def test_custom_functions_of_autograd():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 3 * g
    layer = nn.Linear(3, 3)

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return Square.apply(self.layer(x))
    x = torch.rand(2, 3)
    assert equal(export(M(), (x,)).module()(x), layer(x) ** 2)


def test_a_program_knows_that_it_is_exported():
    f = Function(lambda x: x + 1 if torch.compiler.is_exporting() else x - 1)
    assert equal(export(f, (torch.zeros(2),)).module()(torch.zeros(2)), torch.ones(2)) and not torch.compiler.is_exporting()


def test_one_tensor_as_two_arguments():
    x = torch.ones(2)
    program = export(Function(lambda x, y: x + 2 * y), (x, x))
    assert equal(program.module()(torch.ones(2), torch.full((2,), 3.0)), torch.full((2,), 7.0))


@dataclass
class Pair:
    a: torch.Tensor
    b: torch.Tensor


@pytest.mark.filterwarnings("ignore:torch.export.load. the example inputs are left out")
def test_dataclasses_as_arguments():
    torch.export.register_dataclass(Pair, serialized_type_name="export_test.Pair")

    class M(nn.Module):
        def forward(self, pair):
            return Pair(pair.a + 1, pair.b * 2)
    program = export(M(), (Pair(torch.ones(2), torch.ones(3)),))
    out = again(program).module()(Pair(torch.ones(2), torch.full((3,), 2.0)))
    assert type(out) is Pair and equal([out.a, out.b], [torch.full((2,), 2.0), torch.full((3,), 4.0)])


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([4.0, 5.0]))

    def forward(self, x):
        z = x * 3

        def inner(x):
            return torch.cond(x.sum() > 5, lambda y: (y * 2 + z, y + 1), lambda y: (y * 3 + self.w, y - self.w[0]), (x,))
        return torch.cond(x.sum() > 0, inner, lambda x: (-x, torch.cond(x.max() > 0, torch.sin, torch.cos, (x,))), (x,))


@pytest.mark.parametrize("dynamic", [False, True])
def test_branches_inside_of_branches(dynamic):
    module = Nested()
    program = export(module, (torch.ones(3, 2),), dynamic_shapes=({0: Dim.DYNAMIC},) if dynamic else None)
    for m in (program.module(), again(program).module()):
        for x in (torch.ones(3, 2), torch.ones(3, 2) * 0.1, -torch.ones(3, 2), torch.tensor([[1.0, -9.0]] * 3)):
            assert equal(m(x), module(x))
        if dynamic:
            assert equal(m(torch.ones(5, 2)), module(torch.ones(5, 2)))


def test_branches_leave_no_operators():
    for _ in range(3):
        export(Nested(), (torch.ones(3, 2),))
    assert [name for name in dir(torch.ops.cresset_export) if name.startswith("call")] == ["call"]
    from cresset.export import _control
    import gc
    gc.collect()
    assert not _control._sites and len(_control._kept) == 1


def test_branches_are_decomposed():
    module, x = Nested(), torch.randn(3, 2)
    assert equal(export(module, (x,)).run_decompositions().module()(x), module(x))
    sines = {torch.ops.aten.sin.default: lambda x: x + torch.tensor(3.0), torch.ops.aten.cos.default: lambda x: x * torch.tensor(2.0)}
    program = export(Function(lambda x: torch.cond(x.sum() > 0, lambda x: (x * 2).add_(1).sin(), lambda x: x.cos().exp_(), (x,))), (x,))
    found = program.run_decompositions(sines)
    names = [str(n.target) for m in found.graph_module.modules() if hasattr(m, "graph") for n in m.graph.nodes if n.op == "call_function"]
    assert "aten.exp.default" in names and not {"aten.add_.Tensor", "aten.exp_.default", "aten.sin.default", "aten.cos.default"} & {*names}
    for y in (x.abs(), -x.abs()):
        assert equal(again(found).module()(y), y * 2 + 1 + 3 if y.sum() > 0 else (y * 2).exp())
    varies = export(Function(lambda x: torch.cond(x.sum() > 0, lambda x: (x * 2).add_(1), lambda x: x.cos(), (x,))), (x,),
                    dynamic_shapes=({0: Dim.DYNAMIC},))
    with pytest.raises(RuntimeError, match="run_decompositions: the program writes to tensors and has sizes that vary"):
        varies.run_decompositions()
