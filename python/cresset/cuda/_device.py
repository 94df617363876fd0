"""torch.cuda with a device: these names replace those of a build without CUDA."""
import threading
from collections import OrderedDict, namedtuple
from weakref import WeakValueDictionary

from .. import _C
from .. import _streams as _base

_streams = WeakValueDictionary()  # {(index, address): Stream}
# .streams: {index: Stream}, to keep each chosen Stream alive; .before: (device, Stream) of each open `with stream`
_chosen = threading.local()


def _index(device, optional=True):
    """The index that an int, a device or a string names; the current device's for None."""
    if device is None and optional:
        return _C._cuda_current()
    if isinstance(device, int):
        if device < 0:
            return _C._cuda_current()
        return device
    device = _C.device(device)
    if device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return _C._cuda_current() if device.index is None else device.index


def _chosen_index(device):
    """The index that an int, or a device or a string with an index, names."""
    if isinstance(device, int):
        return device
    found = _C.device(device) if isinstance(device, (str, _C.device)) else None
    if found is not None and found.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {found}")
    if found is None or found.index is None:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return found.index


def is_available():
    """Returns whether tensors can be on a CUDA device."""
    return True


def device_count():
    return _C._cuda_count()


def is_initialized():
    return _C._cuda_is_initialized()


def init():
    """Makes the context of the current device."""
    _C._cuda_set_current(_C._cuda_current())


_lazy_init = init


def current_device():
    init()
    return _C._cuda_current()


def set_device(device):
    """Makes a device the current device of the thread."""
    index = _chosen_index(device)
    if index >= 0:
        _C._cuda_set_current(index)


def synchronize(device=None):
    """Waits until all work of a device is done."""
    _C._cuda_synchronize(_index(device))


class device:
    """`with torch.cuda.device(1):` makes device 1 the current device of the thread."""

    def __init__(self, device):
        self.idx = _index(device) if device is not None else -1
        self.prev_idx = -1

    def __enter__(self):
        self.prev_idx = _C._cuda_current()
        if self.idx >= 0:
            _C._cuda_set_current(self.idx)

    def __exit__(self, type, value, traceback):
        if self.idx >= 0:
            _C._cuda_set_current(self.prev_idx)
        return False


class device_of(device):
    """Makes the device of a tensor the current device of the thread."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else None)


# --- properties ---

class _CudaDeviceProperties:
    def __init__(self, values):
        self.__dict__.update(values)
        self.uuid = _Uuid(values["uuid"])

    def __repr__(self):
        return (f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
                f"total_memory={self.total_memory >> 20}MB, multi_processor_count={self.multi_processor_count}, "
                f"uuid={self.uuid}, pci_bus_id={self.pci_bus_id}, pci_device_id={self.pci_device_id}, "
                f"pci_domain_id={self.pci_domain_id}, L2_cache_size={self.L2_cache_size >> 20}MB)")


class _Uuid:
    def __init__(self, bytes):
        self.bytes = bytes

    def __str__(self):
        h = self.bytes.hex()
        return "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:]))


def get_device_properties(device=None):
    index = device if isinstance(device, int) else _index(device)
    if not 0 <= index < device_count():
        raise AssertionError("Invalid device id")
    return _CudaDeviceProperties(_C._cuda_properties(index))


def get_device_name(device=None):
    return get_device_properties(device).name


def get_device_capability(device=None):
    found = get_device_properties(device)
    return found.major, found.minor


def get_arch_list():
    """The architectures of the devices, because kernels are compiled at run time."""
    return sorted({f"sm_{major}{minor}" for major, minor in map(get_device_capability, range(device_count()))})


def is_bf16_supported(including_emulation=True):
    return including_emulation or get_device_capability()[0] >= 8


def is_tf32_supported():
    return get_device_capability()[0] >= 8


def can_device_access_peer(device, peer_device):
    device, peer = _index(device, False), _index(peer_device, False)
    for index in (device, peer):
        if not 0 <= index < device_count():
            raise AssertionError("Invalid peer device id" if index == peer else "Invalid device id")
    return _C._cuda_can_access(device, peer)


# --- streams and events ---

class Stream(_base.Stream):
    """A queue of work on one device.  `with torch.cuda.stream(s):` makes it the current stream of the thread."""

    def __new__(cls, device=None, priority=0, **kwargs):
        return object.__new__(cls)

    def __init__(self, device=None, priority=0, *, stream_id=None, device_index=None, device_type=None, stream_ptr=None):
        index = _index(device if device_index is None else device_index)
        existing = stream_id if stream_ptr is None else stream_ptr
        self._set(index, _C._cuda_stream_new(index, priority) if existing is None else existing)
        self.priority = min(0, max(-1, priority))

    def _set(self, index, at):
        self.device, self.cuda_stream, self.priority = _C.device("cuda", index), at, 0
        self.device_index, self.device_type, self.stream_id = index, 1, at
        _streams[index, at] = self

    @classmethod
    def _of(cls, index, at):
        found = _streams.get((index, at))
        if found is None:
            found = object.__new__(Stream)
            found._set(index, at)
        return found

    @property
    def _as_parameter_(self):
        import ctypes
        return ctypes.c_void_p(self.cuda_stream)

    def query(self):
        return _C._cuda_stream_query(self.device.index, self.cuda_stream)

    def synchronize(self):
        _C._cuda_stream_synchronize(self.device.index, self.cuda_stream)

    def is_capturing(self):
        with self:
            return _C._cuda_is_capturing()

    def wait_event(self, event):
        event.wait(self)

    def wait_stream(self, stream):
        self.wait_event(stream.record_event())

    def record_event(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def _make_current(self):
        _C._cuda_set_stream(self.device.index, self.cuda_stream)
        _chosen.__dict__.setdefault("streams", {})[self.device.index] = self

    def __enter__(self):
        _chosen.__dict__.setdefault("before", []).append((_C._cuda_current(), current_stream(self.device)))
        self._make_current()
        _C._cuda_set_current(self.device.index)
        return self

    def __exit__(self, *exception):
        index, stream = _chosen.before.pop()
        stream._make_current()
        _C._cuda_set_current(index)
        return False

    def __eq__(self, other):
        return isinstance(other, Stream) and (self.device, self.cuda_stream) == (other.device, other.cuda_stream)

    def __hash__(self):
        return hash((self.cuda_stream, self.device))

    def __repr__(self):
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A stream that another library made."""

    def __init__(self, stream_ptr, device=None, **kwargs):
        self._set(_index(device), stream_ptr)


