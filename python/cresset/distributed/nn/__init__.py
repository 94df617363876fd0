"""Calls between ranks with derivatives, and modules in other processes."""
from .functional import all_gather, all_reduce, all_to_all, all_to_all_single, broadcast, gather, reduce, reduce_scatter, scatter  # noqa: F401


def __getattr__(name):
    if name == "RemoteModule":  # the agents of remote calls are imported when they are used
        from .api.remote_module import RemoteModule
        return RemoteModule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
