"""Profiles of a block of code, and named ranges in them."""
from contextlib import ContextDecorator

from .. import _C
from .._profiler_kinds import DeviceType, RecordScope
from . import _ranges
from .profiler_util import (MEMORY_EVENT_NAME, EventList, FunctionEvent, MemRecordsAcc,
                            _format_time)

__all__ = ["profile", "record_function", "emit_nvtx", "EventList", "FunctionEvent", "MemRecordsAcc",
           "KinetoStepTracker", "EnforceUnique", "load_nvprof", "parse_nvprof_trace"]

# Kinds of events of tensor/profile.h.
_OP, _NODE, _APPLY, _GROUP, _USER = range(5)
_SCOPES = {_OP: RecordScope.FUNCTION, _NODE: RecordScope.FUNCTION, _APPLY: RecordScope.BACKWARD_FUNCTION,
           _GROUP: RecordScope.FUNCTION, _USER: RecordScope.USER_SCOPE}


BETWEEN_RANKS = "\x1f"  # in an event's name: a call between ranks; the sizes of its tensors follow


def _sizes(text):
    """Returns the sizes of a call between ranks."""
    import json
    return json.loads(text) if text else []


def _event_name(name, kind):
    """Returns torch's name of an event."""
    if kind == _OP and "::" not in name:
        return f"aten::{name}"
    if kind in (_NODE, _APPLY) and name.endswith("AccumulateGrad"):
        return name.replace("AccumulateGrad", "torch::autograd::AccumulateGrad")
    return name


def _shapes(value):
    """Returns the sizes of a recorded argument; [] for what is no tensor."""
    if isinstance(value, tuple) and value and isinstance(value[0], _C.dtype):
        return list(value[1])
    return [_shapes(item) for item in value] if isinstance(value, list) else []


def _flops(name, inputs):
    from ..utils.flop_counter import recorded_flops
    return recorded_flops(name, inputs) if inputs is not None else None


def _make_events(raw, start, shapes, memory, flops):
    """Makes FunctionEvents, linked to their parents, from the events of _C._profile_stop."""
    made = []
    for i, (name, kind, begin, end, used, used_end, sequence, parent, inputs) in enumerate(raw):
        name, between_ranks, sizes = name.partition(BETWEEN_RANKS)
        event = FunctionEvent(
            i + 1, _event_name(name, kind), 1, (begin - start) / 1e3, (end - start) / 1e3,
            input_shapes=[_shapes(v) for v in inputs] if shapes and inputs is not None else
            _sizes(sizes) if shapes else [], is_async=bool(between_ranks),
            concrete_inputs=inputs if shapes else None, scope=int(_SCOPES[kind]), sequence_nr=sequence,
            fwd_thread=0, cpu_memory_usage=used_end - used if memory else 0,
            flops=_flops(name, inputs) if flops and kind == _OP else None,
            is_user_annotation=kind == _USER)
        made.append(event)
        if parent >= 0:
            event.set_cpu_parent(made[parent])
            made[parent].append_cpu_child(event)
    return made


def _memory_events(raw, started, stopped):
    """Makes an event for each change of memory outside of all others."""
    out, used, time = [], started, 0
    outer = [e for e in raw if e[7] < 0]
    for begin, used_begin, used_after in [*((e[2], e[4], e[5]) for e in outer), (None, stopped, stopped)]:
        if used_begin != used:
            out.append(FunctionEvent(0, MEMORY_EVENT_NAME, 1, time, time, cpu_memory_usage=used_begin - used))
        used = used_after
    return out


class profile:
    """Records the calls of a `with` block: their times, memory and shapes."""

    def __init__(self, enabled=True, *, use_cuda=False, use_device=None, record_shapes=False,
                 with_flops=False, profile_memory=False, with_stack=False, with_modules=False,
                 use_kineto=False, use_cpu=True, experimental_config=None, acc_events=False,
                 custom_trace_id_callback=None, post_processing_timeout_s=None, activity_filters=None):
        self.enabled = enabled
        self.use_cuda, self.use_device, self.use_cpu = use_cuda, use_device, use_cpu
        if use_cuda:
            from warnings import warn
            warn("The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.",
                 FutureWarning, stacklevel=2)
        if use_cuda or use_device in ("cuda", "xpu"):
            from warnings import warn
            warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
            self.use_cuda, self.use_device = False, None
        self.function_events = None
        self.entered = False
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory = with_flops, profile_memory
        self.with_stack, self.with_modules = with_stack, with_modules
        self.acc_events = acc_events
        self._kept = []

    def __enter__(self):
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._start_trace()
        return self

    def _start_trace(self):
        from time import monotonic_ns
        self._start, self._memory = monotonic_ns(), _C._memory_stats()["used"]
        _C._profile_start(self.record_shapes)

    def __exit__(self, exc_type, exc_val, exc_tb):
        if not self.enabled:
            return False
        raw = _C._profile_stop()
        self.entered = False
        events = _make_events(raw, self._start, self.record_shapes, self.profile_memory, self.with_flops)
        if self.profile_memory:
            events += _memory_events(raw, self._memory, _C._memory_stats()["used"])
        self._kept = [*self._kept, *events] if self.acc_events else events
        self.function_events = EventList(self._kept, profile_memory=self.profile_memory,
                                         with_flops=self.with_flops)
        self.function_events._trace_start = self._start / 1e3
        return False

    def _check_finish(self):
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")

    def __repr__(self):
        return repr(self.function_events) if self.function_events is not None else "<unfinished profiler_legacy.profile>"

    def __str__(self):
        return str(self.function_events) if self.function_events is not None else "<unfinished profile>"

    def table(self, *args, **kwargs):
        """Returns a table of all events."""
        self._check_finish()
        return self.function_events.table(*args, **kwargs)

    def export_chrome_trace(self, path):
        """Writes a trace for chrome://tracing and Perfetto."""
        self._check_finish()
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Writes the events' stacks; they are empty."""
        self._check_finish()
        self.function_events.export_stacks(path, metric)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        """Returns sums by name."""
        self._check_finish()
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self):
        """Returns the sums of all events."""
        self._check_finish()
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self):
        self._check_finish()
        return self.function_events.self_cpu_time_total


