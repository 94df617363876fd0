"""What exported programs keep of a module besides its operators, and their form without an archive."""
import copy
import operator
import warnings

import pytest

import cresset as torch
from cresset._export.serde.serialize import (ExportedProgramDeserializer, ExportedProgramSerializer, SerializeError, deserialize,
                                             serialize)
from cresset.export import Dim, default_decompositions, export, load, save, unflatten

aten = torch.ops.aten


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 4)

    def forward(self, x):
        return self.inner(x).relu()


def targets(program):
    return [n.target for n in program.graph.nodes if n.op == "call_function"]


def test_warnings_and_logs_do_not_refuse_an_export():
    """Also in a process that has compiled a function, whose recordings they do refuse."""
    import logging

    class Warns(torch.nn.Module):
        def forward(self, x):
            warnings.warn("a warning of the module")
            logging.getLogger("a module").info("a line")
            return x + x
    x = torch.ones(3)
    torch.compile(lambda x: x * 2)(x)
    with pytest.warns(UserWarning, match="a warning of the module"):
        program = export(Warns(), (x,))
    assert targets(program) == [aten.add.Tensor]
    assert torch.equal(program.module()(x), x + x)


def test_versions_and_offsets_of_fakes_may_be_read():
    class Reads(torch.nn.Module):
        def forward(self, x):
            before, y = x._version, x[1:]
            x.add_(1)
            return y * (x._version - before) + y.storage_offset()
    x = torch.arange(4.)
    expected = Reads()(x.clone())
    assert torch.equal(export(Reads(), (x.clone(),)).module()(x.clone()), expected)


def test_an_export_again_keeps_what_nodes_came_from():
    module = Linear()
    first = export(module, (torch.ones(1, 2),))
    graph = copy.deepcopy(first.graph_module)
    graph.meta["custom"] = {"graph": 1}
    node = next(n for n in graph.graph.nodes if n.target is aten.linear.default)
    node.meta["custom"] = {"tag": "a"}
    again = export(first._update(graph, first.graph_signature).module(), (torch.ones(1, 2),))
    assert again.graph_module.meta["custom"] == {"graph": 1}
    assert [n.meta["custom"] for n in again.graph.nodes if "custom" in n.meta] == [{"tag": "a"}]
    for a, b in zip(first.graph.nodes, again.graph.nodes):
        for key in ("stack_trace", "nn_module_stack", "torch_fn"):
            assert a.meta.get(key) == b.meta.get(key), (a, key)
    made = again.run_decompositions()
    assert made.graph_module.meta["custom"] == {"graph": 1}
    assert {str(n.target) for n in made.graph.nodes if "custom" in n.meta} == {"aten.permute.default", "aten.addmm.default"}


def test_custom_metadata_is_saved(tmp_path):
    program = export(Linear(), (torch.ones(1, 2),))
    program.graph_module.meta["custom"] = {"graph": [1, 2]}
    next(n for n in program.graph.nodes if n.target is aten.relu.default).meta["custom"] = {"tag": "r"}
    save(program, tmp_path / "program.pt2")
    for found in (load(tmp_path / "program.pt2"), deserialize(serialize(program))):
        assert found.graph_module.meta["custom"] == {"graph": [1, 2]}
        assert [(n.target, n.meta["custom"]) for n in found.graph.nodes if "custom" in n.meta] == [(aten.relu.default, {"tag": "r"})]
    program.graph_module.meta["custom"] = {"no text": object()}
    with pytest.raises(SerializeError, match="Failed to serialize custom metadata for graph"):
        serialize(program)


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.k = torch.ones(3, requires_grad=True)

    def forward(self, x):
        return x + self.k


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()
        self.k = self.inner.k

    def forward(self, x):
        return self.inner(x) * self.k


