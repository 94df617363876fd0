"""torch.cuda.  Without a device, queries return that there is none, and other calls raise.  With a device, the
names of `_device` replace these functions."""
import enum

from .. import _C, _absent

_ERROR = AssertionError("Torch not compiled with CUDA enabled")
_refuse = _absent.refusal(_ERROR)

globals().update(_absent.queries())
globals().update(_absent.parts("torch.cuda", "CUDA", _ERROR))
globals().update(_absent.legacy_types("torch.cuda", "CUDA"))

memory_cached, max_memory_cached = memory_reserved, max_memory_reserved
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
current_blas_handle = cudart = _refuse
has_magma, has_half = False, True
OutOfMemoryError = _C.OutOfMemoryError


class Stream(Stream):
    """The class of streams; it has no instances here."""

    def __new__(cls, device=None, priority=0, **kwargs):
        raise RuntimeError("torch.cuda.Stream requires CUDA support")


class ExternalStream(Stream):
    """A stream that another library made."""


class CudaError(RuntimeError):
    """An error of the CUDA runtime."""

    def __init__(self, code):
        super().__init__(f"CUDA error {code}")


class DeferredCudaCallError(Exception):
    """An error of a call that waited for the first use of CUDA."""


class cudaStatus(enum.IntEnum):
    """Results of the CUDA runtime."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


def _lazy_init():
    """Makes the context of the current device; raises where there is none."""
    if not _C._cuda_count():
        raise _ERROR
    _C._cuda_set_current(_C._cuda_current())


def init():
    """Makes the context of the current device; raises where there is none."""
    _lazy_init()


def _of_device(name):
    """A function of `_device` for builds without a device, whose error it raises first."""
    def call(*args, **kwargs):
        _lazy_init()
        from . import _device
        return getattr(_device, name)(*args, **kwargs)
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"torch.cuda.{name} of a device; raises where there is none."
    return call


globals().update({_name: _of_device(_name) for _name in (
    "current_device", "set_device", "synchronize", "get_device_name", "get_device_properties", "get_device_capability",
    "mem_get_info", "current_stream", "default_stream", "set_stream", "get_stream_from_external", "get_rng_state",
    "initial_seed", "can_device_access_peer", "set_per_process_memory_fraction", "get_per_process_memory_fraction",
    "ipc_collect", "utilization", "memory_usage", "temperature", "power_draw", "clock_rate", "device_memory_used",
    "memory_snapshot", "caching_allocator_alloc", "caching_allocator_delete")})

if _C._cuda_count():
    from . import _device
    globals().update({name: value for name, value in vars(_device).items()
                      if getattr(value, "__module__", None) == _device.__name__})
    del cudart, current_blas_handle

for _name in ("Stream", "ExternalStream", "CudaError", "DeferredCudaCallError", "cudaStatus"):
    globals()[_name].__module__ = "torch.cuda"

from .graphs import (CUDAGraph, MemPool, graph, graph_pool_handle, is_current_stream_capturing, make_graphed_callables,
                     use_mem_pool)


_sync_debug = 0


def set_sync_debug_mode(debug_mode):
    """Says whether copies to the host, for which it waits, are reported: 0 "default", 1 "warn", 2 "error"."""
    global _sync_debug
    _lazy_init()
    modes = {"default": 0, "warn": 1, "error": 2}
    if isinstance(debug_mode, str):
        if debug_mode not in modes:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = modes[debug_mode]
    if debug_mode not in (0, 1, 2):
        raise RuntimeError("invalid value of debug_mode, expected 0, 1, or 2")
    _C._cuda_report_waits(debug_mode)
    _sync_debug = debug_mode


def get_sync_debug_mode():
    """The mode that set_sync_debug_mode set."""
    _lazy_init()
    return _sync_debug


def get_allocator_backend():
    """The allocator of device memory: the one of this library."""
    return "native"


def check_error(res):
    """Raises for a result of the CUDA runtime that is an error."""
    if res != cudaStatus.SUCCESS:
        raise CudaError(res)


def memory_summary(device=None, abbreviated=False):
    """A table of the allocator's counters."""
    stats, lines = memory_stats(device), [f"{'counter':44} {'current':>14} {'peak':>14} {'allocated':>14} {'freed':>14}"]
    names = sorted({name.rpartition(".")[0] for name in stats if name.endswith(".current")})
    for name in names if not abbreviated else [n for n in names if n.endswith(".all")]:
        lines.append(f"{name:44}" + "".join(f" {stats[f'{name}.{field}']:14}" for field in ("current", "peak", "allocated", "freed")))
    return "\n".join(lines)


def host_memory_stats():
    """Counters of page-locked memory: it is not cached, so there are none."""
    from collections import OrderedDict
    return OrderedDict()


def host_memory_stats_as_nested_dict():
    return {}


def reset_accumulated_host_memory_stats():
    """Page-locked memory has no counters to reset."""
    host_memory_stats().clear()


reset_peak_host_memory_stats = reset_accumulated_host_memory_stats


def _storages():
    """{name: class} of storages whose elements are on a device."""
    from ..storage import device_storage_classes
    return device_storage_classes("cuda")


def list_gpu_processes(device=None):
    return "pynvml module not found, please install nvidia-ml-py"


__all__ = sorted([name for name in globals()
                  if name[0] != "_" and name not in ("enum", "annotations")] + ["CUDAPluggableAllocator"])
_MODULES = ("amp", "comm", "graphs", "memory", "nvtx", "profiler", "random", "sparse", "streams")


def __getattr__(name):
    from importlib import import_module
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name == "CUDAPluggableAllocator":
        return import_module(f"{__name__}.memory").CUDAPluggableAllocator
    if name.endswith("Storage"):
        found = _storages()
        if name in found:
            globals().update(found)
            return found[name]
    from .._absent_names import missing
    raise missing(__name__, name)
