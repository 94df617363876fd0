"""Gradients end with an error where torch has no derivative, and never silently."""
import itertools

import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset.autograd import gradcheck, gradgradcheck
from cresset.func import jvp

X = torch.tensor([[0.3, 0.7], [0.2, 0.9]], dtype=torch.float64)
INDICES = torch.tensor([0, 1, 1])


def leaf():
    return X.clone().requires_grad_()


@pytest.mark.parametrize("call, text", [
    (lambda x: x.scatter(0, torch.tensor([[0, 1]]), x[:1], reduce="add"), "derivative for aten::scatter is not"),
    (lambda x: x.scatter(0, torch.tensor([[0, 1]]), 2.0, reduce="multiply"), "derivative for aten::scatter is not"),
    (lambda x: torch.heaviside(x, x), "derivative for aten::heaviside is not implemented"),
    (lambda x: torch.geqrf(x)[0], "the derivative for 'geqrf' is not implemented"),
    (lambda x: torch.linalg.ldl_solve(x, torch.tensor([1, 2], dtype=torch.int32), x), "aten::linalg_ldl_solve is not"),
    (lambda x: torch.histogram(x, 3)[0], "derivative for aten::histogram is not implemented"),
    (lambda x: torch.bincount(torch.tensor([0, 1]), x[0]), "derivative for aten::bincount is not implemented"),
    (lambda x: torch.special.gammainc(x, X), "the derivative for 'igamma: input' is not implemented"),
    (lambda x: torch.special.gammaincc(x, X), "the derivative for 'igammac: input' is not implemented"),
    (lambda x: torch.special.zeta(x + 2, X), "the derivative for 'zeta' is not implemented"),
    (lambda x: torch.zeros(1, dtype=torch.float64).set_(x), "set_ is not implemented"),
    (lambda x: (x * 1).set_(X), "set_ is not implemented"),
    (lambda x: (x * 1).set_(X.untyped_storage(), 1, (2,), (1,)), "set_ is not implemented"),
])
def test_a_missing_derivative_raises(call, text):
    with pytest.raises((RuntimeError, NotImplementedError), match=text):
        call(leaf()).sum().backward()


def test_leaves_do_not_take_other_memory():
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        leaf().set_(X)
    with torch.no_grad():
        x = leaf()
        assert x.set_(X[0]) is x and x.tolist() == X[0].tolist() and x.requires_grad


@pytest.mark.parametrize("size, stride, offset", [((2, 2), (1, 2), None), ((3,), (0,), 1), ((3,), (1,), 2), ((2, 2, 2), (1, 0, 2), 1)])
def test_a_tensor_that_becomes_another_view_has_its_derivative(size, stride, offset):
    """as_strided_ of a view of a result, and changed afterwards; forward mode; the second derivative."""
    weights = torch.arange(1.0, 9, dtype=torch.float64)[:torch.empty(size).numel()].reshape(size)

    def moved(x):
        return (x * x)[:].as_strided_(size, stride, offset).sin() * weights

    def viewed(x):
        return (x * x)[:].as_strided(size, stride, offset).sin() * weights
    x = torch.arange(1.0, 6, dtype=torch.float64) / 5
    assert gradcheck(moved, x.clone().requires_grad_(), check_forward_ad=True)
    assert gradgradcheck(moved, x.clone().requires_grad_())
    y = x.clone().requires_grad_()
    assert torch.equal(torch.autograd.grad(moved(y).sum(), y)[0], torch.autograd.grad(viewed(y).sum(), y)[0])
    if 0 not in stride:
        z = (y * 1).as_strided_(size, stride, offset).mul_(2)
        assert torch.autograd.grad(z.sum(), y)[0].sum() == 2 * weights.numel()


@pytest.mark.parametrize("mode", ("sum", "mean", "max"))
def test_second_derivatives_of_embedding_bag(mode):
    w = leaf()
    g, = torch.autograd.grad((F.embedding_bag(INDICES, w, torch.tensor([0, 2]), mode=mode) ** 2).sum(), w, create_graph=True)
    with pytest.raises(NotImplementedError, match="the derivative for '_embedding_bag_backward' is not implemented"):
        g.pow(2).sum().backward()
    with pytest.raises(NotImplementedError):
        jvp(lambda w: F.embedding_bag(INDICES, w, torch.tensor([0, 2]), mode=mode), (X,), (X,))


def test_results_without_a_gradient():
    x = leaf()
    assert not torch.histc(x).requires_grad and not torch.special.bessel_j0(x).requires_grad
    g = torch.autograd.grad(torch.nextafter(x, X + 1).sum(), x)[0]
    assert torch.equal(g, torch.ones_like(x))


@pytest.mark.parametrize("mode, padding, align, dims", [
    *itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True), (2,)),
    *itertools.product(("bilinear", "nearest"), ("zeros", "reflection"), (False,), (3,))])
def test_second_derivatives_of_grid_sample(mode, padding, align, dims):
    torch.manual_seed(3)
    x = torch.randn(1, 2, *(3, 4, 5)[:dims], dtype=torch.float64, requires_grad=True)
    grid = (torch.rand(1, *[2] * dims, dims, dtype=torch.float64) * 2.4 - 1.2).requires_grad_()

    def sample(x, grid):
        return F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=align)
    assert gradcheck(sample, (x, grid)) and gradgradcheck(sample, (x, grid))
    tangents = torch.randn(x.shape, dtype=x.dtype), torch.randn(grid.shape, dtype=x.dtype)
    step = 1e-6
    pushed = jvp(sample, (x.detach(), grid.detach()), tangents)[1]
    apart = [sample(x.detach() + s * tangents[0], grid.detach() + s * tangents[1]) for s in (step, -step)]
    torch.testing.assert_close(pushed, (apart[0] - apart[1]) / (2 * step), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("call, operator, name", [
    (lambda w: F.binary_cross_entropy(X, X, weight=w), "binary_cross_entropy", "weight"),
    (lambda w: F.binary_cross_entropy_with_logits(X, X, weight=w), "binary_cross_entropy_with_logits", "weight"),
    (lambda w: F.binary_cross_entropy_with_logits(X, X, pos_weight=w), "binary_cross_entropy_with_logits", "pos_weight"),
    (lambda w: F.nll_loss(X, INDICES[:2], weight=w[0]), "nll_loss_forward", "weight"),
    (lambda w: F.cross_entropy(X, INDICES[:2], weight=w[0]), "nll_loss_forward", "weight"),
    (lambda w: F.batch_norm(X, w[0], X[0]), "native_batch_norm", "running_mean"),
    (lambda w: F.batch_norm(X, X[0], w[0]), "native_batch_norm", "running_var"),
    (lambda w: torch.linalg.pinv(X, rtol=w[0, 0]), "linalg_pinv", "rtol"),
    (lambda w: torch.linalg.pinv(X, atol=w[0, 0]), "linalg_pinv", "atol"),
])
def test_arguments_that_must_not_require_a_gradient(call, operator, name):
    text = f"^The function '{operator}' is not differentiable with respect to argument '{name}'. This input cannot have requires_grad True.$"
    with pytest.raises(RuntimeError, match=text):
        call(leaf())
    with pytest.raises(RuntimeError, match=text):
        torch.func.jacrev(call)(X)
    with torch.no_grad():
        assert not call(leaf()).requires_grad
    assert not call(X).requires_grad