def test_constants_have_all_their_names_and_no_gradient():
    program = export(Outer(), (torch.ones(3),))
    assert sorted(program.constants) == ["inner.k", "k"]
    assert program.constants["k"] is program.constants["inner.k"]
    assert len(program.graph_signature.lifted_tensor_constants) == 1
    assert not program.module().k.requires_grad
    x = torch.arange(3.)
    assert torch.equal(unflatten(program)(x), Outer()(x))
    assert torch.equal(deserialize(serialize(program)).module()(x), Outer()(x))


def test_a_submodule_whose_name_is_self():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module("self", torch.nn.Linear(3, 3))
            self.output = torch.nn.Linear(3, 3)

        def forward(self, x):
            return self.output(self.get_submodule("self")(x)) + x

    module, x = torch.nn.Sequential(Attention(), torch.nn.ReLU()), torch.randn(2, 3)
    made = unflatten(export(module, (x,)))
    assert torch.equal(made(x), module(x)) and "self" in [n.name for n in getattr(made, "0").graph.nodes]
    graph = torch.fx.Graph()
    inner = graph.call_module("self", (graph.placeholder("x"),))
    graph.output(graph.call_module("output", (inner,)))
    assert torch.equal(torch.fx.GraphModule(module[0], graph)(x), module[0].output(module[0].get_submodule("self")(x)))


def test_hooks_of_state_dict_do_not_rename_the_state():
    def rename(module, state, prefix, metadata):
        for name in list(state):
            state["other." + name] = state.pop(name)
    module = Linear()
    module._register_state_dict_hook(rename)
    assert sorted(module.state_dict()) == ["other.inner.bias", "other.inner.weight"]
    program = export(module, (torch.ones(1, 2),))
    assert sorted(program.state_dict) == ["inner.bias", "inner.weight"]
    assert torch.equal(program.module()(torch.ones(1, 2)), module(torch.ones(1, 2)))


def test_items_are_taken_once():
    class Top(torch.nn.Module):
        def forward(self, x):
            return torch.topk(x, 2)
    program = export(Top(), (torch.randn(3),))
    graph = copy.deepcopy(program.graph_module)
    output = list(graph.graph.nodes)[-1]
    call = next(n for n in graph.graph.nodes if n.target is aten.topk.default)
    with graph.graph.inserting_before(output):
        more = graph.graph.call_function(operator.getitem, (call, 1))
    output.args = ((*output.args[0], more),)
    signature = copy.deepcopy(program.graph_signature)
    spec = copy.deepcopy(signature.output_specs[-1])
    spec.arg.name = more.name
    signature.output_specs.append(spec)
    found = program._update(graph, signature)
    assert targets(found).count(operator.getitem) == 2
    names = [s.arg.name for s in found.graph_signature.output_specs]
    assert names[2] == names[1] and names == [n.name for n in list(found.graph.nodes)[-1].args[0]]


def test_the_default_table_gets_operators_when_it_is_read():
    table = default_decompositions()
    with torch.library._scoped_library("exportmeta", "FRAGMENT") as lib:
        for name in ("sine", "cosine"):
            lib.define(f"{name}(Tensor x) -> Tensor")
        lib.impl("sine", lambda x: x.sin(), "CompositeImplicitAutograd")
        lib.impl("cosine", lambda x: x.cos(), "CompositeImplicitAutograd")
        assert torch.ops.exportmeta.sine.default in table
        assert callable(table.pop(torch.ops.exportmeta.sine.default))
        with pytest.raises(KeyError, match="exportmeta.sine.default doesn't exist in the table"):
            table.pop(torch.ops.exportmeta.sine.default)
        assert table.pop(torch.ops.exportmeta.sine.default, 5) == 5
        assert not table.has_materialized
        names = set(table)
        assert table.has_materialized
        assert torch.ops.exportmeta.cosine.default in names and torch.ops.exportmeta.sine.default not in names

        class Both(torch.nn.Module):
            def forward(self, x):
                return torch.ops.exportmeta.sine(x) + torch.ops.exportmeta.cosine(x)
        program = export(Both(), (torch.ones(2),)).run_decompositions(table)
        assert targets(program) == [torch.ops.exportmeta.sine.default, aten.cos.default, aten.add.Tensor]