class record_function(ContextDecorator):
    """Names a range in profiles, as a context manager or decorator."""

    def __init__(self, name, args=None):
        self.name = name
        self.args = args
        self.run_callbacks_on_exit = True
        self.record = None

    def __enter__(self):
        self.record = _ranges.begin(self.name, self.args)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        if self.run_callbacks_on_exit:
            _ranges.end(self._entered())

    def _entered(self):
        if self.record is None:
            raise AssertionError("Expected record to be set")
        return self.record

    def _recreate_cm(self):
        return record_function(self.name, self.args)

    def _call_end_callbacks_on_future(self, fut):
        """Ends the range when a future completes; returns a future that completes after that."""
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        self.run_callbacks_on_exit = False
        return _ranges.end_with(self._entered(), fut)


class emit_nvtx:
    """Makes every call a range for NVIDIA's profiler, which needs CUDA."""

    def __init__(self, enabled=True, record_shapes=False):
        self.enabled = enabled
        self.record_shapes = record_shapes

    def __enter__(self):
        if self.enabled:
            from ..cuda import synchronize
            synchronize()
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        return False


class KinetoStepTracker:
    """Counts the steps of programs, by who asks."""

    _current_step = 0
    _step_dict = {}

    @classmethod
    def init_step_count(cls, requester):
        cls._step_dict[requester] = cls._current_step

    @classmethod
    def erase_step_count(cls, requester):
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester):
        """Counts a step; returns the largest count of all requesters."""
        cls._step_dict[requester] = cls._step_dict.get(requester, cls._current_step) + 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls):
        return cls._current_step


class EnforceUnique:
    """Raises RuntimeError for a key that comes twice."""

    def __init__(self):
        self._seen = set()

    def see(self, *key):
        """Notes a key."""
        if key in self._seen:
            raise RuntimeError("duplicate key: " + str(key))
        self._seen.add(key)


def _nvprof_rows(connection, statement):
    import sqlite3
    connection.row_factory = sqlite3.Row
    return connection.execute(statement)


def parse_nvprof_trace(path):
    """The ranges of an nvprof database as events, with the kernels that were started inside."""
    import sqlite3
    connection = sqlite3.connect(path)
    texts = {row["id"]: _demangled(row["value"]) for row in _nvprof_rows(connection, "SELECT _id_ as id, value FROM StringTable")}
    unique, made = EnforceUnique(), {}
    for row in _nvprof_rows(connection, """
            SELECT start.id AS marker, start.name AS name, start.timestamp AS start, stop.timestamp AS stop
            FROM CUPTI_ACTIVITY_KIND_MARKER AS start INNER JOIN CUPTI_ACTIVITY_KIND_MARKER AS stop ON start.id = stop.id
            WHERE start.name != 0 AND stop.name = 0"""):
        unique.see(row["marker"])
        made[row["marker"]] = FunctionEvent(row["marker"], texts[row["name"]], 0, row["start"], row["stop"])
    unique = EnforceUnique()
    for row in _nvprof_rows(connection, """
            SELECT start.id AS marker, start.name, runtime._id_ AS runtime, runtime.cbid, runtime.start AS runtime_start,
                   runtime.end AS runtime_stop, kernel.start AS kernel_start, kernel.end AS kernel_stop,
                   kernel.name AS kernel_name
            FROM CUPTI_ACTIVITY_KIND_MARKER AS start
            INNER JOIN CUPTI_ACTIVITY_KIND_MARKER AS stop ON start.id = stop.id
            INNER JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS runtime
                ON start.timestamp < runtime.start AND runtime.end < stop.timestamp
            INNER JOIN CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL AS kernel ON kernel.correlationId = runtime.correlationId"""):
        unique.see(row["marker"], row["runtime"])
        if row["cbid"] == 211:  # the start of a kernel
            made[row["marker"]].append_kernel(texts[row["kernel_name"]], 0, row["kernel_stop"] - row["kernel_start"])
    connection.close()
    return sorted(made.values(), key=lambda event: event.time_range.start)


def _demangled(name):
    """The C++ name; the name itself if it is none, or if no libstdc++ is installed."""
    import ctypes
    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except OSError:
        return name
    demangle.restype = ctypes.c_void_p
    found = demangle(name.encode(), None, None, None) if name.startswith("_Z") else None
    text = ctypes.string_at(found).decode() if found else name
    ctypes.CDLL(None).free(ctypes.c_void_p(found))
    return text


def load_nvprof(path):
    """The ranges that emit_nvtx made, from nvprof's database."""
    return EventList(parse_nvprof_trace(path), use_device="cuda")


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