class Event(_base.Event):
    """A point in a stream's work.  The first record() makes the driver's event."""

    def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
        return object.__new__(cls)

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        if interprocess:
            raise RuntimeError("events of several processes are not supported")
        self.enable_timing, self.blocking, self.device, self.cuda_event = enable_timing, blocking, None, 0

    def record(self, stream=None):
        stream = current_stream() if stream is None else stream
        index = stream.device.index
        if self.device is None:
            self.device = stream.device
            self.cuda_event = _C._cuda_event_new(index, self.enable_timing, self.blocking)
        elif self.device != stream.device:
            raise RuntimeError(f"Event device {self.device.index} does not match recording stream's device {index}.")
        self._on(stream, _C._cuda_event_record)

    def wait(self, stream=None):
        if self.device is not None:
            self._on(current_stream() if stream is None else stream, _C._cuda_event_wait)

    def _on(self, stream, function):
        index, before = stream.device.index, _C._cuda_stream(stream.device.index)
        _C._cuda_set_stream(index, stream.cuda_stream)
        try:
            function(index, self.cuda_event)
        finally:
            _C._cuda_set_stream(index, before)

    def query(self):
        return self.device is None or _C._cuda_event_done(self.device.index, self.cuda_event)

    def synchronize(self):
        if self.device is not None:
            _C._cuda_event_synchronize(self.device.index, self.cuda_event)

    def elapsed_time(self, end_event):
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.device is None or end_event.device is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return _C._cuda_elapsed(self.device.index, self.cuda_event, end_event.cuda_event)

    def __del__(self):
        if getattr(self, "cuda_event", 0):
            _C._cuda_event_drop(self.device.index, self.cuda_event)

    def __repr__(self):
        return f"<torch.cuda.Event {self.cuda_event:#x}>" if self.cuda_event else "<torch.cuda.Event uninitialized>"


class StreamContext:
    """`with torch.cuda.stream(s):` makes s the current stream of the thread; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, type, value, traceback):
        if self.stream is not None:
            self.stream.__exit__()


stream = StreamContext


def current_stream(device=None):
    index = _index(device)
    return Stream._of(index, _C._cuda_stream(index))


def default_stream(device=None):
    return Stream._of(_index(device), 0)


def set_stream(stream):
    if stream is not None:
        stream._make_current()
        _C._cuda_set_current(stream.device.index)


def get_stream_from_external(data_ptr, device=None):
    return ExternalStream(data_ptr, device)


def _record_stream(tensor, stream):
    """Says that work on the stream uses the tensor: its memory is reused only after this work."""
    if not isinstance(stream, _base.Stream):
        raise RuntimeError("unknown parameter type")
    if not tensor.is_cuda:
        raise NotImplementedError(
            "Could not run 'aten::record_stream' with arguments from the "
            f"'{tensor.device.type.upper()}' backend. This could be because the operator doesn't exist for this "
            "backend, or was omitted during the selective/custom build process (if using custom build).")
    _C._cuda_record_stream(tensor, stream.cuda_stream)


# --- memory ---

_POOLS = "all", "small_pool", "large_pool"
_FIELDS = "current", "peak", "allocated", "freed"


def memory_stats_as_nested_dict(device=None):
    """The allocator's counters."""
    found = _C._cuda_memory(_index(device))
    nested = {name: {pool: dict(zip(_FIELDS, row)) for pool, row in zip(_POOLS, rows)} if isinstance(rows, tuple) else rows
              for name, rows in found.items()}
    none = dict.fromkeys(_FIELDS, 0)
    return {**nested, "oversize_allocations": dict(none), "oversize_segments": dict(none), "max_split_size": -1,
            "num_sync_all_streams": 0}


