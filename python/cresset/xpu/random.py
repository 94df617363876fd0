"""Generators of XPU devices."""
from .. import xpu as _xpu
from .._absent import RANDOM as __all__

globals().update({name: getattr(_xpu, name) for name in __all__})
