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
    x = numpy.concatenate([numpy.linspace(-30, 20, 101), [numpy.inf, -numpy.inf, numpy.nan]])
    want = special.airy(numpy.where(numpy.isinf(x), 0, x))[0]
    want[numpy.isinf(x)] = 0
    numpy.testing.assert_allclose(torch.special.airy_ai(torch.from_numpy(x)).numpy(), want, rtol=1e-9, atol=1e-11)
