"""Profiles of one thread in which calls of torch.distributed.rpc are events, with those of the functions that other processes ran.

A call notes itself in the profile of the thread that makes it when its result has come.  The process that runs the function
profiles it, and sends the events with the result; they are remote events here, whose names begin with the call's name."""
import threading
from time import monotonic_ns

from .. import cuda
from . import profiler
from .profiler_util import EventList, FunctionEvent

__all__ = ["profile"]

REMOTE = "#remote_op: "  # between the name of a call and that of an event of the called function
_running = threading.local()
_node = -1  # the number of this process, which init_rpc sets


def current():
    """Returns the profile of the calling thread, or None."""
    return getattr(_running, "profile", None)


def set_node(number):
    """Sets the number of this process among those of torch.distributed.rpc; -1: none."""
    global _node
    _node = number


class profile(profiler.profile):
    """Records the calls of a `with` block, and what they did in other processes."""

    def __init__(self, enabled=True, *, use_cuda=False, record_shapes=False, with_flops=False, profile_memory=False, with_stack=False,
                 with_modules=False):
        super().__init__(enabled, record_shapes=record_shapes, with_flops=with_flops, profile_memory=profile_memory,
                         with_stack=with_stack, with_modules=with_modules)
        if use_cuda and not cuda.is_available():
            from warnings import warn
            warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
        self.use_cuda = use_cuda and cuda.is_available()
        self._calls, self._lock, self._outer = [], threading.Lock(), None

    def _start_trace(self):
        super()._start_trace()
        self._outer, _running.profile = current(), self

    def __exit__(self, exc_type, exc_val, exc_tb):
        if not self.enabled:
            return False
        _running.profile = self._outer
        super().__exit__(exc_type, exc_val, exc_tb)
        for event in self.function_events:
            event.is_legacy, event.node_id = True, _node
        self._own = list(self.function_events)
        self.function_events = EventList(self._all(), profile_memory=self.profile_memory, with_flops=self.with_flops)
        self.function_events._trace_start = self._start / 1e3
        return False

    def add_call(self, name, start, events):
        """Notes a call that began at `start` (nanoseconds) and has ended, and the events that the called process sent."""
        with self._lock:
            self._calls.append((name, start, monotonic_ns(), _node, events))

    def _all(self):
        """Returns the thread's events, those of calls, and remote ones, by their starts."""
        made = list(self._own)
        with self._lock:
            calls = list(self._calls)
        for name, start, end, node, events in calls:
            begin = (start - self._start) / 1e3
            made.append(FunctionEvent(len(made) + 1, name, 1, begin, (end - self._start) / 1e3, is_async=True, node_id=node,
                                      is_legacy=True))
            remote = [_remote_event(len(made) + k, name + REMOTE + what, begin, *numbers) for k, (what, _, *numbers) in enumerate(events, 1)]
            for event, (_, parent, *_) in zip(remote, events):
                if parent >= 0:
                    event.set_cpu_parent(remote[parent])
                    remote[parent].append_cpu_child(event)
            made += remote
        return sorted(made, key=lambda e: (e.time_range.start, -e.time_range.end))

    def sent(self):
        """Returns what the process that called gets: (name, index of the parent or -1, numbers of an event) of each event."""
        events = self._all()
        at = {id(event): k for k, event in enumerate(events)}
        return [(e.name, at.get(id(e.cpu_parent), -1), e.time_range.start, e.time_range.end, e.node_id, e.is_async, e.input_shapes,
                 e.scope, e.sequence_nr, e.cpu_memory_usage, e.flops) for e in events]


def _remote_event(number, name, begin, start, end, node, is_async, shapes, scope, sequence, memory, flops):
    return FunctionEvent(number, name, 1, begin + start, begin + end, input_shapes=shapes, scope=scope, is_async=is_async, is_remote=True,
                         sequence_nr=sequence, node_id=node, cpu_memory_usage=memory, flops=flops, is_legacy=True)


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
