"""Derivatives of drawn gamma and Dirichlet numbers, beside numerical ones.

A number x drawn for a parameter a keeps its cumulative probability F(x; a) when a changes, so
dx/da = -(dF/da) / (dF/dx).  The kernels use expansions with errors of about 1e-3."""
import math

import numpy
import pytest

import cresset as torch


def gamma_slope(alpha, x):
    """-(dF/da) / (dF/dx) with a central difference of the incomplete gamma function."""
    h = 1e-5 * alpha
    low, high = (torch.special.gammainc(torch.tensor(a, dtype=torch.float64),
                                        torch.tensor(x, dtype=torch.float64)).item()
                 for a in (alpha - h, alpha + h))
    density = math.exp((alpha - 1) * math.log(x) - x - math.lgamma(alpha))
    return -(high - low) / (2 * h) / density


def beta_cdf(a, b, x):
    """Simpson's rule over u, where u^4 runs from 0 to x: the integrand is smooth at 0."""
    u = numpy.linspace(0, x ** 0.25, 20001)
    density = 4 * u ** (4 * a - 1) * (1 - u ** 4) ** (b - 1)
    weights = numpy.full(u.size, 2.0)
    weights[1::2], weights[[0, -1]] = 4, 1
    norm = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return float((density * weights).sum()) * (u[1] - u[0]) / 3 * math.exp(norm)


def beta_slope(a, b, x):
    h = 1e-4 * a
    density = math.exp((a - 1) * math.log(x) + (b - 1) * math.log1p(-x)
                       + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b))
    return -(beta_cdf(a + h, b, x) - beta_cdf(a - h, b, x)) / (2 * h) / density


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5, 7.0, 20.0, 300.0])
@pytest.mark.parametrize("share", [0.2, 0.7, 0.97, 1.05, 1.4, 2.5])
def test_gamma_numbers_follow_their_shape(alpha, share):
    x = alpha * share
    got = torch._standard_gamma_grad(torch.tensor(alpha, dtype=torch.float64),
                                     torch.tensor(x, dtype=torch.float64)).item()
    want = gamma_slope(alpha, x)
    if abs(share - 1) * math.sqrt(alpha) < 5:  # farther out the difference loses its digits
        assert got == pytest.approx(want, rel=2e-3)
    assert got > 0


@pytest.mark.parametrize("a", [1.2, 3.0, 8.0, 30.0])
@pytest.mark.parametrize("b", [1.5, 4.0, 9.0, 40.0])
@pytest.mark.parametrize("share", [0.5, 0.99, 1.3])
def test_dirichlet_numbers_follow_their_concentration(a, b, share):
    x = min(share * a / (a + b), 0.95)
    got = torch._dirichlet_grad(*(torch.tensor(v, dtype=torch.float64) for v in (x, a, a + b)))
    assert got.item() * (1 - x) == pytest.approx(beta_slope(a, b, x), rel=1e-2)


def test_the_derivative_of_a_gamma_number_reaches_its_shape():
    torch.manual_seed(0)
    alpha = torch.tensor([0.5, 2.0, 30.0], dtype=torch.float64, requires_grad=True)
    x = torch._standard_gamma(alpha)
    (x * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    want = [w * gamma_slope(a, v) for w, a, v in zip((1, 2, 3), alpha.tolist(), x.tolist())]
    assert alpha.grad.tolist() == pytest.approx(want, rel=2e-3)
    assert x.grad_fn.name() == "StandardGammaBackward0"


@pytest.mark.parametrize("draw, error, text", [
    (lambda: torch._standard_gamma(torch.tensor([1])), NotImplementedError, "\"gamma_cpu\" not implemented for 'Long'"),
    (lambda: torch._sample_dirichlet(torch.ones(3).half()), NotImplementedError, "\"dirichlet\" not implemented for 'Half'"),
    (lambda: torch.binomial(torch.tensor([2]), torch.tensor([0.5])), ValueError,
     "binomial only supports floating-point dtypes for count, got: Long"),
    (lambda: torch.binomial(torch.tensor([2.0]), torch.tensor([0.5]).double()), RuntimeError,
     "Found dtype Double but expected Float"),
    (lambda: torch._sample_dirichlet(torch.ones(3, requires_grad=True)).sum().backward(), RuntimeError,
     "derivative for aten::_sample_dirichlet is not implemented"),
])
def test_errors_have_torchs_words(draw, error, text):
    with pytest.raises(error) as info:
        draw()
    assert str(info.value) == text
