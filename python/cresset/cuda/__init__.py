"""CUDA, which this build does not have: the questions are answered, the calls refused."""

__all__ = ["is_available", "device_count", "current_device", "synchronize", "empty_cache",
           "manual_seed", "manual_seed_all", "is_initialized", "init", "get_device_name",
           "get_device_properties", "set_device", "memory_allocated", "max_memory_allocated", "amp"]


def is_available():
    """Whether tensors can be on a CUDA device."""
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
    """Nothing to seed; the CPU's generator is left alone, as torch does."""


def manual_seed_all(seed):
    """Nothing to seed."""


def empty_cache():
    """Nothing is cached."""


def memory_allocated(device=None):
    return 0


def max_memory_allocated(device=None):
    return 0


def memory_reserved(device=None):
    return 0


def max_memory_reserved(device=None):
    return 0


def reset_peak_memory_stats(device=None):
    """There is nothing to reset."""


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
