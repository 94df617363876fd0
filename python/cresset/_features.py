"""Answers about libraries and devices of other builds, and short names of settings."""
from enum import Enum
from math import inf

from . import _C
from ._C import Tensor
from ._sym_int import SymInt

has_lapack = has_openmp = has_spectral = True  # factorizations, threads and FFTs are part of this build
has_mkl = False


def is_vulkan_available():
    return False


def _is_functional_tensor(t):
    """Whether a tensor is a wrapper that makes writes pure: programs are made pure in graphs, not by wrappers."""
    return False


def is_distributed(input):
    """Whether a tensor is spread over processes: no tensor is."""
    return False


def cudnn_is_acceptable(tensor):
    """Whether cuDNN computes with a tensor: on CUDA, of a dtype that it has, with elements."""
    from . import bfloat16
    from .backends import cudnn
    return cudnn.is_acceptable(tensor if tensor.dtype != bfloat16 else tensor.half()) and tensor.numel() > 0


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


class SymFloat(_Symbolic):
    pass


class SymBool(_Symbolic):
    pass


for _class in (SymFloat, SymBool):
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


def slice_inverse(self, src, dim=0, start=None, end=None, step=1):
    """See Tensor.slice_inverse."""
    return self.slice_inverse(src, dim, start, end, step)


def sym_fresh_size(expr):
    """A new symbol for the value of a symbolic size; a number is returned unchanged."""
    return expr.node.fresh_size() if isinstance(expr, SymInt) else int(expr)


class LoggerBase:
    """Counters of events, by name."""

    def set(self):
        """Makes this logger the current one and returns the earlier one."""
        global _logger
        before, _logger = _logger, self
        return before


class LockingLogger(LoggerBase):
    """Adds up the values of each counter, or takes their mean; any thread may add."""

    def __init__(self):
        from threading import Lock
        self._lock, self._sums, self._kinds = Lock(), {}, {}

    def add_stat_value(self, name, value):
        """Adds a value to a counter."""
        with self._lock:
            total, count = self._sums.get(name, (0, 0))
            self._sums[name] = total + value, count + 1

    def get_counter_val(self, name):
        """The sum of a counter's values, or their mean; 0 without values."""
        with self._lock:
            total, count = self._sums.get(name, (0, 0))
            return total // count if count and self._kinds.get(name) is AVG else total

    def set_aggregation_type(self, name, kind):
        """Sets whether a counter is a sum (SUM) or a mean (AVG)."""
        with self._lock:
            self._kinds[name] = AggregationType(kind)


class NoopLogger(LoggerBase):
    """Ignores values."""

    def add_stat_value(self, name, value):
        """Does nothing."""

    def get_counter_val(self, name):
        """0."""
        return 0

    def set_aggregation_type(self, name, kind):
        """Does nothing."""


_logger = NoopLogger()


def batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts):
    """The mean and 1 / standard deviation of every channel over all processes, of those of each (a row), which had
    `counts` samples; updates the running statistics."""
    with _C.no_grad():
        weight = counts.to(mean.dtype).reshape(-1, 1)
        total = weight.sum()
        center = (weight * mean).sum(0) / total
        squares = (weight * (1 / invstd.square() - eps + (mean - center).square())).sum(0)
        if running_mean is not None:
            running_mean.lerp_(center.to(running_mean.dtype), momentum)
        if running_var is not None:
            running_var.lerp_((squares / (total - 1)).to(running_var.dtype), momentum)
        return center, (squares / total + eps).rsqrt()


def batch_norm_gather_stats(input, mean, invstd, running_mean, running_var, momentum, eps, count):
    """As batch_norm_gather_stats_with_counts, with the same count for each process."""
    return batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps,
                                               _C.full((mean.shape[0],), float(count)))


_LEAST_SCALE = 6.1e-5


def _quantization(low, high, quant_min, quant_max, symmetric):
    """(scale, zero point) with which the integers from quant_min to quant_max cover the numbers from low to high."""
    low, high = min(low, 0.0), max(high, 0.0)
    if symmetric and low < 0 < high:
        half = (quant_max - quant_min) // 2
        return max(-low / (half + 1), high / half, _LEAST_SCALE), round((quant_min + quant_max) / 2)
    scale = (high - low) / (quant_max - quant_min)
    scale = scale if scale > 0 else 0.1
    lower, upper = low / scale, high / scale  # of both ends, the nearer zero point
    zero = quant_min - lower if abs(quant_min) - abs(lower) < abs(quant_max) - abs(upper) else quant_max - upper
    return max(scale, _LEAST_SCALE), min(max(round(zero), quant_min), quant_max)


def fused_moving_avg_obs_fake_quant(self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point,
                                    averaging_const, quant_min, quant_max, ch_axis, per_row_fake_quant=False,
                                    symmetric_quant=False):
    """Updates averages of the least and the most element, and rounds self to the integers that cover them.

    The averages are of all elements, or with per_row_fake_quant of each index of dim ch_axis.
    """
    if observer_on.item():
        with _C.no_grad():
            rows = self.detach().movedim(ch_axis, 0).flatten(1) if per_row_fake_quant else self.detach().reshape(1, -1)
            for kept, found in ((running_min, rows.amin(1)), (running_max, rows.amax(1))):
                if kept.numel() == 0 or kept.numel() != found.numel():
                    kept.resize_(found.shape).fill_(inf if kept is running_min else -inf)
                found = found.reshape(kept.shape).to(kept.dtype)
                kept.copy_(_C.where(kept.isinf(), found, kept + averaging_const * (found - kept)))
            made = [_quantization(low, high, quant_min, quant_max, symmetric_quant)
                    for low, high in zip(running_min.reshape(-1).tolist(), running_max.reshape(-1).tolist())]
            scale.resize_(len(made)).copy_(_C.tensor([step for step, _ in made]))
            zero_point.resize_(len(made)).copy_(_C.tensor([zero for _, zero in made]))
    if not fake_quant_on.item():
        return self.alias() if hasattr(self, "alias") else self.view(self.shape)
    if per_row_fake_quant:
        return _C.fake_quantize_per_channel_affine(self, scale, zero_point, ch_axis, quant_min, quant_max)
    return _C.fake_quantize_per_tensor_affine(self, scale.item(), int(zero_point.item()), quant_min, quant_max)
