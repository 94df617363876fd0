"""Orthogonal polynomials, modified Bessel functions and Airy's function beside SciPy's."""
import numpy
import pytest
from scipy import special

import cresset as torch

X = numpy.concatenate([numpy.linspace(-1.2, 1.2, 25), [-1, 0, 0.5, 1]])
DEGREES = (0, 1, 2, 3, 7, 12)
POLYNOMIALS = {
    "chebyshev_polynomial_t": special.eval_chebyt,
    "chebyshev_polynomial_u": special.eval_chebyu,
    "chebyshev_polynomial_v": lambda n, x: special.eval_chebyu(n, x) - special.eval_chebyu(n - 1, x) if n else 0 * x + 1,
    "chebyshev_polynomial_w": lambda n, x: special.eval_chebyu(n, x) + special.eval_chebyu(n - 1, x) if n else 0 * x + 1,
    "shifted_chebyshev_polynomial_t": special.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": special.eval_sh_chebyu,
    "hermite_polynomial_h": special.eval_hermite,
    "hermite_polynomial_he": special.eval_hermitenorm,
    "laguerre_polynomial_l": special.eval_laguerre,
    "legendre_polynomial_p": special.eval_legendre,
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name):
    f, x = getattr(torch.special, name), torch.from_numpy(X)
    for n in DEGREES:
        want = POLYNOMIALS[name](n, X)
        numpy.testing.assert_allclose(f(x, n).numpy(), want, rtol=1e-9, atol=1e-9)
        numpy.testing.assert_allclose(f(x.float(), n).numpy(), want, rtol=2e-3, atol=2e-3)
    degrees = torch.tensor(DEGREES)
    grid = f(x.unsqueeze(1), degrees)
    assert grid.shape == (len(X), len(DEGREES)) and grid.dtype == torch.float64
    numpy.testing.assert_array_equal(grid[:, 3].numpy(), f(x, 3).numpy())
    assert f(x, -1).abs().sum() == 0 and f(0.5, degrees).dtype == torch.float32


@pytest.mark.parametrize("name", ["v", "w"])
def test_shifted_polynomials_are_those_of_2x_minus_1(name):
    x = torch.linspace(0.05, 0.95, 9, dtype=torch.float64)
    shifted = getattr(torch.special, "shifted_chebyshev_polynomial_" + name)
    plain = getattr(torch.special, "chebyshev_polynomial_" + name)
    for n in DEGREES:
        numpy.testing.assert_allclose(shifted(x, n).numpy(), plain(2 * x - 1, n).numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name, reference", [
    ("modified_bessel_k0", special.k0), ("modified_bessel_k1", special.k1), ("modified_bessel_i0", special.i0),
    ("modified_bessel_i1", special.i1), ("scaled_modified_bessel_k0", special.k0e),
    ("scaled_modified_bessel_k1", special.k1e)])
def test_modified_bessel_functions(name, reference):
    x = numpy.concatenate([numpy.logspace(-12, 2.5, 60), [0.0]])
    f = getattr(torch.special, name)
    with numpy.errstate(all="ignore"):
        numpy.testing.assert_allclose(f(torch.from_numpy(x)).numpy(), reference(x), rtol=1e-12)
    if "_k" in name:
        assert torch.isnan(f(torch.tensor([-1.0, float("nan")]))).all()
        assert f(torch.tensor([[4.0], [1.0]]).t()).shape == (1, 2)


def test_airy():
    """Below -2.09 torch's fractions have errors of up to 3e-6."""
    x = numpy.concatenate([numpy.linspace(-2, 20, 45), [numpy.nan]])
    got = torch.special.airy_ai(torch.from_numpy(x)).numpy()
    numpy.testing.assert_allclose(got, special.airy(x)[0], rtol=1e-9, atol=1e-11)
    x = numpy.linspace(-30, -2.1, 60)
    numpy.testing.assert_allclose(torch.special.airy_ai(torch.from_numpy(x)).numpy(), special.airy(x)[0], atol=4e-6)


