"""Autocast blocks in exported programs: subgraphs that compute in the precision of the block, as in torch 2.13."""
import io

import cresset as torch
import pytest
from cresset import nn
from cresset.export import Dim, export, load, save, unflatten

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Layers(nn.Module):
    def __init__(self, f):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b, self.f = nn.Linear(4, 4), nn.Linear(4, 4), f

    def forward(self, x):
        return self.f(self, x)


def low(dtype=torch.bfloat16, enabled=True):
    return torch.autocast("cpu", dtype=dtype, enabled=enabled)


def one(m, x):
    with low():
        y = m.b(m.a(x))
    return y.float() + 1


def two(m, x):
    with low():
        y = m.a(x)
    y = y.sin()
    with low(torch.float16):
        return m.b(y)


def neighbours(m, x):
    with low():
        y = m.a(x)
    with low():
        return m.b(y)


def nested(m, x):
    with low():
        y = m.a(x)
        with low(enabled=False):
            z = m.b(y.float())
        return m.b(z), z


def disabled(m, x):
    with low(enabled=False):
        y = m.a(x)
    return y + 1


def inside_no_grad(m, x):
    with torch.no_grad(), low():
        y = m.a(x)
    return m.b(y.float())


def around_no_grad(m, x):
    with low():
        y = m.a(x)
        with torch.no_grad():
            z = m.b(y)
        return z + y


def several_results(m, x):
    with low(torch.float16):
        y = m.a(x) + torch.ones(4)
        first, second = y.split(2, 1)
    return first + second, y


def sizes(m, x):
    with low():
        n = x.shape[0] * 4
        y = m.a(x).reshape(n)
    return y * n, n


def branches(m, x):
    with low():
        y = torch.cond(x.sum() > 0, m.a, lambda x: m.b(x) + m.a(x), (x,))
        return m.b(y)


def block_in_a_branch(m, x):
    def branch(x):
        with low():
            y = m.a(x)
        return y.float()
    return torch.cond(x.sum() > 0, branch, lambda x: m.b(x), (x,))


def element(m, x):
    with low():
        n = x.ge(0).sum().item()
        y = m.a(x) + n
    return y * n


def parts(m, x):
    """Functions that consist of several operators."""
    with low():
        y = torch.nn.functional.dropout(torch.nn.functional.gelu(m.a(x)), 0.5, False)
        z = torch.nn.functional.layer_norm(y, (4,))
        return torch.nn.functional.cross_entropy(m.b(z), torch.tensor([0, 1, 2])), torch.cat([y, x]), torch.linalg.vector_norm(y)


BLOCKS = {f.__name__: f for f in (one, two, neighbours, nested, disabled, inside_no_grad, around_no_grad, several_results, sizes, branches,
                                  block_in_a_branch, element, parts)}


def same(a, b):
    a, b = (x if isinstance(x, tuple) else (x,) for x in (a, b))
    return len(a) == len(b) and all(x == y if isinstance(x, int) else x.dtype == y.dtype and torch.equal(x, y) for x, y in zip(a, b))


