"""Fourier transforms: the entries whose names begin with fft_."""
from . import _C
from ._C import Tensor

_PREFIX = "fft_"
__all__ = [n[len(_PREFIX):] for n in dir(_C.ops)
                             if n.startswith(_PREFIX) and not n.endswith("_")]
for _name in __all__:
    globals()[_name] = getattr(_C.ops, _PREFIX + _name)
