"""torch.cpu: the CPU with the functions that devices have."""
from contextlib import nullcontext as _nullcontext

from . import amp

__all__ = ["is_available", "is_initialized", "synchronize", "current_device", "set_device",
           "device_count", "Stream", "current_stream", "stream"]


class Stream:
    """A stream.  CPU work is complete when a call returns, so streams order nothing."""

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
