"""Names that libraries use: small functions, classes and modules."""
import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from cresset.utils._python_dispatch import TorchDispatchMode


def test_dim_order():
    assert torch.ones(2, 3).dim_order() == (0, 1) and torch.ones(2, 3).t().dim_order() == (1, 0)
    x = torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert x.dim_order() == (0, 2, 3, 1)
    with pytest.raises(RuntimeError, match="does not have unique dim order"):
        torch.ones(1, 1).dim_order(ambiguity_check=True)


def test_further_in_place_methods():
    x = torch.tensor([2.0, 3.0], dtype=torch.float64)
    assert x.float_power_(2) is x and x.tolist() == [4, 9]
    with pytest.raises(RuntimeError, match="base given to float_power_ has dtype Float but the operation's result "
                                           "requires dtype Double"):
        torch.ones(2).float_power_(2)
    assert torch.ones(2).polygamma_(1).tolist() == pytest.approx([1.6449341] * 2)
    assert torch.ones(2).map2_(torch.ones(2), torch.ones(2), lambda a, b, c: a + b + c).tolist() == [3, 3]


def test_types_of_results_with_out():
    out = torch.max(torch.ones(2, 2), 0, out=(torch.empty(2), torch.empty(2, dtype=torch.long)))
    assert type(out) is torch.return_types.max_out and type(out).__name__ == "max_out"
    assert type(torch.max(torch.ones(2, 2), 0)) is torch.return_types.max
    assert not hasattr(torch.return_types, "add_out")


def test_cond():
    x = torch.ones(2, requires_grad=True)
    y = torch.cond(torch.tensor(True), lambda x: x * 2, lambda x: x * 3, (x,))
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert torch.cond(False, lambda: 1, lambda: 2) == 2
    with pytest.raises(RuntimeError, match="Expected pred to be bool or tensor, but got three."):
        torch.cond("three", len, len)


def test_ranges_and_questions_about_sizes():
    from cresset.fx.experimental.symbolic_shapes import free_symbols, guard_or_false, statically_known_true
    torch.sym_constrain_range(3, min=1, max=4)
    with pytest.raises(RuntimeError, match=r"Invalid value range for 3 between \[1, 2\]."):
        torch.sym_constrain_range(3, min=1, max=2)
    with pytest.raises(RuntimeError, match="Max must be greater than or equal to min. Got min=2 max=1"):
        torch.sym_constrain_range(3, min=2, max=1)
    size = torch.ones(3).shape[0]
    assert guard_or_false(size == 3) and statically_known_true(size > 2) and free_symbols(size) == set()


def test_gradients_of_convolutions():
    from cresset.nn import grad
    x = torch.randn(2, 4, 6, 7, requires_grad=True)
    w = torch.randn(6, 2, 3, 3, requires_grad=True)
    out = F.conv2d(x, w, stride=2, padding=1, groups=2)
    g = torch.randn_like(out)
    by_x, by_w = torch.autograd.grad(out, (x, w), g)
    assert grad.conv2d_input(x.shape, w, g, 2, 1, 1, 2).shape == x.shape
    torch.testing.assert_close(grad.conv2d_input(x.shape, w, g, 2, 1, 1, 2), by_x)
    torch.testing.assert_close(grad.conv2d_weight(x, w.shape, g, 2, 1, 1, 2), by_w)


def test_module_tracker():
    from cresset.utils.module_tracker import ModuleTracker
    seen = []

    class Inner(torch.nn.Module):
        def forward(self, x):
            seen.append(sorted(tracker.parents))
            return x
    model = torch.nn.Sequential(Inner())
    with ModuleTracker() as tracker:
        model(torch.ones(1))
    assert seen == [["Global", "Sequential", "Sequential.0"]] and tracker.parents == {"Global"}


def test_uninitialized_buffers():
    buffer = torch.nn.UninitializedBuffer()
    assert torch.nn.parameter.is_lazy(buffer)
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        buffer.shape
    buffer.materialize((2, 3))
    assert buffer.shape == (2, 3) and type(buffer) is torch.Tensor


class _Names(TorchDispatchMode):
    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func)
        return func(*args, **(kwargs or {}))


def _net(x, w):
    return torch.sin(x @ w).exp()


