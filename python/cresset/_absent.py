"""Parts of torch.cuda, torch.xpu and torch.mtia of a build that has no such devices.

Queries tell that there is no device, and classes serve as annotations and in isinstance.  Work on a
device raises.
"""
from collections import OrderedDict

from . import _C

DTYPES = ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")


def refusal(error):
    """Returns a function that raises `error`, for calls that need a device."""
    def refuse(*args, **kwargs):
        raise error
    return refuse


class _LegacyType(type):
    """The class of torch.cuda.FloatTensor and the like, which have no instances."""

    def __call__(cls, *args, **kwargs):
        raise TypeError(f"type {cls.__module__}.{cls.__name__} not available. Torch not compiled "
                        f"with {cls._title} enabled.")


def legacy_types(module, title):
    """Returns {name: class} of the tensor types of a device."""
    return {f"{kind}Tensor": _LegacyType(f"{kind}Tensor", (), {"__module__": module, "_title": title})
            for kind in DTYPES}


def _index(device):
    """The index that a device, a string or an int names; -1 for none."""
    if device is None:
        return -1
    if isinstance(device, int):
        return device
    index = _C.device(device).index
    return -1 if index is None else index


class device:
    """Makes a device the current one; without an index nothing changes."""

    def __init__(self, device):
        self.idx = _index(device)
        self.prev_idx = -1

    def _select(self, index):
        if index >= 0:
            raise self._error

    def __enter__(self):
        self._select(self.idx)

    def __exit__(self, type, value, traceback):
        return False


class StreamContext:
    """Makes a stream the current one; None changes nothing."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        if self.stream is not None:
            raise self._error

    def __exit__(self, type, value, traceback):
        pass


def parts(module, title, error):
    """Returns what the modules of all kinds of devices have in common, by name."""
    refuse = refusal(error)
    own = {"__module__": module, "_error": error}
    chosen = type("device", (device,), {**own, "__doc__": device.__doc__})

    def handle(name):
        def new(cls, *args, **kwargs):
            raise RuntimeError(f"Tried to instantiate dummy base class {name}")
        return type(name, (), {"__module__": module, "__new__": new,
                               "__doc__": "A class for annotations; it has no instances here."})

    def device_of(obj):
        return chosen(obj.get_device() if obj.device.type == module.rpartition(".")[2] else -1)

    found = {
        "device": chosen, "device_of": device_of,
        "StreamContext": type("StreamContext", (StreamContext,), {**own, "__doc__": StreamContext.__doc__}),
        **{name: handle(name) for name in ("Stream", "Event", "MemPool")},
        **{name: refuse for name in (
            "init", "_lazy_init", "current_device", "set_device", "synchronize", "get_device_name",
            "get_device_properties", "get_device_capability", "mem_get_info", "current_stream",
            "set_stream", "get_rng_state", "initial_seed", "can_device_access_peer",
            "set_per_process_memory_fraction", "get_per_process_memory_fraction")},
        "default_generators": ()}
    found["stream"] = found["StreamContext"]
    return found


def is_available():
    """Returns whether tensors can be on such a device."""
    return False


def is_initialized():
    """Returns whether the device is in use."""
    return False


def is_bf16_supported(including_emulation=True):
    """Returns whether the device computes in bfloat16."""
    return False


def is_tf32_supported():
    return False


def is_current_stream_capturing():
    """Returns whether a graph is being recorded."""
    return False


def device_count():
    """Returns the number of devices: none in this build."""
    return 0


def get_arch_list():
    return []


def get_gencode_flags():
    return ""


def manual_seed(seed):
    """Does nothing; torch does not seed the CPU's generator here, either."""


def manual_seed_all(seed):
    """Does nothing."""


def seed():
    """Does nothing."""


def seed_all():
    """Does nothing."""


def get_rng_state_all():
    """Returns the generators' states, one for each device."""
    return []


def set_rng_state_all(new_states):
    """Sets the generators' states, one for each device."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def set_rng_state(new_state, device=None):
    """Does nothing until there is a device."""
    new_state.clone()  # raises for anything but a tensor


def empty_cache():
    """Does nothing."""


def memory_allocated(device=None):
    """Returns the bytes of the tensors on a device: none in this build."""
    return 0


def max_memory_allocated(device=None):
    """Returns the most bytes that tensors on a device had: none in this build."""
    return 0


def memory_reserved(device=None):
    """Returns the bytes that the allocator holds on a device: none in this build."""
    return 0


def max_memory_reserved(device=None):
    """Returns the most bytes that the allocator held on a device: none in this build."""
    return 0


def memory_stats(device=None):
    """Returns the allocator's counters by name."""
    return OrderedDict()


def memory_stats_as_nested_dict(device=None):
    return {}


def reset_peak_memory_stats(device=None):
    """Does nothing."""


def reset_accumulated_memory_stats(device=None):
    """Does nothing."""


QUERIES = tuple(name for name, value in list(globals().items())
                if getattr(value, "__module__", None) == __name__ and name.islower()
                and name[0] != "_" and name not in ("refusal", "legacy_types", "parts", "device"))
RANDOM = ("get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all", "manual_seed",
          "manual_seed_all", "seed", "seed_all", "initial_seed")


def queries():
    """Returns the functions above that torch has in each of the modules, by name."""
    return {name: globals()[name] for name in QUERIES}
