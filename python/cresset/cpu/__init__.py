"""The CPU by the names that devices have."""
from contextlib import nullcontext as _nullcontext

from . import amp

__all__ = ["is_available", "is_initialized", "synchronize", "current_device", "set_device",
           "device_count", "Stream", "current_stream", "stream"]


class Stream:
    """Work on the CPU is done when a call returns, so a stream has nothing to order."""

    def __init__(self, priority=-1):
        self.priority = priority

    def wait_stream(self, stream):
        """Returns at once."""


_current = Stream()


def is_available():
    return True


def is_initialized():
    return True


def synchronize(device=None):
    """Returns at once."""


def current_device():
    return "cpu"


def set_device(device):
    """There is one CPU."""


def device_count():
    return 1


def current_stream(device=None):
    return _current


def stream(stream):
    """A context manager inside which `stream` is the current one."""
    return _nullcontext(stream)
