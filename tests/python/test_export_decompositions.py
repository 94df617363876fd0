"""run_decompositions(): functional programs with the same results."""
import copy
import io

import cresset as torch
import export_cases
import pytest
from cresset import nn
from cresset.export import Dim, default_decompositions, export, load, save
from cresset.export.graph_signature import OutputKind
from cresset.utils._pytree import tree_leaves

PROGRAMS = ["perceptron", "counting", "state_of_all_kinds", "picture_in_evaluation", "picture_in_training", "attention",
            "attention_of_any_batch", "embedding_and_recurrent_layers", "new_tensors", "views_and_reductions", "arithmetic",
            "a_size_that_varies", "a_branch_by_a_size", "numbers_and_texts"]


def run(program):
    """Results of the example inputs, the inputs after the call, and the buffers."""
    program = copy.deepcopy(program)
    args, kwargs = copy.deepcopy(program.example_inputs)
    torch.manual_seed(1)
    module = program.module()
    return tree_leaves(module(*args, **kwargs)), tree_leaves((args, kwargs)), list(module.buffers())


def same(a, b):
    return torch.allclose(a, b, atol=1e-6) if isinstance(a, torch.Tensor) else a == b


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_writes(name):
    program = export_cases.program(name)
    new = program.run_decompositions()
    for a, b in zip(run(program), run(new)):
        assert len(a) == len(b) and all(map(same, a, b))
    targets = [n.target for n in new.graph.nodes if n.op == "call_function"]
    assert not set(targets) & {torch.ops.aten.linear.default, torch.ops.aten.conv2d.default, torch.ops.aten.softmax.int}
    assert not any(getattr(t, "_schema", None) is not None and t._schema.is_mutable for t in targets)
    new.validate()
    buffer = io.BytesIO()
    save(new, buffer)
    assert str(load(io.BytesIO(buffer.getvalue()))) == str(new)


def test_signature_of_writes():
    specs = export_cases.program("counting").run_decompositions().graph_signature.output_specs
    assert [(s.kind, s.target) for s in specs] == [
        (OutputKind.BUFFER_MUTATION, "calls"), (OutputKind.BUFFER_MUTATION, "norm.running_mean"),
        (OutputKind.BUFFER_MUTATION, "norm.running_var"), (OutputKind.BUFFER_MUTATION, "norm.num_batches_tracked"),
        (OutputKind.USER_INPUT_MUTATION, "x"), (OutputKind.USER_OUTPUT, None)]


def test_a_write_through_a_view_becomes_values():
    def f(x):
        y = x * 2
        y[0] = 1
        y[:, 1] += 2
        return y
    program = export(export_cases.Function(f), (torch.ones(2, 3),))
    new = program.run_decompositions()
    assert torch.equal(new.module()(torch.ones(2, 3)), f(torch.ones(2, 3)))
    assert not any(n.target in (torch.ops.aten.copy_.default, torch.ops.aten.fill_.Scalar) for n in new.graph.nodes)


def test_a_table_of_the_program():
    program = export(export_cases.Function(lambda x: torch.tanh(x) + torch.sin(x)), (torch.ones(2),))
    new = program.run_decompositions({torch.ops.aten.tanh.default: lambda x: 2 * torch.sigmoid(2 * x) - 1})
    names = [n.name for n in new.graph.nodes]
    assert "tanh" not in names and "sigmoid" in names and "sin" in names
    x = torch.tensor([0.3, -0.7])
    assert torch.allclose(new.module()(x), torch.tanh(x) + torch.sin(x))


def test_an_operator_that_is_kept():
    table = default_decompositions()
    del table[torch.ops.aten.linear.default]
    new = export(export_cases.Perceptron(), (torch.ones(5, 4),)).run_decompositions(table)
    assert [n.name for n in new.graph.nodes if n.target is torch.ops.aten.linear.default] == ["linear", "linear_1"]


def test_sizes_that_vary_stay():
    torch.manual_seed(0)
    module = export_cases.Block()
    program = export(module, (torch.randn(2, 5, 8),), dynamic_shapes={"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}})
    new = program.run_decompositions()
    x = torch.randn(3, 7, 8)
    assert torch.allclose(new.module()(x), module(x), atol=1e-6) and list(map(str, new.range_constraints)) == ["s77", "s27"]


def test_writes_with_sizes_that_vary_are_refused():
    program = export(nn.BatchNorm1d(3), (torch.ones(5, 3),), dynamic_shapes=({0: Dim.DYNAMIC},))
    with pytest.raises(RuntimeError, match="writes to tensors and has sizes that vary"):
        program.run_decompositions()
