"""Window functions.

A window has M values at equal distances.  With `sym` it is symmetric; without, it is one period of
a periodic window.
"""
import math

from ... import _C

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
           "general_hamming", "hamming", "hann", "kaiser", "nuttall"]


def _window(function, M, sym, dtype, layout, device, requires_grad, values):
    """Checks the arguments.  If M > 1, the window is `values(n, last)` at the places n; it ends at `last`."""
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if M < 0:
        raise ValueError(f"{function} requires non-negative window length, got M={M}")
    if layout is not _C.strided:
        raise ValueError(f"{function} is implemented for strided tensors only, got: {layout}")
    if dtype not in (_C.float32, _C.float64):
        raise ValueError(f"{function} expects float32 or float64 dtypes, got: {dtype}")
    if M < 2:
        return _C.ones((M,), dtype=dtype, device=device, requires_grad=requires_grad)
    n = _C.arange(M, dtype=dtype, device=device)
    return values(n, M - 1 if sym else M).requires_grad_(requires_grad)


def bartlett(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """A triangle that is 0 at its ends."""
    return _window("bartlett", M, sym, dtype, layout, device, requires_grad,
                   lambda n, last: 1 - (n * (2 / last) - 1).abs())


def cosine(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """Half a period of the sine, sampled at the midpoints of equal parts."""
    return _window("cosine", M, sym, dtype, layout, device, requires_grad,
                   lambda n, last: ((n + 0.5) * (math.pi / (last + 1))).sin())


def exponential(M, *, center=None, tau=1.0, sym=True, dtype=None, layout=_C.strided, device=None,
                requires_grad=False):
    """exp(-abs(n - center) / tau)"""
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    return _window("exponential", M, sym, dtype, layout, device, requires_grad, lambda n, last: (
        -(n - (last / 2 if center is None else center)).abs() / tau).exp())


def gaussian(M, *, std=1.0, sym=True, dtype=None, layout=_C.strided, device=None,
             requires_grad=False):
    """A Gaussian of standard deviation `std` that is 1 at its mean."""
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    return _window("gaussian", M, sym, dtype, layout, device, requires_grad,
                   lambda n, last: (-0.5 * ((n - last / 2) / std) ** 2).exp())


def kaiser(M, *, beta=12.0, sym=True, dtype=None, layout=_C.strided, device=None,
           requires_grad=False):
    """Kaiser's window, which approximates the window with the most concentrated spectrum."""
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def values(n, last):
        inner = (1 - (n * (2 / last) - 1) ** 2).clamp(min=0).sqrt()
        return _C.i0(beta * inner) / _C.i0(_C.tensor(beta, dtype=n.dtype, device=n.device))
    return _window("kaiser", M, sym, dtype, layout, device, requires_grad, values)


def general_cosine(M, *, a, sym=True, dtype=None, layout=_C.strided, device=None,
                   requires_grad=False):
    """The sum of a[i] * (-1)**i * cos(2 pi i n / last)."""
    if not isinstance(a, (list, tuple)):
        raise TypeError("Coefficients must be a list/tuple")
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _window("general_cosine", M, sym, dtype, layout, device, requires_grad, lambda n, last: sum(
        (-1) ** i * factor * (n * (2 * math.pi * i / last)).cos() for i, factor in enumerate(a)))


def general_hamming(M, *, alpha=0.54, sym=True, dtype=None, layout=_C.strided, device=None,
                    requires_grad=False):
    """alpha - (1 - alpha) * cos(2 pi n / last)"""
    return general_cosine(M, a=[alpha, 1 - alpha], sym=sym, dtype=dtype, layout=layout,
                          device=device, requires_grad=requires_grad)


def hamming(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """Hamming's window: 0.08 at its ends."""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device,
                           requires_grad=requires_grad)


def hann(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """Hann's window: a raised cosine that is 0 at its ends."""
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device,
                           requires_grad=requires_grad)


def blackman(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """Blackman's window of three cosines."""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout,
                          device=device, requires_grad=requires_grad)


def nuttall(M, *, sym=True, dtype=None, layout=_C.strided, device=None, requires_grad=False):
    """Nuttall's window of four cosines."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype,
                          layout=layout, device=device, requires_grad=requires_grad)
