"""Devices outside the library: loading them, their names, and the methods that tensors get."""
import sys
import threading
import types
import weakref

from .. import _C, _root
from .. import _streams as _streams_of_torch

__all__ = ["load_backend", "rename_privateuse1_backend", "generate_methods_for_privateuse1_backend"]


def rename_privateuse1_backend(backend_name):
    """Gives the device `privateuseone` another name, once a process."""
    _C._rename_privateuse1_backend(backend_name)


_streams = weakref.WeakValueDictionary()  # {(index of the device, address): Stream}
_thread = threading.local()               # {index of the device: Stream that set_stream made current}


class Stream(_streams_of_torch.Stream):
    """Work on one device, in order.  `with stream:` makes it the thread's."""

    def __init__(self, device=None, *, priority=0):
        self.device = _device(device)
        self._at = _C._backend_stream_new(self.device.index)
        self._owned, self._before = True, []
        _streams[self.device.index, self._at] = self

    @classmethod
    def _current(cls, index):
        """The thread's stream of a device."""
        stream = _streams.get((index, _C._backend_stream(index)))
        if stream is None:  # the device's default stream, which nothing owns
            stream = cls.__new__(cls)
            stream.device, stream._at = _device(index), _C._backend_stream(index)
            stream._owned, stream._before = False, []
        return stream

    def _make_current(self):
        """Makes it the thread's stream, and keeps it until another one is."""
        _C._backend_set_stream(self.device.index, self._at)
        _thread.__dict__[self.device.index] = self

    def __eq__(self, other):
        return isinstance(other, Stream) and (self.device, self._at) == (other.device, other._at)

    def __hash__(self):
        return hash((self.device, self._at))

    def __enter__(self):
        self._before.append(_C._backend_stream(self.device.index))
        _C._backend_set_stream(self.device.index, self._at)
        return self

    def __exit__(self, *exception):
        _C._backend_set_stream(self.device.index, self._before.pop())

    def record_event(self, event=None):
        event = event or Event(self.device)
        with self:
            event.record()
        return event

    def wait_event(self, event):
        with self:
            event.wait()

    def synchronize(self):
        self.record_event().synchronize()

    def __del__(self):
        if getattr(self, "_owned", False):
            _C._backend_stream_drop(self.device.index, self._at)


class Event(_streams_of_torch.Event):
    """A point in a stream, which streams and the host can wait for."""

    def __init__(self, device=None, *, enable_timing=False, blocking=False, interprocess=False):
        self.device = _device(device)
        self._at = _C._backend_event_new(self.device.index)

    def record(self):
        _C._backend_event_record(self.device.index, self._at)

    def wait(self):
        _C._backend_event_wait(self.device.index, self._at)

    def synchronize(self):
        _C._backend_event_synchronize(self.device.index, self._at)

    def query(self):
        return _C._backend_event_done(self.device.index, self._at)

    def __del__(self):
        if hasattr(self, "_at"):
            _C._backend_event_drop(self.device.index, self._at)


def _device(device):
    name = _C._get_privateuse1_backend_name()
    if device is None:
        return _C.device(name, _C._backend_current())
    device = _C.device(name, device) if isinstance(device, int) else _C.device(device)
    return _C.device(name, _C._backend_current()) if device.index is None else device


class _Chosen:
    """`with torch.<name>.device(1):` makes it the thread's device."""

    def __init__(self, device):
        self.index = _device(device).index

    def __enter__(self):
        self.before = _C._backend_current()
        _C._backend_set_current(self.index)

    def __exit__(self, *exception):
        _C._backend_set_current(self.before)


def _default_module(name):
    """torch.<name> of a device without a registered module."""
    module = types.ModuleType(f"{_root.NAME}.{name}", f"The device {name}.")
    random = sys.modules[_root.NAME].random
    module.is_available = lambda: _C._backend_count() > 0
    module.is_initialized = module.is_available
    module.device_count = _C._backend_count
    module.current_device = _C._backend_current
    module.set_device = _C._backend_set_current
    module.synchronize = lambda device=None: _C._backend_synchronize(device)
    module.get_device_name = lambda device=None: _C._backend_limits(device)[0]
    module.empty_cache = lambda: None
    module.manual_seed = module.manual_seed_all = random.manual_seed
    module.get_rng_state = lambda device=None: random.get_rng_state()
    module.set_rng_state = lambda state, device=None: random.set_rng_state(state)
    module.get_amp_supported_dtype = lambda: [_C.bfloat16, _C.float16]
    module.is_bf16_supported = lambda: True
    module.device, module.Stream, module.Event = _Chosen, Stream, Event
    return module


def load_backend(path):
    """Loads a device from a shared object (cresset_backend.h); tensors get its methods."""
    _C._load_backend(path)
    name = _C._get_privateuse1_backend_name()
    torch = sys.modules[_root.NAME]
    if not hasattr(torch, name):
        torch._register_device_module(name, _default_module(name))
    if not hasattr(_C.Tensor, name):
        generate_methods_for_privateuse1_backend()


def _add(owner, name, value):
    if hasattr(owner, name):
        raise RuntimeError(f"Can not automatically generate {name}() or {name} for "
                           f"{owner.__module__}.{owner.__name__}. Because torch has already defined it")
    setattr(owner, name, value)


def _is_there(self):
    return self.device.type == _C._get_privateuse1_backend_name()


def _move(self, device=None, non_blocking=False, **kwargs):
    """A copy on the device, or itself when it is already on the device."""
    name = _C._get_privateuse1_backend_name()
    if isinstance(device, int):
        device = _C.device(name, device)
    return self.to(device=_C.device(name) if device is None else device, non_blocking=non_blocking,
                   **kwargs)


def _move_module(self, device=None):
    """Moves all parameters and buffers to the device."""
    return self._apply(lambda t: _move(t, device))


def generate_methods_for_privateuse1_backend(for_tensor=True, for_module=True,
                                             for_packed_sequence=True, for_storage=False,
                                             unsupported_dtype=None):
    """Tensor.<name>(), Tensor.is_<name>, Module.<name>() and the like, for the device's name."""
    name = _C._get_privateuse1_backend_name()
    torch = sys.modules[_root.NAME]
    owners = []
    if for_tensor:
        owners.append(torch.Tensor)
    if for_packed_sequence:
        owners.append(torch.nn.utils.rnn.PackedSequence)
    if for_storage:
        owners += [torch.UntypedStorage, torch.TypedStorage]
    for owner in owners:
        is_there = property(_is_there) if owner is not torch.nn.utils.rnn.PackedSequence else \
            property(lambda self: self.data.device.type == name)
        _add(owner, f"is_{name}", is_there)
        _add(owner, name, _move)
    if for_module:
        _add(torch.nn.Module, name, _move_module)
