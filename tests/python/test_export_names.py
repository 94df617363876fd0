"""Names of torch's private modules that programs around torch.export use."""
import dataclasses

import cresset as torch
import pytest
from cresset import nn
from cresset._export.utils import (_disable_load_state_dict_hooks, get_buffer, get_lifted_tensor_constant, get_param, is_buffer,
                                   is_lifted_tensor_constant, is_param, register_dataclass_as_pytree_node)
from cresset.export import default_decompositions, export
from cresset.export._trace import _export
from cresset.fx.experimental.symbolic_shapes import ShapeEnv
from cresset.utils._pytree import tree_flatten, tree_unflatten


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.arange(3.0))
        self.register_buffer("kept", torch.ones(3))
        self.register_buffer("unkept", torch.full((3,), 2.0), persistent=False)
        self.other = torch.full((3,), 5.0)

    def forward(self, x):
        return x + self.w * self.kept + self.unkept + self.other


def test_kinds_of_placeholders():
    module = State()
    program = export(module, (torch.zeros(3),))
    found = {n.name: (is_param(program, n), is_buffer(program, n), is_lifted_tensor_constant(program, n))
             for n in program.graph.nodes if n.op == "placeholder"}
    assert found == {"p_w": (True, False, False), "b_kept": (False, True, False), "b_unkept": (False, True, False),
                     "c_other": (False, False, True), "x": (False, False, False)}
    nodes = {n.name: n for n in program.graph.nodes}
    assert torch.equal(get_param(program, nodes["p_w"]), module.w) and get_param(program, nodes["x"]) is None
    assert torch.equal(get_buffer(program, nodes["b_kept"]), torch.ones(3))
    assert torch.equal(get_buffer(program, nodes["b_unkept"]), torch.full((3,), 2.0))
    assert torch.equal(get_lifted_tensor_constant(program, nodes["c_other"]), torch.full((3,), 5.0))
    assert get_lifted_tensor_constant(program, nodes["x"]) is None


@pytest.mark.parametrize("keeps", [False, True])
def test_dataclasses_as_trees(keeps):
    @dataclasses.dataclass
    class Pair:
        a: object
        b: object = None
    register_dataclass_as_pytree_node(Pair, serialized_type_name=f"test_export_names.Pair{keeps}", return_none_fields=keeps)
    leaves, spec = tree_flatten(Pair(3))
    assert leaves == ([3, None] if keeps else [3]) and tree_unflatten(leaves, spec) == Pair(3, None)
    with pytest.raises(AssertionError, match="Only dataclasses can be registered"):
        register_dataclass_as_pytree_node(int)


def test_hooks_of_state_dict_are_left_out():
    module = State()
    module._register_state_dict_hook(lambda m, state, prefix, meta: state.update(more=1))
    with _disable_load_state_dict_hooks(module):
        assert "more" not in module.state_dict()
    assert "more" in module.state_dict()


def test_scoped_libraries():
    before, known = len(default_decompositions()), set(torch.ops.scoped)
    for add in (1.0, 2.0):  # the name is free again afterwards
        with torch.library._scoped_library("scoped", "FRAGMENT") as library:
            library.define("shifted(Tensor x) -> Tensor")
            library.impl("shifted", lambda x, n=add: x + n, "CompositeImplicitAutograd")
            assert torch.equal(torch.ops.scoped.shifted(torch.ones(2)), torch.ones(2) + add)
            table = default_decompositions()
            assert len(table) == before + 1

            class Calls(nn.Module):
                def forward(self, x):
                    return torch.ops.scoped.shifted(x)
            program = export(Calls(), (torch.ones(2),))
            assert [str(n.target) for n in program.graph.nodes if n.op == "call_function"] == ["scoped.shifted.default"]
            parts = program.run_decompositions(table)
            assert [str(n.target) for n in parts.graph.nodes if n.op == "call_function"] == ["aten.add.Tensor"]
        assert set(torch.ops.scoped) == known and len(default_decompositions()) == before
    with pytest.raises(AttributeError):
        torch.ops.scoped.shifted


def test_export_by_its_private_name():
    program = _export(State(), (torch.zeros(3),), pre_dispatch=True)
    assert torch.equal(program.module()(torch.zeros(3)), State()(torch.zeros(3)))


def test_is_compiling_while_export_traces():
    class Asks(nn.Module):
        def forward(self, x):
            return x * 2 if torch._utils.is_compiling() else x * 3
    assert torch.equal(Asks()(torch.ones(2)), torch.full((2,), 3.0))
    assert torch.equal(export(Asks(), (torch.ones(2),)).module()(torch.ones(2)), torch.full((2,), 2.0))


def test_fakes_as_arguments():
    mode = torch._subclasses.FakeTensorMode(shape_env=ShapeEnv(tracked_fakes=[]))
    module = State()
    with mode:
        x = torch.randn(3)
    assert torch.equal(export(module, (x,)).module()(torch.ones(3)), module(torch.ones(3)))


def test_questions_are_answered_by_elements():
    class Asks(nn.Module):
        def forward(self, x, y):
            x, y = x[x > 0], y[y > 0]
            return max(x.shape[0], y.shape[0]), bool(x.eq(0.1).any()), torch.is_nonzero(y.sum())
    inputs = torch.zeros(64), torch.ones(64)
    with pytest.raises(Exception, match="data-dependent"):
        export(Asks(), inputs)
    with torch._functorch.config.patch(fake_tensor_propagate_real_tensors=True):
        program = export(Asks(), inputs)
    assert program.module()(*inputs) == Asks()(*inputs) == (64, False, True)
    with pytest.raises(RuntimeError, match="Runtime assertion failed for expression"):
        program.module()(torch.ones(64), torch.zeros(64))
