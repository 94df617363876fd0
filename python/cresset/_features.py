"""Answers about libraries and devices of other builds, and short names of settings."""
from enum import Enum

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


def _device_autocast(kind, dtype):
    """is, set, get and set functions of autocast on a device that this build lacks; they store what is set."""
    state = {"enabled": False, "dtype": dtype}

    def is_enabled():
        return state["enabled"]

    def set_enabled(enabled):
        state["enabled"] = bool(enabled)

    def get_dtype():
        return state["dtype"]

    def set_dtype(dtype):
        state["dtype"] = dtype
    return {f"is_autocast_{kind}_enabled": is_enabled, f"set_autocast_{kind}_enabled": set_enabled,
            f"get_autocast_{kind}_dtype": get_dtype, f"set_autocast_{kind}_dtype": set_dtype}


globals().update(_device_autocast("xla", _C.bfloat16))
globals().update(_device_autocast("ipu", _C.float16))


class AggregationType(Enum):
    """How counters of torch.monitor are combined."""

    SUM = 0
    AVG = 1


SUM, AVG = AggregationType.SUM, AggregationType.AVG


class FatalError(RuntimeError):
    """An error after which a process must not go on."""


def embedding_renorm_(self, indices, max_norm, norm_type):
    """Scales the rows that the indices name to a norm of at most max_norm, in place."""
    if indices.dtype not in (_C.int32, _C.int64):
        raise RuntimeError(f"Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; but got {indices.type()} instead (while checking arguments for embedding_renorm_)")
    rows = indices.reshape(-1).unique()
    with _C.no_grad():
        if rows.numel():
            self.index_copy_(0, rows, _C.renorm(self.index_select(0, rows), norm_type, 0, max_norm))
    return self
