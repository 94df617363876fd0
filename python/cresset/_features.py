"""Answers about libraries and devices of other builds, and short names of settings."""
from . import _C
from ._C import Tensor

has_lapack = has_openmp = has_spectral = True  # factorizations, threads and FFTs are part of this build
has_mkl = False


def is_vulkan_available():
    return False


def is_distributed(input):
    """Whether a tensor is spread over processes: no tensor is."""
    return False


def cudnn_is_acceptable(tensor):
    """Whether cuDNN computes with a tensor."""
    return False


def init_num_threads():
    """Does nothing: threads start with the first parallel call."""


def set_anomaly_enabled(mode, check_nan=True):
    """Turns anomaly detection on or off (autograd.set_detect_anomaly)."""
    _C._set_anomaly_enabled(mode, check_nan)


def sym_constrain_range(size, *, min=None, max=None):
    """Raises unless min <= size <= max."""
    low, high = -2 ** 63 if min is None else min, 2 ** 63 - 1 if max is None else max
    if high < low:
        raise RuntimeError(f"Max must be greater than or equal to min. Got min={low} max={high}")
    if not low <= size <= high:
        raise RuntimeError(f"Invalid value range for {size} between [{low}, {high}].")


def sym_constrain_range_for_size(size, *, min=None, max=None):
    """As sym_constrain_range, for a size: not negative."""
    sym_constrain_range(size, min=0 if min is None else min, max=max)


def _shape_as_tensor(self):
    """Returns the sizes as an integer tensor."""
    return _C.tensor(list(self.shape))


def _assert_async(input, assert_msg=None):
    """Raises if the only element is zero."""
    if input.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous" if input.numel() else
                           "Boolean value of Tensor with no values is ambiguous")
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


class _Symbolic:
    """A value of a symbolic computation of torch, for annotations.  Sizes here are ints, and a number that
    varies in a recording is an int or float to programs."""

    def __init__(self, node):
        self.node = node


class SymInt(_Symbolic):
    pass


class SymFloat(_Symbolic):
    pass


class SymBool(_Symbolic):
    pass


for _class in (SymInt, SymFloat, SymBool):
    _class.__module__ = "torch"
