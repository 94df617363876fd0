"""torch.ops.profiler: the operators that begin and end a named range of a profile."""
import sys

from .. import _C


class Range:
    """A range that runs: the object that programs know as torch.classes.profiler._RecordFunction."""

    def __init__(self, event, value):
        self.event, self.value = event, value  # of the profile, -1: none; of a trace, or None


def _recorder():
    """The trace that records this thread, or None."""
    loaded = sys.modules.get(f"{__name__.partition('.')[0]}.jit._loaded")
    return loaded.recorders.active[-1] if loaded is not None and loaded.recorders.active else None


def begin(name, args=None):
    """Begins a range of the calling thread's profile; returns a Range."""
    recorder = _recorder()
    return Range(_C._profile_enter(name), None if recorder is None else recorder.begin_range(name, args))


def end(range):
    """Ends a range that `begin` returned."""
    if range.event >= 0:
        _C._profile_leave(range.event)
    recorder = _recorder()
    if recorder is not None and range.value is not None:
        recorder.end_range(range.value)
    range.event, range.value = -1, None


def end_with(range, future):
    """Ends a range when a future completes; returns a future that completes after that, with its value."""
    def done(completed):
        end(range)
        return completed.value()
    return future.then(done)


class _Packet:
    """An operator on ranges; its overloads are the operator itself."""

    def __init__(self, name, function):
        self.__name__ = self.__qualname__ = name
        self.__module__ = "torch.ops.profiler"
        self._function = function
        self.default = self._RecordFunction = function

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def __repr__(self):
        return f"<OpOverloadPacket(op='profiler.{self.__name__}')>"


packets = {name: _Packet(name, function) for name, function in (
    ("_record_function_enter", begin), ("_record_function_enter_new", begin), ("_record_function_exit", end),
    ("_call_end_callbacks_on_jit_fut", end_with))}
