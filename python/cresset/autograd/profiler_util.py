"""Events of a profile, their sums by name, and tables and traces of them."""
import itertools
import math
from collections import defaultdict, namedtuple
from operator import attrgetter

from .._profiler_kinds import DeviceType

__all__ = ["EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval",
           "Kernel", "MemRecordsAcc", "StringTable"]

MEMORY_EVENT_NAME = "[memory]"
_OUT_OF_MEMORY_NAME = "[OutOfMemory]"

Kernel = namedtuple("Kernel", ["name", "device", "duration"])


class Interval:
    """A range of time in microseconds."""

    def __init__(self, start, end):
        self.start = start
        self.end = end

    def elapsed_us(self):
        """Returns the range's length."""
        return self.end - self.start


class StringTable(defaultdict):
    """Names of the profiler, as they are."""

    def __missing__(self, key):
        self[key] = key
        return key


class MemRecordsAcc:
    """Memory records [(record, time)] that can be searched by time."""

    def __init__(self, mem_records):
        self._mem_records = sorted(mem_records, key=lambda pair: pair[0].start_ns())
        self._times = [pair[0].start_ns() for pair in self._mem_records]

    def in_interval(self, start_us, end_us):
        """Yields the records between two times."""
        from bisect import bisect_left, bisect_right
        first, last = bisect_left(self._times, start_us * 1000), bisect_right(self._times, end_us * 1000)
        yield from self._mem_records[first:last]


# --- texts ---

def _format_time(time_us):
    if time_us >= 1e6:
        return f"{time_us / 1e6:.3f}s"
    if time_us >= 1e3:
        return f"{time_us / 1e3:.3f}ms"
    return f"{time_us:.3f}us"


def _format_time_share(time_us, total_time_us):
    if total_time_us == 0:
        return "NaN"
    return f"{time_us * 100.0 / total_time_us:.2f}%"


def _format_memory(nbytes):
    for unit, size in (("GB", 2 ** 30), ("MB", 2 ** 20), ("KB", 2 ** 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def _format_flops(flops):
    """Returns (unit, divisor) for a column in which the largest number is `flops`."""
    units = ["FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"]
    power = max(0, min(int(math.log10(flops) / 3), len(units) - 1)) if flops > 0 else 0
    return units[power], 10 ** (3 * power)


def _time_property(name):
    return property(lambda self: _format_time(getattr(self, name)))


class FormattedTimesMixin:
    """Times of events as text, and times of one call."""

    cpu_time_str = _time_property("cpu_time")
    device_time_str = _time_property("device_time")
    cpu_time_total_str = _time_property("cpu_time_total")
    device_time_total_str = _time_property("device_time_total")
    self_cpu_time_total_str = _time_property("self_cpu_time_total")
    self_device_time_total_str = _time_property("self_device_time_total")

    @property
    def cpu_time(self):
        return 0.0 if self.count == 0 else 1.0 * self.cpu_time_total / self.count

    @property
    def device_time(self):
        return 0.0 if self.count == 0 else 1.0 * self.device_time_total / self.count

    @property
    def cuda_time(self):
        return self.device_time


# --- events ---

class FunctionEvent(FormattedTimesMixin):
    """One call, node or named range.  Times are microseconds from the start of the profile."""

    def __init__(self, id, name, thread, start_us, end_us, overload_name=None, fwd_thread=None,
                 input_shapes=None, stack=None, scope=0, use_device=None, cpu_memory_usage=0,
                 device_memory_usage=0, is_async=False, is_remote=False, sequence_nr=-1, node_id=-1,
                 device_type=DeviceType.CPU, device_index=0, is_legacy=False, flops=None,
                 trace_name=None, concrete_inputs=None, kwinputs=None, is_user_annotation=False):
        self.id = id
        self.name = name
        self.trace_name = trace_name
        self.overload_name = overload_name or ""
        self.time_range = Interval(start_us, end_us)
        self.thread = thread
        self.fwd_thread = fwd_thread
        self.kernels = []
        self.count = 1
        self.cpu_children = []
        self.cpu_parent = None
        self.input_shapes = [] if input_shapes is None else input_shapes
        self.concrete_inputs = concrete_inputs or []
        self.kwinputs = kwinputs or {}
        self.stack = [] if stack is None else stack
        self.scope = scope
        self.use_device = use_device
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = device_memory_usage
        self.is_async = is_async
        self.is_remote = is_remote
        self.sequence_nr = sequence_nr
        self.node_id = node_id
        self.device_type = device_type
        self.device_index = device_index
        self.is_legacy = is_legacy
        self.flops = flops
        self.is_user_annotation = is_user_annotation

    def append_kernel(self, name, device, duration):
        """Adds a kernel of a device."""
        self.kernels.append(Kernel(name, device, duration))

    def append_cpu_child(self, child):
        """Adds an event that this one contains."""
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent):
        """Sets the event that contains this one."""
        self.cpu_parent = parent

    @property
    def cpu_time_total(self):
        return self.time_range.elapsed_us() if self.device_type == DeviceType.CPU else 0

    @property
    def self_cpu_time_total(self):
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self):
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    @property
    def device_time_total(self):
        return sum(kernel.duration for kernel in self.kernels)

    @property
    def self_device_time_total(self):
        return self.device_time_total - sum(child.device_time_total for child in self.cpu_children)

    @property
    def self_device_memory_usage(self):
        return self.device_memory_usage - sum(child.device_memory_usage for child in self.cpu_children)

    cuda_time_total, self_cuda_time_total = device_time_total, self_device_time_total
    self_cuda_memory_usage = self_device_memory_usage

    @property
    def key(self):
        return self.name

    def __repr__(self):
        device = self.use_device
        return (f"<FunctionEvent id={self.id} name={self.name} overload_name={self.overload_name} "
                f"device_type={self.device_type} node_id={self.node_id} cpu_time={self.cpu_time_str} "
                f"start_us={self.time_range.start} end_us={self.time_range.end} "
                f"cpu_children={[child.id for child in self.cpu_children]} {device}_time={self.device_time_str} "
                f"name={self.name} thread={self.thread} input_shapes={self.input_shapes} "
                f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage} "
                f"is_async={self.is_async} is_remote={self.is_remote} seq_nr={self.sequence_nr} "
                f"is_legacy={self.is_legacy}>")


