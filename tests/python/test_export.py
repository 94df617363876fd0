"""Exported programs print as torch's (export_cases.py), compute what the module computes, and refuse in torch's words."""
import copy
import json
import pathlib
from dataclasses import dataclass

import cresset as torch
import export_cases
import pytest
from cresset import nn
from cresset.export import Dim, export
from cresset.export.graph_signature import InputKind
from cresset.utils._pytree import tree_leaves
from export_cases import Block, Counting, Function, Perceptron, Picture

HERE = pathlib.Path(__file__).parent
EXPECTED = json.loads((HERE / "export_expected.json").read_text())


@pytest.mark.parametrize("name", export_cases.CASES)
def test_text(name):
    assert export_cases.run(name) == EXPECTED[name]


def equal(a, b):
    a, b = tree_leaves(a), tree_leaves(b)
    return len(a) == len(b) and all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(a, b))


MODULES = {"perceptron": (Perceptron, (5, 4)), "block": (Block, (2, 3, 8)), "picture": (Picture, (2, 1, 8, 8)),
           "encoder": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 3, 8)), "lstm": (lambda: nn.LSTM(4, 3, 2), (5, 2, 4)),
           "convolution": (lambda: nn.Sequential(nn.Conv1d(4, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.AdaptiveAvgPool1d(1)), (2, 4, 9)),
           "norms": (lambda: nn.Sequential(nn.BatchNorm2d(3), nn.InstanceNorm2d(3), nn.PReLU(), nn.Upsample(scale_factor=2)), (2, 3, 4, 4))}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_results_are_the_modules(name, training):
    make, size = MODULES[name]
    torch.manual_seed(0)
    module = make().train(training)
    other = copy.deepcopy(module)
    x = torch.randn(size)
    program = export(module, (x,))
    torch.manual_seed(1)
    want = other(x)
    torch.manual_seed(1)
    assert equal(program.module()(x), want)
    assert equal(list(program.buffers()), list(other.buffers()))


def test_export_changes_nothing():
    module, x = Counting(), torch.ones(5, 3)
    state = {k: v.clone() for k, v in module.state_dict().items()}
    keys, at = set(vars(module)), torch.random.get_rng_state()
    export(module, (x,))
    assert equal(list(state.values()), list(module.state_dict().values())) and equal(x, torch.ones(5, 3))
    assert set(vars(module)) == keys and equal(at, torch.random.get_rng_state())
    assert all(type(t) in (torch.Tensor, nn.Parameter) for t in module.state_dict(keep_vars=True).values())


def test_module_writes_buffers_and_arguments():
    module, x = Counting(), torch.full((5, 3), 2.0)
    exported = export(module, (torch.ones(5, 3),)).module()
    exported(x)
    assert exported.calls == 1 and equal(x, torch.full((5, 3), 4.0)) and exported.norm.num_batches_tracked == 1


def test_a_buffer_that_is_assigned_is_written():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(2))

        def forward(self, x):
            self.n = self.n + x
            return self.n * 2
    exported = export(M(), (torch.ones(2),)).module()
    assert equal([exported(torch.ones(2)), exported(torch.ones(2)), exported.n],
                 [torch.full((2,), 2.0), torch.full((2,), 4.0), torch.full((2,), 2.0)])


def test_an_attribute_that_is_assigned_is_refused():
    class M(nn.Module):
        def forward(self, x):
            self.seen = x * 2
            return x
    with pytest.raises(ValueError, match="The tensor attribute self.seen was assigned during export. Such attributes must be"):
        export(M(), (torch.ones(2),))


