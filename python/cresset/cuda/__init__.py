"""CUDA, which this build lacks: queries return that there is none, other calls raise."""

__all__ = ["is_available", "device_count", "current_device", "synchronize", "empty_cache",
           "manual_seed", "manual_seed_all", "is_initialized", "init", "get_device_name",
           "get_device_properties", "set_device", "memory_allocated", "max_memory_allocated", "amp"]


def is_available():
    """Returns whether tensors can be on a CUDA device."""
    return False


def device_count():
    return 0


def is_initialized():
    return False


def is_bf16_supported(including_emulation=True):
    return False


def get_arch_list():
    return []


def manual_seed(seed):
    """Does nothing; torch does not seed the CPU's generator here, either."""


def manual_seed_all(seed):
    """Does nothing."""


def empty_cache():
    """Does nothing."""


def memory_allocated(device=None):
    return 0


def max_memory_allocated(device=None):
    return 0


def memory_reserved(device=None):
    return 0


def max_memory_reserved(device=None):
    return 0


def reset_peak_memory_stats(device=None):
    """Does nothing."""


def _refuse(*args, **kwargs):
    raise AssertionError("Torch not compiled with CUDA enabled")


init = _lazy_init = current_device = set_device = synchronize = _refuse
get_device_name = get_device_properties = get_device_capability = mem_get_info = _refuse
current_stream = default_stream = ipc_collect = _refuse


def __getattr__(name):
    if name == "amp":
        from importlib import import_module
        return import_module(f"{__name__}.amp")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
