"""torch.cpu: the CPU with the functions that devices have."""
from . import amp

__all__ = ["is_available", "is_initialized", "synchronize", "current_device", "set_device",
           "device_count", "Stream", "current_stream", "stream", "Event", "StreamContext", "get_capabilities"]


class Stream:
    """A stream.  CPU work is complete when a call returns, so streams order nothing."""

    def __init__(self, priority=-1):
        self.priority = priority

    def wait_stream(self, stream):
        """Returns at once."""


class Event:
    """A point in a stream's work, which is complete."""

    def __init__(self, enable_timing=False):
        self.enable_timing = enable_timing

    def query(self):
        """Whether the work is complete."""
        return True

    def record(self, stream=None):
        """Returns at once."""

    def synchronize(self):
        """Returns at once."""

    def wait(self, stream=None):
        """Returns at once."""


_current = Stream()


class StreamContext:
    """`with StreamContext(s):` makes s the stream that current_stream returns; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        global _current
        self.before = _current
        _current = _current if self.stream is None else self.stream

    def __exit__(self, type, value, traceback):
        global _current
        _current = self.before


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
    return StreamContext(stream)


def get_capabilities():
    """What the processor can do, as /proc/cpuinfo names it: {"avx2": True}."""
    import platform
    from types import MappingProxyType
    found = {"architecture": platform.machine()}
    try:
        with open("/proc/cpuinfo") as file:
            line = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        line = ""
    found.update(dict.fromkeys(line.partition(":")[2].split(), True))
    return MappingProxyType(found)
