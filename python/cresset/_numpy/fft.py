"""numpy.fft as calls of operators."""
from .. import fft as torch_fft
from .. import _C
from .array import wrap
from .convert import InNumpy, axes_of
from .functions import FUNCTIONS, array_of, stored


def _prepared(a):
    """Returns the tensor in a dtype of transforms: integers are transformed as float64."""
    t = array_of(a)._t
    if t.dtype == _C.float16:
        raise InNumpy("halves")
    return t if t.is_floating_point() or t.is_complex() else t.to(_C.float64)


def _one(name):
    function = getattr(torch_fft, name)

    def transform(a, n=None, axis=-1, norm=None, out=None):
        return stored(wrap(function(_prepared(a), n, axis, norm)), out)
    FUNCTIONS[f"fft.{name}"] = transform


def _several(name, two):
    function = getattr(torch_fft, name)

    def transform(a, s=None, axes=(-2, -1) if two else None, norm=None, out=None):
        return stored(wrap(function(_prepared(a), s, axes, norm)), out)
    FUNCTIONS[f"fft.{name}"] = transform


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _one(_name)
for _name in ("fft2", "ifft2", "rfft2", "irfft2"):
    _several(_name, True)
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    _several(_name, False)


def _shift(name):
    function = getattr(torch_fft, name)
    FUNCTIONS[f"fft.{name}"] = lambda x, axes=None: wrap(function(array_of(x)._t, axes_of(axes, array_of(x).ndim)))


_shift("fftshift")
_shift("ifftshift")