class FunctionEventAvg(FormattedTimesMixin):
    """The sums of all events of one name (and, when asked for, of one list of input shapes)."""

    _SUMS = ("cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total",
             "cpu_memory_usage", "device_memory_usage", "self_cpu_memory_usage",
             "self_device_memory_usage", "count")

    def __init__(self):
        self.key = None
        self.count = self.node_id = 0
        self.is_async = self.is_remote = self.is_legacy = False
        self.use_device = self.overload_name = None
        self.cpu_time_total = self.device_time_total = 0
        self.self_cpu_time_total = self.self_device_time_total = 0
        self.input_shapes = self.stack = self.scope = None
        self.cpu_memory_usage = self.device_memory_usage = 0
        self.self_cpu_memory_usage = self.self_device_memory_usage = 0
        self.cpu_children = self.cpu_parent = None
        self.device_type = DeviceType.CPU
        self.flops = 0

    def add(self, other):
        """Adds an event, or the sums of others with the same key."""
        if self.key is None:
            for name in ("key", "node_id", "is_async", "is_remote", "cpu_parent", "cpu_children",
                         "input_shapes", "overload_name", "stack", "scope", "device_type", "is_legacy",
                         "use_device"):
                setattr(self, name, getattr(other, name))
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)) or other.key != self.key:
            raise AssertionError(f"an event of {self.key} is expected, not {other}")
        for name in self._SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops = (self.flops or 0) + (other.flops or 0)
        return self

    __iadd__ = add

    def __repr__(self):
        device = self.use_device or "cuda"
        return (f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
                f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
                f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
                f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>")


# --- lists ---

class EventList(list):
    """Events, or sums of events."""

    def __init__(self, *args, use_device=None, profile_memory=False, with_flops=False, **kwargs):
        super().__init__(*args, **kwargs)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops
        self._trace_start = 0

    def __str__(self):
        return self.table()

    @property
    def self_cpu_time_total(self):
        """The time of all events without the events inside them."""
        return sum(event.self_cpu_time_total for event in self)

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, max_name_column_width=55,
              max_shapes_column_width=80, header=None, top_level_events_only=False, time_unit=None):
        """Returns a table of the events, the largest of column `sort_by` first."""
        return _build_table(self, sort_by, row_limit, max_name_column_width, max_shapes_column_width,
                            max_src_column_width, header, top_level_events_only)

    def key_averages(self, group_by_input_shapes=False, group_by_stack_n=0, group_by_overload_name=False):
        """Returns the sums of the events by name."""
        sums = {}
        for event in self:
            key = (event.key, event.node_id, event.device_type, event.is_legacy,
                   event.overload_name if group_by_overload_name else "",
                   str(event.input_shapes) if group_by_input_shapes else "",
                   tuple(event.stack[:group_by_stack_n]))
            sums.setdefault(key, FunctionEventAvg()).add(event)
        for average in sums.values():
            average.stack = average.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
            if not group_by_overload_name:
                average.overload_name = ""
        out = EventList(sums.values(), use_device=self._use_device, profile_memory=self._profile_memory,
                        with_flops=self._with_flops)
        return out

    def total_average(self):
        """Returns the sums of all events."""
        total = FunctionEventAvg()
        for event in self:
            total.key = None  # all names are added up
            total.add(event)
        total.key = "Total"
        return total

    def export_chrome_trace(self, path):
        """Writes the events for chrome://tracing and Perfetto."""
        from ..profiler._trace import write
        write(path, self)

    def supported_export_stacks_metrics(self):
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total",
                "self_privateuse1_time_total"]

    def export_stacks(self, path, metric):
        """Writes the events' stacks and times, a line each."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        metric = metric.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
        with open(path, "w") as file:
            for event in self:
                value = getattr(event, metric)
                if event.stack and int(value) > 0:
                    file.write(";".join(reversed(event.stack)) + f" {int(value)}\n")


# --- tables ---

def _is_memory(event):
    return event.key in (MEMORY_EVENT_NAME, _OUT_OF_MEMORY_NAME)


def _shortened(text, width):
    return text[:width - 3] + "..." if width is not None and len(text) >= width - 3 else text


def _width(texts, limit):
    widest = max(map(len, texts), default=0) + 4
    return widest if limit is None else min(widest, limit)


def _columns(events, name_limit, shapes_limit, source_limit):
    """Returns [(heading, width, function of an event)]."""
    total = sum(event.self_cpu_time_total for event in events)
    columns = [
        ("Name", _width([e.key for e in events], name_limit), lambda e: _shortened(e.key, name_limit)),
        ("Self CPU %", 12, lambda e: _format_time_share(e.self_cpu_time_total, total)),
        ("Self CPU", 12, lambda e: e.self_cpu_time_total_str),
        ("CPU total %", 12, lambda e: "0.00%" if e.is_async else _format_time_share(e.cpu_time_total, total)),
        ("CPU total", 12, lambda e: e.cpu_time_total_str),
        ("CPU time avg", 12, lambda e: e.cpu_time_str)]
    if events._profile_memory:
        columns += [("CPU Mem", 12, lambda e: _format_memory(e.cpu_memory_usage)),
                    ("Self CPU Mem", 12, lambda e: _format_memory(e.self_cpu_memory_usage))]
    columns.append(("# of Calls", 12, lambda e: e.count))
    shapes = [str(e.input_shapes) for e in events if e.input_shapes]
    if shapes:
        columns.append(("Input Shapes", _width(shapes, shapes_limit),
                        lambda e: str(e.input_shapes)[:shapes_limit]))
    stacks = [line for e in events for line in e.stack or ()]
    if stacks:
        columns.append(("Source Location", _width(stacks, source_limit),
                        lambda e: _shortened(e.stack[0], source_limit) if e.stack else ""))
    largest = max((e.flops or 0 for e in events), default=0)
    if events._with_flops and largest > 0:
        unit, size = _format_flops(largest)
        columns.append((f"Total {unit}", 12, lambda e: f"{e.flops / size:8.3f}" if e.flops else "--"))
    return columns


def _build_table(events, sort_by, row_limit, name_limit, shapes_limit, source_limit, header, top_level_only):
    if not events:
        return ""
    if sort_by is not None:
        metric = sort_by.replace("cuda", "device").replace("xpu", "device")
        chosen = EventList(sorted(events, key=attrgetter(metric), reverse=True), use_device=events._use_device,
                           profile_memory=events._profile_memory, with_flops=events._with_flops)
        events = chosen
    columns = _columns(events, name_limit, shapes_limit, source_limit)
    rule = "".join("-" * width + "  " for _, width, _ in columns)
    line = lambda texts: "".join(f"{text:>{width}}  " for text, (_, width, _) in zip(texts, columns))
    out = ["=" * len(rule), header] if header is not None else []
    if top_level_only:
        out += ["=" * len(rule), "This report only display top-level ops statistics"]
    out += [rule, line([heading for heading, _, _ in columns]), rule]
    rows = (e for e in events if not (top_level_only and e.cpu_parent is not None))
    out += [line([text(e) for _, _, text in columns]) for e in
            (itertools.islice(rows, row_limit) if row_limit >= 0 else rows)]
    total = sum(event.self_cpu_time_total for event in events)
    return "\n".join([*out, rule, f"Self CPU time total: {_format_time(total)}", ""])