@pytest.mark.parametrize("name, want", [
    ("bessel_j0", [0.26633966007879234, -0.17759678121123898, 0.8812008886074052, -0.17759678121123898,
                   -0.1443350727384758, -0.06525324620975134, 0.007366890584236952, numpy.nan, numpy.nan, 1]),
    ("bessel_j1", [-0.1352484382588624, 0.3275791437359959, 0.3289957415400589, -0.3275791437359959,
                   -0.3370975152766687, 0.2559023710643259, 0.126038318037585, numpy.nan, numpy.nan, 0]),
    ("bessel_y0", [numpy.nan, numpy.nan, -0.1906649293373951, -0.3085176376345636, -0.3216023122791303,
                   0.2591557618927876, 0.12593641705826097, numpy.nan, numpy.nan, -numpy.inf]),
    ("bessel_y1", [numpy.nan, numpy.nan, -1.1032498719076336, 0.14786315225770025, 0.11373569645643754,
                   0.07986939881772254, -0.005793505821549509, numpy.nan, numpy.nan, -numpy.inf])])
def test_bessel_functions_are_those_of_torch(name, want):
    """They differ from the exact values by 3e-7 near 5."""
    x = torch.tensor([-7.5, -5, 0.7, 5, 5.1, 8.9, 40, numpy.inf, -numpy.inf, 0], dtype=torch.float64)
    numpy.testing.assert_allclose(getattr(torch.special, name)(x).numpy(), want, rtol=1e-13)


def test_airy_is_that_of_torch():
    x = torch.tensor([-40, -3, -2.1, -2, 7, numpy.inf, -numpy.inf], dtype=torch.float64)
    want = [-0.04593392343795248, -0.3788142883304339, 0.16348733360139633, 0.22740742820168564, 7.492128863997157e-07,
            numpy.nan, numpy.nan]
    numpy.testing.assert_allclose(torch.special.airy_ai(x).numpy(), want, rtol=1e-12)


def test_trigamma_of_float32_is_that_of_torch():
    x = torch.tensor([-7.950586795806885, -0.3, -1.49, 3.3])
    want = numpy.float32([412.7525939941406, 13.945158958435059, 9.386622428894043, 0.3535015285015106])
    numpy.testing.assert_allclose(torch.polygamma(1, x).numpy(), want, rtol=3e-7)


def test_logaddexp_of_complex_numbers():
    inf = float("inf")
    a = torch.tensor([1 + 2j, 3 - 1j, complex(inf, 1), complex(-inf, 1)], dtype=torch.complex128)
    b = torch.tensor([2 + 0j, complex(-inf, 1), complex(inf, 0), complex(-inf, 0)], dtype=torch.complex128)
    got = torch.logaddexp(a, b)
    want = numpy.array([1.906323790550232 + 0.37617138028144836j, 3 - 1j, complex(inf, numpy.pi / 4), complex(-inf, 0)])
    numpy.testing.assert_allclose(got.real.numpy(), want.real, rtol=1e-7)
    numpy.testing.assert_allclose(got.imag.numpy(), want.imag, rtol=1e-7)
    x, y = a[:1].requires_grad_(), b[:1].requires_grad_()
    assert torch.autograd.gradcheck(torch.logaddexp, (x, y))
    assert type(torch.logaddexp(x, y).grad_fn).__name__ == "LogaddexpBackward0"


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32, torch.float64))
def test_polygamma_has_poles_at_integers(dtype):
    poles = torch.tensor([0.0, -0.0, -1.0, -2.0, -37.0], dtype=dtype)
    for n in range(1, 6):
        assert torch.polygamma(n, poles).tolist() == [numpy.inf if n % 2 else -numpy.inf] * 5
    for n in range(1, 4):
        assert torch.polygamma(n, torch.tensor(numpy.inf, dtype=dtype)) == 0


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32, torch.float64))
def test_trigamma_has_no_limit_at_minus_infinity(dtype):
    x = torch.tensor([-numpy.inf] * 9, dtype=dtype, requires_grad=dtype.itemsize > 2)
    assert torch.polygamma(1, x).isnan().all()
    assert torch.polygamma(1, x[0]).isnan()
    assert torch.special.polygamma(1, x).isnan().all()
    if x.requires_grad:
        torch.digamma(x).sum().backward()
        assert x.grad.isnan().all()


@pytest.mark.parametrize("name", ["modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bessel_functions_of_the_second_kind_end_at_zero(name, dtype):
    x = torch.tensor([float("inf"), 0.0, -1.0], dtype=dtype)
    assert str(getattr(torch.special, name)(x).tolist()) == "[0.0, inf, nan]"
