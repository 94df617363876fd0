"""Polynomials of torch.special have the bits of torch 2.13; K of small numbers."""
import hashlib

import cresset as torch
import numpy
import pytest
from scipy import special

NAMES = [f"{kind}_polynomial_{letter}" for kind, letters in (
    ("chebyshev", "tuvw"), ("shifted_chebyshev", "tuvw"), ("legendre", "p"), ("laguerre", "l"))
    for letter in letters] + ["hermite_polynomial_h", "hermite_polynomial_he"]
DIGESTS = {
    "chebyshev_polynomial_t float32": "2787ca28c870",
    "chebyshev_polynomial_t float64": "089b545c7aaf",
    "chebyshev_polynomial_u float32": "59487b4b318c",
    "chebyshev_polynomial_u float64": "9880ce5c7b4f",
    "chebyshev_polynomial_v float32": "06df8325ad50",
    "chebyshev_polynomial_v float64": "9966796aa288",
    "chebyshev_polynomial_w float32": "09a8376e6af2",
    "chebyshev_polynomial_w float64": "13d0ae95da1f",
    "shifted_chebyshev_polynomial_t float32": "89ef06049313",
    "shifted_chebyshev_polynomial_t float64": "6e9c60cd2d85",
    "shifted_chebyshev_polynomial_u float32": "06cb4f8bd7f9",
    "shifted_chebyshev_polynomial_u float64": "d87be9bc62cd",
    "shifted_chebyshev_polynomial_v float32": "af7f0929400a",
    "shifted_chebyshev_polynomial_v float64": "cd88d3ecee5d",
    "shifted_chebyshev_polynomial_w float32": "5138f6a1dd9a",
    "shifted_chebyshev_polynomial_w float64": "6ea6d9f2f361",
    "legendre_polynomial_p float32": "843a347fe648",
    "legendre_polynomial_p float64": "1253771a4929",
    "laguerre_polynomial_l float32": "5ea2fe6f6367",
    "laguerre_polynomial_l float64": "d47dabdd4161",
    "hermite_polynomial_h float32": "a3566cb3423f",
    "hermite_polynomial_h float64": "4f1de699ac33",
    "hermite_polynomial_he float32": "a19e134224b5",
    "hermite_polynomial_he float64": "6bfc298784ac",
}


def digest(torch, name, dtype):
    """The values on a grid of numbers, 1, 0 and -1 among them, and of degrees."""
    x = torch.from_numpy(numpy.concatenate([numpy.linspace(-1.5, 1.5, 61), [-1, 0, 0.5, 1]]).astype(dtype))
    values = getattr(torch.special, name)(x[:, None], torch.arange(-2, 24))
    return hashlib.sha256((values + 0).numpy().tobytes()).hexdigest()[:12]


def table(torch):
    return {f"{name} {dtype}": digest(torch, name, dtype) for name in NAMES for dtype in ("float32", "float64")}


def test_bits():
    assert table(torch) == DIGESTS


@pytest.mark.parametrize("name", NAMES)
def test_arguments(name):
    function = getattr(torch.special, name)
    assert function(torch.tensor([2, 3]), 2.9).tolist() == function(torch.tensor([2.0, 3.0]), 2).tolist()
    assert function(0.5, torch.tensor([3])).tolist() == function(torch.tensor([0.5]), 3).tolist()
    assert function(torch.tensor([0.5]), float("nan")).tolist() == [0.0]
    assert function(torch.tensor([0.5]), torch.tensor([-0.9, -1.0])).tolist() == [1.0, 0.0]
    assert function(torch.tensor([float("nan")]), 3).isnan().all()
    with pytest.raises(NotImplementedError, match=f'"{name}_cpu" not implemented for \'Half\''):
        function(torch.ones(1, dtype=torch.float16), 2)


def test_bessel_k_of_small_numbers():
    x = numpy.geomspace(1e-300, 1e-6, 400)
    for order, reference in enumerate((special.k0, special.k1)):
        for prefix, want in (("", reference(x)), ("scaled_", reference(x) * numpy.exp(x))):
            got = getattr(torch.special, f"{prefix}modified_bessel_k{order}")(torch.from_numpy(x)).numpy()
            assert (abs(got - want) / want).max() < 1e-14