def loaded(program):
    file = io.BytesIO()
    save(program, file)
    return load(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", BLOCKS)
def test_programs_with_blocks_give_what_calls_give(name, strict):
    module = Layers(BLOCKS[name])
    program = export(module, (X,), strict=strict)
    assert "torch.ops.higher_order.wrap_with_autocast" in str(program) and "_to_copy" not in str(program)
    for found in (program.module(), loaded(program).module(), unflatten(program), unflatten(loaded(program))):
        assert same(found(X), module(X)) and same(found(-X), module(-X))
    if name not in ("branches", "block_in_a_branch", "element"):  # graphs with branches and elements do not run on fakes
        assert same(export(program.module(), (X,)).module()(-X), module(-X))
        plain = program.run_decompositions({})
        assert "higher_order" not in str(plain) and same(plain.module()(X), module(X))


@pytest.mark.parametrize("name", ["one", "nested", "around_no_grad", "sizes", "branches"])
def test_sizes_vary_in_blocks(name):
    module = Layers(BLOCKS[name])
    program = export(module, (X,), dynamic_shapes={"x": {0: Dim("n")}})
    again = [] if name == "branches" else [export(program.module(), (X,), dynamic_shapes={"x": {0: Dim("n")}})]
    for found in (program, loaded(program), *again):
        for n in (2, 7):
            x = torch.randn(n, 4)
            assert same(found.module()(x), module(x))


@pytest.mark.parametrize("name", ["one", "inside_no_grad", "around_no_grad", "branches"])
def test_blocks_have_the_gradients_of_calls(name):
    module = Layers(BLOCKS[name]).train()
    found = export(module, (X,)).module()
    for m in (module, found):
        m(X).float().sum().backward()
    want, have = dict(module.named_parameters()), dict(found.named_parameters())
    assert [k for k, p in want.items() if p.grad is not None] == [k for k, p in have.items() if p.grad is not None]
    assert all(torch.equal(p.grad, have[k].grad) for k, p in want.items() if p.grad is not None)


# The code of torch 2.13.
CODE = {
    "nested": ["submod_2 = self.submod_1",
               "wrap_with_autocast = torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, True, False, submod_2, x, p_a_weight, "
               "p_a_bias, p_b_weight, p_b_bias)",
               "linear_2 = wrap_with_autocast[0]", "linear_1 = wrap_with_autocast[1]", "return (linear_2, linear_1)"],
    "neighbours": ["submod_3 = self.submod_1",
                   "linear = torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, True, False, submod_3, x, p_a_weight, p_a_bias)",
                   "getitem = linear[0]", "submod_4 = self.submod_2",
                   "linear_1 = torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, True, False, submod_4, getitem, p_b_weight, "
                   "p_b_bias)", "getitem_1 = linear_1[0]", "return (getitem_1,)"],
    "inside_no_grad": ["submod_3 = self.submod_1",
                       "linear = torch.ops.higher_order.wrap_with_set_grad_enabled(False, submod_3, x, p_a_weight, p_a_bias)",
                       "getitem = linear[0]",
                       "_assert_tensor_metadata_default = torch.ops.aten._assert_tensor_metadata.default(getitem, dtype = torch.bfloat16, device = "
                       "device(type='cpu'), layout = torch.strided)",
                       "to = torch.ops.aten.to.dtype(getitem, torch.float32)", "linear_1 = torch.ops.aten.linear.default(to, p_b_weight, p_b_bias)",
                       "return (linear_1,)"],
}
INNER = {"nested": ["linear = torch.ops.aten.linear.default(arg4_1, arg0_1, arg1_1)", "submod_3 = self.submod_1",
                    "linear_1 = torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, False, False, submod_3, linear, arg2_1, arg3_1)",
                    "getitem = linear_1[0]", "linear_2 = torch.ops.aten.linear.default(getitem, arg2_1, arg3_1)", "return (linear_2, getitem)"],
         "neighbours": ["linear = torch.ops.aten.linear.default(arg4_1, arg0_1, arg1_1)", "return (linear,)"],
         "inside_no_grad": ["submod_2 = self.submod_1",
                            "linear = torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, True, False, submod_2, x, p_l_weight, p_l_bias)",
                            "getitem = linear[0]", "return (getitem,)"]}


def lines(code):
    return [line.split(";")[0].strip() for line in code.strip().splitlines()[1:]]


@pytest.mark.parametrize("name", CODE)
def test_code_of_blocks(name):
    module = export(Layers(BLOCKS[name]), (X,)).graph_module
    assert lines(module.code) == CODE[name]
    assert lines(module.submod_1.code) == [line.replace("p_l_", "p_a_") for line in INNER[name]]


def test_conversions_around_an_export_are_calls():
    """A block that is open when export() begins is no part of the program."""
    module = Layers(lambda m, x: m.a(x))
    with low():
        program, want = export(module, (X,)), module(X)
    assert "higher_order" not in str(program) and same(program.module()(X), want)


def test_calls_whose_signatures_are_kept_have_conversions_as_calls():
    module = Layers(one)
    program = export(module, (X,), preserve_module_call_signature=("a",))
    assert "higher_order" not in str(program) and same(program.module()(X), module(X)) and same(unflatten(program)(X), module(X))


def test_an_error_in_a_block_leaves_autocast_off():
    def fails(m, x):
        with low():
            raise ValueError("stop")
    with pytest.raises(ValueError, match="stop"):
        export(Layers(fails), (X,))
    assert not torch.is_autocast_enabled("cpu") and torch.is_autocast_cache_enabled()
    assert same(export(Layers(one), (X,)).module()(X), Layers(one)(X))


def test_files_with_wrong_arguments_of_blocks_are_refused():
    program = export(Layers(one), (X,))
    call = next(n for n in program.graph.nodes if n.name == "linear_1")
    call.args = ("nowhere", *call.args[1:])
    program.graph_module.recompile()
    with pytest.raises(RuntimeError, match="device"):
        loaded(program).module()(X)