@pytest.mark.parametrize("call, table, expected", [
    (lambda x: x.sum(), None, ["aten.sum.dim_IntList"]),
    (lambda x: x.sum(dtype=torch.float64), None, ["aten.sum.dim_IntList"]),
    (lambda x: x.chunk(2)[0], {}, ["aten.split_with_sizes.default", "<built-in function getitem>"]),
    (lambda x: x.chunk(4, 1)[-1], None, ["aten.split_with_sizes.default", "<built-in function getitem>"]),
    (lambda x: aten.lift_fresh_copy(x), {}, ["aten.clone.default"]),
    (lambda x: torch.nn.functional.linear(x.view(2, 2, 3), torch.ones(5, 3), torch.ones(5)), None,
     ["aten.view.default", "aten.full.default", "aten.full.default", "aten.view.default", "aten.permute.default",
      "aten.addmm.default", "aten.view.default"]),
], ids=["sum", "sum dtype", "chunk", "chunk of a dim", "lift_fresh_copy", "linear"])
def test_decompositions(call, table, expected):
    class Calls(torch.nn.Module):
        def forward(self, x):
            return call(x)
    x = torch.arange(12.).view(4, 3)
    program = export(Calls(), (x,)).run_decompositions(table)
    assert list(map(str, targets(program))) == expected
    assert torch.equal(program.module()(x), call(x))


def test_fields_of_a_program():
    program = export(Linear(), (torch.ones(3, 2),), dynamic_shapes={"x": {0: Dim("n", max=8)}})
    made = ExportedProgramSerializer().serialize(program)
    graph = made.exported_program.graph_module.graph
    assert [n.target for n in graph.nodes] == ["torch.ops.aten.linear.default", "torch.ops.aten.relu.default"]
    first = graph.nodes[0].inputs[0]
    assert first.name == "input" and first.arg.type == "as_tensor" and first.arg.as_tensor.name == first.arg.value.name == "x"
    (_, bounds), = made.exported_program.range_constraints.items()
    assert bounds.max_val == 8
    rest = made.state_dict, made.constants, made.example_inputs
    found = ExportedProgramDeserializer().deserialize(made.exported_program, *rest)
    x = torch.randn(5, 2)
    assert torch.equal(found.module()(x), program.module()(x))
    made.exported_program.schema_version.major = -1
    with pytest.raises(SerializeError, match="Serialized schema version -1.* does not match our current"):
        ExportedProgramDeserializer().deserialize(made.exported_program, *rest)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff", b'{"schema_version": {"major": 8}}', b"[" * 100000])
def test_texts_that_are_no_program(text):
    artifact = serialize(export(Linear(), (torch.ones(1, 2),)))
    artifact.exported_program = text
    with pytest.raises(SerializeError):
        deserialize(artifact)


def test_a_constant_predicate_warns():
    class Chooses(torch.nn.Module):
        def forward(self, which, x):
            return torch.cond(which, lambda x: x.sin(), lambda x: x.cos(), (x,))
    with pytest.warns(UserWarning, match="Pred is a Python constant"):
        program = export(Chooses(), (True, torch.ones(2)))
    assert targets(program) == [aten.sin.default]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(torch.cond(False, torch.sin, torch.cos, (torch.zeros(1),)), torch.ones(1))


def test_map_impl_calls_a_graph_with_each_slice():
    xs = torch.arange(6.).view(3, 2)
    out, = torch.ops.higher_order.map_impl(lambda x, k: (x * k,), (xs,), (torch.tensor(2.),))
    assert torch.equal(out, xs * 2)


def test_names_of_state_below_modules():
    class Deep(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Linear()

        def forward(self, x):
            return self.block(x)
    made = unflatten(export(Deep(), (torch.ones(1, 2),)))
    assert [n.name for n in made.block.inner.graph.nodes if n.op == "get_attr"] == ["weight", "bias"]