@pytest.mark.parametrize("kept", [True, False])
def test_a_selective_checkpoint_keeps_chosen_results(kept):
    x, w = torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
    expected = torch.autograd.grad(_net(x, w).sum(), (x, w))

    def policy(context, func, *args, **kwargs):
        keeps = kept and func is torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if keeps else CheckpointPolicy.PREFER_RECOMPUTE
    out = checkpoint(_net, x, w, use_reentrant=False,
                     context_fn=lambda: create_selective_checkpoint_contexts(policy)).sum()
    with _Names() as mode:
        got = torch.autograd.grad(out, (x, w))
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b)
    assert mode.names.count(torch.ops.aten.sin.default) == 1
    assert mode.names.count(torch.ops.aten.mm.default) == (2 if kept else 3)


def test_a_list_of_operators_is_a_policy():
    with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
        create_selective_checkpoint_contexts([torch.sin])
    x = torch.randn(3, requires_grad=True)
    out = checkpoint(lambda x: x.exp().sin(), x, use_reentrant=False,
                     context_fn=lambda: create_selective_checkpoint_contexts([torch.ops.aten.exp.default]))
    out.sum().backward()
    torch.testing.assert_close(x.grad, (x.exp().cos() * x.exp()).detach())


def test_small_answers():
    assert torch.has_lapack and not torch.is_vulkan_available() and not torch.is_distributed(torch.ones(1))
    assert torch._shape_as_tensor(torch.ones(2, 3)).tolist() == [2, 3]
    assert torch._utils._element_size(torch.float32) == 4
    assert torch.backends.opt_einsum.is_available() is False and torch.version.rocm is None
    with pytest.raises(ValueError, match="Expected a non cpu device, but got: cpu"):
        torch._utils._get_device_index("cpu", optional=True)
    with pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value, but got zero"):
        torch._assert_async(torch.zeros(1))
    assert torch.SymInt.__module__ == "torch" and not isinstance(3, torch.SymInt)


def _groups():
    a = torch.sin(torch.arange(24.0)).reshape(6, 4).requires_grad_()
    b = torch.cos(torch.arange(60.0)).reshape(3, 4, 5).requires_grad_()
    return a, b, torch.tensor([2, 3, 6], dtype=torch.int32)


def test_products_of_groups():
    a, b, offs = _groups()
    expected = torch.cat([a[:2] @ b[0], a[2:3] @ b[1], a[3:] @ b[2]])
    out = F.grouped_mm(a, b, offs=offs)
    assert torch.equal(out, expected)
    g = torch.autograd.grad(out.sum(), (a, b))
    assert all(map(torch.equal, g, torch.autograd.grad(expected.sum(), (a, b))))
    assert torch.equal(F.grouped_mm(a.reshape(3, 2, 4), b), a.reshape(3, 2, 4) @ b)
    c = torch.ones(6, 5)
    assert torch.equal(F.grouped_mm(a.t(), c, offs=offs), torch.stack([a.t()[:, :2] @ c[:2], a.t()[:, 2:3] @ c[2:3],
                                                                       a.t()[:, 3:] @ c[3:]]))
    d = torch.ones(4, 6)
    assert torch.equal(F.grouped_mm(b.transpose(1, 2), d, offs=offs)[:, 3:], b[2].t() @ d[:, 3:])


@pytest.mark.parametrize("change, text", [
    ({"offs": None}, "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"),
    ({"offs": torch.tensor([2, 3, 6])}, "Offsets have to be int32"),
    ({"out_dtype": torch.float64}, "Grouped gemm output dtype must match `mat_a` dtype")])
def test_products_of_groups_refuse(change, text):
    a, b, offs = _groups()
    with pytest.raises(RuntimeError, match=text):
        F.grouped_mm(a, b, **{"offs": offs, **change})


def test_copies_of_graphs_keep_named_attributes():
    import copy
    from cresset.fx import symbolic_trace
    from cresset.fx.graph_module import _USER_PRESERVED_ATTRIBUTES_KEY
    module = symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    module.meta[_USER_PRESERVED_ATTRIBUTES_KEY] = {"note": "kept"}
    assert copy.deepcopy(module).note == "kept"


def test_operators_under_the_names_of_libraries():
    x, w, b = torch.rand(2, 4, 5, 5), torch.rand(4, 2, 3, 3), torch.rand(4)
    made = torch.mkldnn_convolution(x, w, b, [1, 1], [2, 2], [1, 1], 2)
    assert torch.equal(made, torch.nn.functional.conv2d(x, w, b, 2, 1, 1, 2))
    assert torch.native_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]).to_sparse()).item() == 5
    for call in (lambda: torch.native_norm(x), lambda: torch.cudnn_grid_sampler(x, x)):
        with pytest.raises(NotImplementedError, match="Could not run 'aten::"):
            call()
