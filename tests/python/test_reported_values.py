"""Values and refusals of programs from reports about other libraries' wrong results; the right ones are mathematics' or NumPy's."""
import math

import numpy
import pytest

import cresset as torch
import cresset.nn.functional as F
from cresset.func import grad, hessian, jacfwd, jacrev, jvp, vmap

D = torch.float64
INF, NAN = math.inf, math.nan


class Square(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return 2 * x * g

    @staticmethod
    def jvp(ctx, dx):
        x, = ctx.saved_tensors
        return 2 * x * dx


def test_nested_forward_derivatives_of_a_function_of_a_program():
    """The fourth power."""
    x = torch.tensor([3.0], dtype=D)

    def fourth(x):
        return Square.apply(Square.apply(x)).sum()
    assert [f(x).item() for f in (jacfwd(fourth), jacfwd(jacfwd(fourth)), jacfwd(jacfwd(jacfwd(fourth))),
                                  jacrev(jacfwd(fourth)))] == [108, 108, 72, 108]


@pytest.mark.parametrize("second", [lambda f: hessian(f), lambda f: jacrev(jacrev(f)), lambda f: jacfwd(jacfwd(f)),
                                    lambda f: jacrev(jacfwd(f)), lambda f: jacfwd(jacrev(f))])
@pytest.mark.parametrize("matrix", [[[1.0, 0.0], [0.0, 1.0]], [[1.3, 0.4], [-0.7, 0.9]], [[1.0, 0.0], [1.0, 1.0]]])
def test_second_derivatives_of_a_determinant(second, matrix):
    """Equal singular values, too."""
    want = numpy.zeros((2, 2, 2, 2))
    want[0, 0, 1, 1] = want[1, 1, 0, 0] = 1
    want[0, 1, 1, 0] = want[1, 0, 0, 1] = -1
    numpy.testing.assert_allclose(second(torch.linalg.det)(torch.tensor(matrix, dtype=D)).numpy(), want, atol=1e-12)


def test_nested_tangents():
    def twice(f, t):
        def once(t):
            return jvp(f, (t,), (torch.ones_like(t),))[1]
        t = torch.tensor(t, dtype=D)
        return jvp(once, (t,), (torch.ones_like(t),))[1].item()

    def normed(t):
        x = torch.stack((t, torch.zeros((), dtype=D))).reshape(1, 2)
        return F.layer_norm(x, [2], torch.tensor([1.0, 2.0], dtype=D), None, 0.25).sum()

    def reflected(t):
        a = torch.stack((torch.ones((), dtype=D), t)).reshape(2, 1)
        return torch.linalg.householder_product(a, (2 / (1 + t * t)).reshape(1)).sum()

    def products(t):
        x = torch.stack((t, t + 1, 2 - t, t - 1, 2 * t + 1, t + 3)).reshape(2, 3)
        return (x.cumprod(-1) * torch.tensor([[1.0, 2, 3], [4, 5, 6]], dtype=D)).sum()
    assert twice(normed, 0.7) == pytest.approx(0.7749142079590942)
    assert twice(reflected, 0.7) == pytest.approx(1.556251320682393)
    assert twice(products, 1.0) == pytest.approx(144.0)


def test_a_mask_of_a_batch_selects_of_a_tensor_that_is_none():
    x = torch.arange(12.0).reshape(3, 4)
    with pytest.raises(RuntimeError, match="Attempting to batch over indexing with a boolean mask"):
        vmap(lambda m: x[:, m].sum(-1))(torch.eye(4) > 0)


def test_distances_and_norms_of_zeros_have_gradients():
    a = torch.zeros(2, 3, requires_grad=True)
    torch.cdist(a, torch.zeros(2, 3)).sum().backward()
    assert not a.grad.any()
    assert not grad(torch.linalg.norm)(torch.zeros(5, 5)).any()


def test_elements_that_were_overwritten_have_no_gradient():
    x = torch.tensor([0.0, 100.0], requires_grad=True)
    f = torch.log(torch.exp(x) + 1)
    f[:] = 0
    first, = torch.autograd.grad(f[0], x, allow_unused=True)
    assert first is None or not first[0]


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64])
def test_steps_of_whole_numbers(dtype):
    assert torch.linspace(1, 32, 10, dtype=dtype).tolist()[::9] == [1, 32]
    numpy.testing.assert_array_equal(torch.linspace(-2, 2, 9, dtype=dtype).numpy(), [-2, -1, -1, 0, 0, 0, 1, 1, 2])
    assert torch.linspace(23453245323, 23453245333, steps=5, dtype=torch.int64)[-1] == 23453245333


def test_the_ends_of_a_range_are_exact():
    for a, b, n in ((-0.031608279794, 0.031531572342, 257), (0.0, 8198.0, 4100), (4.3, 0.0, 50)):
        made = torch.linspace(a, b, n).numpy()
        assert made[0] == numpy.float32(a) and made[-1] == numpy.float32(b)
        numpy.testing.assert_allclose(made, numpy.linspace(a, b, n), rtol=3e-7, atol=3e-7)


def test_complex_numbers_of_any_size():
    x = numpy.array([1e-200 + 1e-200j, 1e150 + 1e150j, 1 + 1e-20j, 2 + 0j, -2 + 1e-300j])
    for name in ("arcsin", "arccos", "arccosh", "arctan", "log", "sqrt"):
        numpy.testing.assert_allclose(getattr(torch, name)(torch.from_numpy(x)).numpy(), getattr(numpy, name)(x), rtol=1e-13)


def test_counts_of_attention_without_keys_or_queries():
    q = torch.zeros(1, 1, 3, 8)
    assert F.scaled_dot_product_attention(q[:, :, :0], q, q).shape == (1, 1, 0, 8)
    assert F.scaled_dot_product_attention(q[:, :0], q[:, :0], q[:, :0]).shape == (1, 0, 3, 8)
    assert not F.scaled_dot_product_attention(q, q[:, :, :0], q[:, :, :0]).any()


def test_whole_numbers_beyond_float32_are_told_apart():
    near = torch.tensor([10 ** 16]), torch.tensor([10 ** 16 + 1])
    assert not torch.isclose(*near, rtol=0, atol=0).item() and not torch.allclose(*near, rtol=0, atol=0)
    assert torch.isclose(*near).item()
    near = torch.tensor([2 ** 24 + 1], dtype=torch.int32), torch.tensor([2 ** 24], dtype=torch.int32)
    assert not torch.isclose(*near, rtol=0, atol=0.5).item()
    assert torch.isclose(torch.tensor([INF, NAN]), torch.tensor([INF, NAN]), 0, 0, equal_nan=True).all()


@pytest.mark.parametrize("f, pole", [(torch.xlogy, 0.0), (torch.special.xlog1py, -1.0)])
def test_a_product_with_a_logarithm_is_constant_where_its_factor_is_zero(f, pole):
    """f(0, y) is 0 for every y, so that its derivative by y is 0; at the pole, too."""
    y = torch.tensor([pole, pole + 1, pole - 1], dtype=D, requires_grad=True)
    f(torch.zeros(3, dtype=D), y).sum().backward()
    assert y.grad.tolist() == [0, 0, 0]


def test_the_gradient_of_a_divergence_by_a_target_of_zero_is_no_nan():
    target = torch.tensor([[0.0, 1.0]], requires_grad=True)
    F.kl_div(torch.tensor([[0.5, 0.5]]).log(), target, reduction="sum").backward()
    assert target.grad.isfinite().all()
