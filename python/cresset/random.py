"""The default generator of random numbers."""
import contextlib

from ._C import (default_generator, device as _device, get_rng_state, initial_seed, manual_seed, seed, set_rng_state)

__all__ = ["set_rng_state", "get_rng_state", "manual_seed", "seed", "initial_seed", "fork_rng",
           "default_generator", "thread_safe_generator"]


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, device_type="cuda"):
    """Restores the states of the generators of the CPU and of devices, all of them by default, at the end of the block."""
    if not enabled:
        yield
        return
    from . import cuda
    on_cuda = _device(device_type).type == "cuda" and cuda.device_count()
    devices = list(range(cuda.device_count()) if devices is None else devices) if on_cuda else []
    state, states = get_rng_state(), [cuda.get_rng_state(d) for d in devices]
    try:
        yield
    finally:
        set_rng_state(state)
        for d, of_device in zip(devices, states):
            cuda.set_rng_state(of_device, d)


def thread_safe_generator():
    """The generator of a worker that is a thread, or None: the default generator.

    Workers of data loaders are processes, whose default generators no other thread uses.
    """
    from .utils.data import get_worker_info
    info = get_worker_info()
    return getattr(info, "generator", None)
