"""Marks for NVIDIA's profiler, by the library libnvToolsExt where it is found."""
import contextlib
import ctypes
import functools

__all__ = ["range_push", "range_pop", "range_start", "range_end", "mark", "range"]


@functools.cache
def _library():
    for name in ("libnvToolsExt.so.1", "libnvToolsExt.so"):
        with contextlib.suppress(OSError):
            found = ctypes.CDLL(name)
            found.nvtxRangeStartA.restype = ctypes.c_uint64
            found.nvtxRangeEnd.argtypes = [ctypes.c_uint64]
            return found
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


def range_push(msg):
    """Begins a range inside the current one; returns its depth."""
    return _library().nvtxRangePushA(msg.encode())


def range_pop():
    """Ends the innermost range; returns its depth."""
    return _library().nvtxRangePop()


def range_start(msg):
    """Begins a range that range_end ends; returns its number."""
    return _library().nvtxRangeStartA(msg.encode())


def range_end(range_id):
    """Ends a range of range_start."""
    return _library().nvtxRangeEnd(range_id)


def mark(msg):
    """Marks a moment."""
    return _library().nvtxMarkA(msg.encode())


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """Marks the time of a `with` block."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
