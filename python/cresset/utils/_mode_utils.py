"""Calls without the handlers of __torch_dispatch__."""
import contextlib

from .. import _C


@contextlib.contextmanager
def no_dispatch():
    """Inside, no __torch_dispatch__ of a class or mode is called."""
    with _C._DisableTorchDispatch():
        yield


def all_same_mode(modes):
    return all(mode == modes[0] for mode in modes)
