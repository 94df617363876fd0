"""torch.Stream and torch.Event: work on a device in order, and points in it.

The CPU has one stream, whose work is complete when a call returns, and no events.  Streams and
events of an accelerator are those of utils.backend_registration.
"""
from . import _C

__all__ = ["Stream", "Event"]


def _device(device):
    """Returns the device of a stream: the accelerator, or the CPU without one."""
    from .accelerator import current_accelerator
    if device is None:
        return current_accelerator() or _C.device("cpu")
    if isinstance(device, int):
        return _C.device((current_accelerator() or _C.device("cpu")).type, device)
    return _C.device(device)


def _new(cls, name, device):
    """Returns a new object: of the CPU's class, or of the accelerator's, whose __init__ follows."""
    device = _device(device)
    if device.type == "cpu":
        made = object.__new__(cls)
        made.device = device
        return made
    if device.type != _C._get_privateuse1_backend_name():
        raise RuntimeError(f"PyTorch is not linked with support for {device.type} devices")
    from .utils import backend_registration
    return object.__new__(getattr(backend_registration, name))


class Stream:
    """A sequence of work on a device.  `with stream:` makes it the current one."""

    def __new__(cls, device=None, *, priority=0, **kwargs):
        return _new(cls, "Stream", device) if cls is Stream else object.__new__(cls)

    stream_id, device_index, device_type = 0, -1, 0

    def query(self):
        """Returns whether all work is done."""
        return True

    def synchronize(self):
        """Waits for all work."""

    def is_capturing(self):
        """Returns whether work is captured for a graph."""
        return False

    def wait_event(self, event):
        """Lets later work wait for an event."""

    def wait_stream(self, stream):
        """Lets later work wait for the present work of another stream."""
        raise RuntimeError("cpu backend doesn't support events.")

    def record_event(self, event=None):
        """Returns an event after the present work."""
        raise RuntimeError("cpu backend doesn't support events.")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return False

    def __eq__(self, other):
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self):
        return hash(self.device)

    def __repr__(self):
        return f"torch.Stream device_type={self.device.type}, device_index=-1, stream_id=0"


class Event:
    """A point in a stream's work."""

    def __new__(cls, device=None, *, enable_timing=False, blocking=False, interprocess=False, **kwargs):
        if cls is not Event:
            return object.__new__(cls)
        made = _new(cls, "Event", device)
        made.enable_timing = enable_timing
        return made

    event_id = 0

    def query(self):
        """Returns whether the work before the event is done."""
        return True

    def synchronize(self):
        """Waits for the work before the event."""

    def record(self, stream=None):
        """Puts the event after a stream's present work."""
        raise RuntimeError("cpu backend doesn't support events.")

    def wait(self, stream=None):
        """Lets a stream's later work wait for the event."""

    def elapsed_time(self, end_event):
        """Returns the milliseconds between two events."""
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        raise RuntimeError("cpu backend doesn't support events.")

    def __repr__(self):
        return (f"torch.Event device_type={self.device.type}, device_index=-1, "
                f"event_flag={int(self.enable_timing)}, event_id=0")