def test_a_value_that_python_needs_is_refused_with_its_line():
    class M(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x
    from cresset.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
    with pytest.raises(GuardOnDataDependentSymNode, match=r"Could not guard on data-dependent expression(.|\n)*test_export.py:\d+ in forward"):
        export(M(), (torch.ones(2),))


def test_results_for_all_sizes():
    torch.manual_seed(0)
    module = Block()
    program = export(module, (torch.randn(2, 5, 8),), dynamic_shapes={"x": {0: Dim.DYNAMIC, 1: Dim("length", max=40)}})
    exported = program.module()
    for size in [(2, 5, 8), (1, 1, 8), (7, 40, 8), (3, 2, 8)]:
        x = torch.randn(size)
        assert equal(exported(x), module(x))
    with pytest.raises(AssertionError, match=r"Guard failed: x.size\(\)\[1\] <= 40"):
        exported(torch.randn(2, 41, 8))


def test_sizes_are_expressions():
    program = export(Function(lambda x: torch.cat([x, x[1:]]).flatten()), (torch.ones(4, 3),), dynamic_shapes=({0: Dim.DYNAMIC},))
    val = [n for n in program.graph.nodes if n.op == "call_function"][-1].meta["val"]
    assert str(val.shape) == "torch.Size([6*s77 - 3])" and val.shape[0] == 21 and isinstance(val.shape[0], torch.SymInt)
    assert str(val.shape[0] * 2 + 1) == "12*s77 - 5" and val.shape[0].node.hint == 21


def test_a_condition_of_division():
    f = Function(lambda x: x.view(2, -1))
    program = export(f, (torch.ones(8),), dynamic_shapes=({0: Dim.DYNAMIC},))
    assert program._guards_code == ["(L['x'].size()[0] % 2) == 0"]
    assert program.module()(torch.ones(10)).shape == (2, 5)
    with pytest.raises(AssertionError, match=r"Guard failed: \(x.size\(\)\[0\] % 2\) == 0"):
        program.module()(torch.ones(9))
    with pytest.raises(torch._dynamo.exc.UserError, match=r"_b = Dim\('_b', min=1, max=oo\)\n  b = 2\*_b"):
        export(f, (torch.ones(8),), dynamic_shapes=({0: Dim("b")},))
    half = export(f, (torch.ones(8),), dynamic_shapes=({0: 2 * Dim("_b")},))
    assert half.module()(torch.ones(12)).shape == (2, 6)


@pytest.mark.parametrize("holds", [lambda n: n % 2 == 0, lambda n: n != 5, lambda n: n // 2 == 2, lambda n: n % 3 == 1])
def test_conditions_on_sizes_of_starred_arguments_are_checked(holds):
    class Two(torch.nn.Module):
        def forward(self, *given):
            return given[0] * 2 if holds(given[1][0].shape[0]) else given[0]
    x, auto = torch.ones(4, 2), {0: torch.export.Dim.AUTO}
    module = torch.export.export(Two(), (x, [x]), dynamic_shapes=((None, [auto]),)).module()
    for n in range(2, 12):
        if holds(n):
            assert torch.equal(module(x, [torch.ones(n, 2)]), x * 2)
        else:
            with pytest.raises(AssertionError, match=r"Guard failed: .*given_1\[0\].size\(\)\[0\]"):
                module(x, [torch.ones(n, 2)])


def test_sizes_that_a_program_returns():
    program = export(Function(lambda x: (x * 2, x.shape[0] * 3)), (torch.ones(4, 3),), dynamic_shapes=({0: Dim.DYNAMIC},))
    assert program.module()(torch.ones(6, 3))[1] == 18


def test_least_sizes_that_operators_take():
    program = export(Function(lambda x: nn.functional.max_pool1d(x[None], 3)), (torch.ones(2, 9),), dynamic_shapes=({1: Dim.DYNAMIC},))
    assert [(str(e), r.lower) for e, r in program.range_constraints.items()] == [("s27", 3)]
    with pytest.raises(AssertionError, match="Guard failed: x.size\\(\\)\\[1\\] >= 3"):
        program.module()(torch.ones(2, 2))


def test_signature_and_state():
    program = export(Counting(), (torch.ones(5, 3),))
    signature = program.graph_signature
    assert signature.parameters == ("norm.weight", "norm.bias") and signature.user_inputs == ("x",)
    assert [s.kind for s in signature.input_specs][-1] == InputKind.USER_INPUT
    assert signature.inputs_to_buffers["b_calls"] == "calls" and signature.buffers_to_mutate == {}
    assert [name for name, _ in program.named_parameters()] == ["norm.weight", "norm.bias"]
    program.validate()
    copied = copy.deepcopy(program)
    assert str(copied) == str(program) and copied.state_dict["calls"] is not program.state_dict["calls"]


def test_metadata_of_nodes():
    program = export(Picture(), (torch.ones(2, 1, 8, 8),))
    node = next(n for n in program.graph.nodes if n.name == "conv2d")
    assert node.meta["nn_module_stack"] == {"L__self__": ("", "export_cases.Picture"), "L__self__conv": ("conv", "torch.nn.modules.conv.Conv2d")}
    assert node.meta["torch_fn"][0] == "conv2d_1" and "in forward" in node.meta["stack_trace"]
    assert node.meta["val"].shape == (2, 4, 4, 4) and node.target is torch.ops.aten.conv2d.default


def test_train_and_eval_of_the_module_are_refused():
    module = export(Perceptron(), (torch.ones(5, 4),)).module()
    with pytest.raises(NotImplementedError, match="Calling eval\\(\\) is not supported yet."):
        module.eval()
    with pytest.raises(NotImplementedError, match="Calling train\\(\\) is not supported yet."):
        module.train()


def test_suggested_fixes_are_applied():
    from cresset.export.dynamic_shapes import refine_dynamic_shapes_from_suggested_fixes as refine
    shapes = {"x": {0: Dim("b")}}
    with pytest.raises(torch._dynamo.exc.UserError) as error:
        export(Function(lambda x: x.view(2, -1)), (torch.ones(8),), dynamic_shapes=({0: shapes["x"][0]},))
    assert repr(refine(str(error.value), shapes)) == "{'x': {0: 2*_b}}"


def test_further_calls_say_which_sizes_vary():
    from cresset.export import AdditionalInputs
    calls = AdditionalInputs()
    calls.add((torch.ones(7, 4),))
    program = export(Perceptron(), (torch.ones(5, 4),), dynamic_shapes=calls)
    assert [str(r) for r in program.range_constraints] == ["s77"]
    calls.verify(program)


def test_parameters_learn_through_the_module():
    module = Perceptron()
    exported, x = export(module, (torch.ones(5, 4),)).module(), torch.randn(5, 4)
    exported(x).sum().backward()
    found = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(x).sum().backward()
    assert equal(found, [p.grad for p in module.parameters()])


class Branch(nn.Module):
    def forward(self, x):
        flags = torch.compiler.is_compiling(), torch.compiler.is_exporting(), torch.compiler.is_dynamo_compiling()
        return [x * (2 + flag) for flag in flags]


def test_the_call_knows_that_it_is_exported():
    x = torch.ones(2)
    assert equal(export(Branch(), (x,)).module()(x), [x * 3, x * 3, x * 2]) and equal(Branch()(x), [x * 2] * 3)


class Keywords(nn.Module):
    def forward(self, a, *, x, y):
        return a, x - y


def test_example_inputs_keep_the_order_of_the_program():
    one = torch.ones(3)
    program = export(Keywords(), (one,), {"y": one, "x": one})
    program.example_inputs = (one,), {"x": one * 2, "y": one}
    assert list(program.example_inputs[1]) == ["y", "x"] and torch.equal(program.example_inputs[1]["x"], one * 2)
    for value, text in (((one,), "Example inputs should be a tuple containing example arguments"),
                        (((one,), {}), "Ran into a kwarg keyword mismatch: Got the following keywords [] but expected ['y', 'x']"),
                        (((), {"x": one, "y": one}), "Trying to flatten user inputs with exported input tree spec")):
        with pytest.raises(ValueError) as error:
            program.example_inputs = value
        assert str(error.value).startswith(text)


class Product(nn.Module):
    def forward(self, x, y):
        return x @ y


class Inner(nn.Module):
    def forward(self, x):
        return x["k"]["k"][0] + x["k"]["k"][1]


def test_shapes_of_another_structure_are_refused_in_torchs_words():
    a, b, x = Dim("C", min=3), Dim("C", max=12), torch.ones(10, 10)
    with pytest.raises(torch._dynamo.exc.UserError, match=r"Found different definitions Dim\('C', min=3\) and Dim\('C', min=0, max=12\) for "
                                                          r"the same symbolic dimension Dim\('C', min=0, max=12\)!"):
        export(Product(), (x, x), dynamic_shapes={"x": (a, b), "y": (b, a)})
    inputs, dim = ({"k": {"k": [torch.rand(4), torch.rand(4)]}},), Dim("dim")
    with pytest.raises(torch._dynamo.exc.UserError, match="maybe you just forgot to enclose `dynamic_shapes` in a list/tuple"):
        export(Inner(), inputs, dynamic_shapes={"k": {"k": [dim, dim]}})
    with pytest.raises(torch._dynamo.exc.UserError, match=r"`inputs\[0\]\['k'\]\['k'\]` is a <class 'list'>, but "
                                                          r"`dynamic_shapes\[0\]\['k'\]\['k'\]` is a <class 'tuple'>"):
        export(Inner(), inputs, dynamic_shapes=({"k": {"k": ((dim,), (dim,))}},))
    assert export(Inner(), inputs, dynamic_shapes=({"k": {"k": [(dim,), (dim,)]}},)).range_constraints


@dataclass
class Given:
    x: torch.Tensor
    y: list


class Structured(nn.Module):
    def forward(self, given):
        return given.x + given.y[0]


def test_shapes_of_tensors_in_registered_classes():
    torch.export.register_dataclass(Given)
    x, y = torch.randn(4), [torch.randn(4)]
    shapes = torch.export.ShapesCollection()
    shapes[x] = shapes[y[0]] = (Dim("dim", max=10),)
    program = export(Structured(), (Given(x, y),), dynamic_shapes=shapes)
    assert program.module()(Given(torch.ones(7), [torch.ones(7)])).shape == (7,)


class Lazy(nn.modules.lazy.LazyModuleMixin, nn.Module):
    def initialize_parameters(self, *args, **kwargs):
        pass

    def forward(self, x, y):
        return x + y


def test_a_lazy_module_without_another_class_keeps_its_own():
    module, x = Lazy(), torch.randn(3)
    assert torch.equal(export(module, (), {"x": x, "y": x}).module()(x=x, y=x), x + x)
    assert type(module) is Lazy
