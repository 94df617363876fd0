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
default_stream = ipc_collect = current_blas_handle = cudart = _refuse
get_sync_debug_mode = set_sync_debug_mode = get_stream_from_external = _refuse
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


class CUDAGraph:
    """The class of recorded graphs; it has no instances here."""

    def __new__(cls, *args, **kwargs):
        raise RuntimeError("Tried to instantiate dummy base class CUDAGraph")


class graph:
    """Records the work inside a `with` block into a graph."""

    def __init__(self, cuda_graph, pool=None, stream=None, capture_error_mode="thread_local",
                 enable_annotations=None):
        self.cuda_graph = cuda_graph
        self.pool = pool
        self.capture_error_mode = capture_error_mode

    def __enter__(self):
        raise _ERROR

    def __exit__(self, *exception):
        pass


if _C._cuda_count():
    from . import _device
    globals().update({name: value for name, value in vars(_device).items()
                      if getattr(value, "__module__", None) == _device.__name__})
    del cudart, current_blas_handle, get_sync_debug_mode, set_sync_debug_mode

for _name in ("Stream", "ExternalStream", "CudaError", "DeferredCudaCallError", "cudaStatus",
              "CUDAGraph", "graph"):
    globals()[_name].__module__ = "torch.cuda"


def list_gpu_processes(device=None):
    return "pynvml module not found, please install nvidia-ml-py"


__all__ = sorted(name for name in globals()
                 if name[0] != "_" and name not in ("enum", "annotations"))
_MODULES = ("amp", "graphs", "memory", "nvtx", "profiler", "random", "sparse", "streams")


def __getattr__(name):
    from importlib import import_module
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