def memory_stats(device=None):
    """The allocator's counters by name: allocated_bytes.all.current."""
    flat = []

    def walk(prefix, value):
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(f"{prefix}{name}.", inner)
        else:
            flat.append((prefix[:-1], value))
    walk("", memory_stats_as_nested_dict(device))
    return OrderedDict(sorted(flat))


def _counter(name, field):
    def read(device=None):
        return _C._cuda_memory(_index(device))[name][0][_FIELDS.index(field)]
    return read


memory_allocated = _counter("allocated_bytes", "current")
max_memory_allocated = _counter("allocated_bytes", "peak")
memory_reserved = memory_cached = _counter("reserved_bytes", "current")
max_memory_reserved = max_memory_cached = _counter("reserved_bytes", "peak")


def reset_peak_memory_stats(device=None):
    _C._cuda_memory_reset(_index(device), True)


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device=None):
    _C._cuda_memory_reset(_index(device), False)


def empty_cache():
    """Returns cached memory that no tensor uses to the driver."""
    if is_initialized():
        _C._cuda_memory_trim()


def mem_get_info(device=None):
    """(free, total) bytes of a device."""
    return _C._cuda_memory_info(_index(device))


_fractions = {}


def set_per_process_memory_fraction(fraction, device=None):
    """Limits the memory that tensors take on a device to this part of its memory."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _C._cuda_memory_limit(_index(device), fraction)
    _fractions[_index(device)] = fraction


def get_per_process_memory_fraction(device=None):
    return _fractions.get(_index(device), 1.0)


# --- random numbers: each device has a generator ---

default_generators = tuple(_C._device_generator(_C.device("cuda", i)) for i in range(_C._cuda_count()))


def manual_seed(seed):
    default_generators[current_device()].manual_seed(seed)


def manual_seed_all(seed):
    _C._seed_devices(int(seed))


def seed():
    default_generators[current_device()].seed()


def seed_all():
    manual_seed_all(default_generators[0].seed())


def initial_seed():
    return default_generators[current_device()].initial_seed()


def get_rng_state(device="cuda"):
    """The seed and the offset of a device's generator, 16 bytes."""
    return default_generators[_index(device)].get_state()


def set_rng_state(new_state, device="cuda"):
    default_generators[_index(device)].set_state(new_state.cpu())


def get_rng_state_all():
    return [get_rng_state(i) for i in range(device_count())]


def set_rng_state_all(new_states):
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def ipc_collect():
    """Does nothing: memory is not shared between processes."""


# --- what the driver's tool measures ---

def _measure(field, device):
    """A number that nvidia-smi prints."""
    import subprocess
    try:
        made = subprocess.run(["nvidia-smi", f"--id={_index(device)}", f"--query-gpu={field}", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise RuntimeError(f"nvidia-smi cannot read {field}: {error}") from None
    return float(made.stdout.split()[0])


def utilization(device=None):
    """Percent of the last second in which a kernel ran."""
    return int(_measure("utilization.gpu", device))


def memory_usage(device=None):
    """Percent of the last second in which memory was read or written."""
    return int(_measure("utilization.memory", device))


def temperature(device=None):
    """Degrees Celsius."""
    return int(_measure("temperature.gpu", device))


def power_draw(device=None):
    """Milliwatts."""
    return int(1000 * _measure("power.draw", device))


def clock_rate(device=None):
    """The clock of the multiprocessors in MHz."""
    return int(_measure("clocks.sm", device))


def device_memory_used(device=None):
    """Bytes of the device that all processes use."""
    free, total = mem_get_info(device)
    return total - free


def memory_snapshot(mempool_id=None, include_traces=True):
    """The segments of the allocator, or of one pool, with their blocks; call stacks and traces are not recorded."""
    segments = []
    states = ("inactive", "active_allocated", "active_pending_free")
    for device, address, size, requested, stream, pool, state, begins, large in _C._cuda_memory_blocks():
        if mempool_id is not None and pool != tuple(mempool_id):
            continue
        if begins:
            segments.append({"device": device, "address": address, "total_size": 0, "allocated_size": 0, "active_size": 0,
                             "requested_size": 0, "stream": stream, "segment_type": "large" if large else "small",
                             "segment_pool_id": pool, "is_expandable": False, "frames": [], "blocks": []})
        s = segments[-1]
        s["total_size"] += size
        s["allocated_size"] += size if state == 1 else 0
        s["active_size"] += size if state else 0
        s["requested_size"] += requested
        s["blocks"].append({"address": address, "size": size, "requested_size": requested, "state": states[state], "frames": []})
    return segments


_allocated = {}  # {address: the tensor that has the memory}


def caching_allocator_alloc(size, device=None, stream=None):
    """The address of new memory of the allocator."""
    made = _C.empty(size, dtype=_C.uint8, device=_C.device("cuda", _index(device)))
    _allocated[made.data_ptr()] = made
    return made.data_ptr()


def caching_allocator_delete(mem_ptr):
    """Frees what caching_allocator_alloc returned."""
    del _allocated[mem_ptr]
