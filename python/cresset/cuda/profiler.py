"""NVIDIA's profiler, which needs CUDA."""
import contextlib

from . import _refuse

__all__ = ["start", "stop", "profile"]

start = stop = _refuse


@contextlib.contextmanager
def profile():
    """Profiles the work inside a `with` block."""
    start()
    try:
        yield
    finally:
        stop()
