"""Distributed training, as in a torch that is built without it: is_available() returns False.

The package then has the errors and two classes for annotations only, so that programs which ask
is_available() first take their path for one process.
"""

__all__ = ["is_available"]


def is_available():
    """Returns whether the package can communicate with other processes: False."""
    return False


class DistError(RuntimeError):
    """An error of a distributed operation."""

    __module__ = "torch.distributed"


class DistBackendError(DistError):
    """An error of a backend."""

    __module__ = "torch.distributed"


class DistNetworkError(DistError):
    """An error of the network."""

    __module__ = "torch.distributed"


class DistStoreError(DistError):
    """An error of the store."""

    __module__ = "torch.distributed"


class QueueEmptyError(DistStoreError):
    """A queue of the store is empty."""

    __module__ = "torch.distributed"


class _Stub:
    """A class for annotations."""


GroupName = ProcessGroup = _Stub


def init_process_group(*args, **kwargs):
    """Raises a RuntimeError.  Scripts import this name and call it only in runs of several processes."""
    raise RuntimeError("torch.distributed is not available: this package runs in one process")


def destroy_process_group(group=None):
    """Does nothing: there is no process group."""


def __getattr__(name):
    if name in ("device_mesh", "rpc", "tensor"):
        from importlib import import_module
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
