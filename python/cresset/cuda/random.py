"""Generators of CUDA devices."""
from .. import cuda as _cuda
from .._absent import RANDOM as __all__

globals().update({name: getattr(_cuda, name) for name in __all__})
