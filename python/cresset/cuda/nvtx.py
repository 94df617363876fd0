"""Marks for NVIDIA's profiler, which need NVTX."""
import contextlib

from .._absent import refusal

__all__ = ["range_push", "range_pop", "range_start", "range_end", "mark", "range"]

range_push = range_pop = range_start = range_end = mark = refusal(
    RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?"))


@contextlib.contextmanager
def range(msg, *args, **kwargs):
    """Marks the time of a `with` block."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
