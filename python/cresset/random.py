"""The default generator of random numbers."""
import contextlib

from ._C import (default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state)

__all__ = ["set_rng_state", "get_rng_state", "manual_seed", "seed", "initial_seed", "fork_rng",
           "default_generator", "thread_safe_generator"]


@contextlib.contextmanager
def fork_rng(devices=None, enabled=True, device_type="cuda"):
    """Restores the generator's state at the end of the block."""
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def thread_safe_generator():
    """The generator of a worker that is a thread, or None: the default generator.

    Workers of data loaders are processes, whose default generators no other thread uses.
    """
    from .utils.data import get_worker_info
    info = get_worker_info()
    return getattr(info, "generator", None)
