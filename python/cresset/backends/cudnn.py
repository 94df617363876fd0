"""cuDNN.  The switches store the values that programs set, and allow_tf32 acts: from the moment that a program
sets it to True, convolutions of float32 on CUDA round their operands to TF32.  Until then they are exact, although
the switch has torch's default."""
import sys
from contextlib import contextmanager
from types import ModuleType

from .. import _C

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False
allow_tf32 = True
_rounds = False  # whether convolutions round to TF32 now


def is_available():
    """Whether there is a CUDA device, and cuDNN is found."""
    return version() is not None


def version():
    """The version of cuDNN, such as 91002; None without it or without a device."""
    return _C._cuda_cudnn_version()


def is_acceptable(tensor):
    """Returns whether cuDNN would compute with the tensor: it is enabled and found, and has the tensor's dtype."""
    from .. import double, float, half
    return bool(enabled and tensor.is_cuda and tensor.dtype in (half, float, double) and is_available())


def set_flags(_enabled=None, _benchmark=None, _benchmark_limit=None, _deterministic=None,
              _allow_tf32=None):
    """Sets the given values and returns the earlier ones."""
    given = {"enabled": _enabled, "benchmark": _benchmark, "benchmark_limit": _benchmark_limit,
             "deterministic": _deterministic, "allow_tf32": _allow_tf32}
    before = tuple(globals()[name] for name in given)
    for name, value in given.items():
        if value is not None and value is not globals()[name]:
            setattr(sys.modules[__name__], name, value)
    return before


@contextmanager
def flags(enabled=False, benchmark=False, benchmark_limit=10, deterministic=False,
          allow_tf32=True):
    """Sets the switches inside."""
    rounds = _rounds
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)
        _round(rounds)


def _round(on):
    global _rounds
    _C._cuda_allow_conv_tf32(on)
    _rounds = bool(on)


class _Switches(ModuleType):
    def __setattr__(self, name, value):
        if name == "allow_tf32":
            _round(value)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Switches


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
