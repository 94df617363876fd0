"""The accelerator: the device that a backend registers (utils.load_backend), CUDA, or none."""
import warnings

from .. import _C
from ..utils import backend_registration as _backend
from .graphs import Graph

__all__ = ["is_available", "device_count", "current_accelerator", "current_device_index", "current_device_idx",
           "set_device_index", "set_device_idx", "current_stream", "set_stream", "synchronize", "device_index",
           "empty_cache", "empty_host_cache", "memory_stats", "memory_allocated", "max_memory_allocated", "memory_reserved",
           "max_memory_reserved", "reset_peak_memory_stats", "reset_accumulated_memory_stats", "get_memory_info",
           "get_device_capability", "Graph"]


def _cuda():
    """The module torch.cuda if CUDA is the accelerator, else None."""
    if _C._backend_count() or not _C._cuda_count():
        return None
    from .. import cuda
    return cuda


def device_count():
    """The number of devices; 0 without an accelerator."""
    return _C._backend_count() or _C._cuda_count()


def is_available():
    return device_count() > 0


def current_accelerator(check_available=False):
    """The accelerator as a torch.device without an index, or None."""
    if not is_available():
        return None
    return _C.device("cuda" if _cuda() else _C._get_privateuse1_backend_name())


def _current():
    """The index of the thread's device."""
    return _C._cuda_current() if _cuda() else _C._backend_current()


def _set_current(index):
    (_C._cuda_set_current if _cuda() else _C._backend_set_current)(index)


def _need():
    if not is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def _index(device):
    """The index of a torch.device, string, int, or None for the current device."""
    _need()
    if isinstance(device, int):
        return device
    device = _C.device(device) if isinstance(device, str) else device
    accelerator = current_accelerator()
    if device is not None and device.type != accelerator.type:
        raise ValueError(f"{device.type} doesn't match the current accelerator {accelerator}.")
    return _current() if device is None or device.index is None else device.index


def current_device_index():
    """The index of the thread's device."""
    return _index(None)


def set_device_index(device):
    """Makes a device the thread's."""
    _set_current(_index(device))


def current_device_idx():
    warnings.warn("Use `current_device_index` instead.", FutureWarning, stacklevel=2)
    return current_device_index()


def set_device_idx(device):
    warnings.warn("Use `set_device_index` instead.", FutureWarning, stacklevel=2)
    set_device_index(device)


def current_stream(device=None):
    """The thread's stream of a device."""
    cuda = _cuda()
    return cuda.current_stream(_index(device)) if cuda else _backend.Stream._current(_index(device))


def set_stream(stream):
    """Makes a stream the thread's stream of its device."""
    _need()
    stream._make_current()


def synchronize(device=None):
    """Waits until all work of a device is done."""
    (_C._cuda_synchronize if _cuda() else _C._backend_synchronize)(_index(device))


def empty_cache():
    """Returns cached memory to the driver.  Devices of backends have no cache."""
    _need()
    if _cuda():
        _cuda().empty_cache()


def empty_host_cache():
    """Does nothing: page-locked memory of the host is not cached."""
    _need()


def memory_stats(device_index=None, /):
    """The counters of the device's allocator by name; devices of backends have none."""
    from collections import OrderedDict
    index = _index(device_index)
    return _cuda().memory_stats(index) if _cuda() else OrderedDict()


def memory_allocated(device_index=None, /):
    """Bytes of tensors on the device."""
    return memory_stats(device_index).get("allocated_bytes.all.current", 0)


def max_memory_allocated(device_index=None, /):
    """The most bytes that tensors on the device had."""
    return memory_stats(device_index).get("allocated_bytes.all.peak", 0)


def memory_reserved(device_index=None, /):
    """Bytes that the allocator has from the driver."""
    return memory_stats(device_index).get("reserved_bytes.all.current", 0)


def max_memory_reserved(device_index=None, /):
    """The most bytes that the allocator had from the driver."""
    return memory_stats(device_index).get("reserved_bytes.all.peak", 0)


def reset_peak_memory_stats(device_index=None, /):
    """Sets the peaks to the present numbers."""
    index = _index(device_index)
    if _cuda():
        _cuda().reset_peak_memory_stats(index)


def reset_accumulated_memory_stats(device_index=None, /):
    """Sets the sums to 0."""
    index = _index(device_index)
    if _cuda():
        _cuda().reset_accumulated_memory_stats(index)


def get_memory_info(device_index=None, /):
    """(free, total) bytes of the device."""
    index = _index(device_index)
    if not _cuda():
        raise RuntimeError(f"devices of {current_accelerator().type} do not tell their memory")
    return _cuda().mem_get_info(index)


def get_device_capability(device=None, /):
    """What the device computes with: {"supported_dtypes": a set}."""
    _index(device)
    return {"supported_dtypes": {getattr(_C, name) for name in (
        "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")}}


class device_index:
    """`with device_index(1):` makes a device the thread's; None changes nothing."""

    def __init__(self, device):
        self.index = device

    def __enter__(self):
        if self.index is not None:
            self.before = current_device_index()
            _set_current(self.index)

    def __exit__(self, *exception):
        if self.index is not None:
            _set_current(self.before)
        return False


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
