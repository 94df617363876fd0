"""Backends of remote procedure calls by name."""
import enum

from . import constants

__all__ = ["backend_registered", "register_backend", "construct_rpc_backend_options", "init_backend"]

_makers = {}  # name -> (function that makes options, function that makes an agent)


def _members(names):
    made = enum.Enum("BackendType", {name: name for name in names}, module=__name__)
    made.__repr__ = lambda self: "BackendType." + self.name
    return made


BackendType = _members(())


def backend_registered(backend_name):
    """Returns whether a backend has this name."""
    return backend_name in BackendType.__members__


def register_backend(backend_name, construct_rpc_backend_options_handler, init_backend_handler):
    """Makes a backend known: a function that makes its options, and one that makes and returns its agent from (store,
    name, rank, world_size, rpc_backend_options).  Returns the member of BackendType."""
    global BackendType
    if backend_registered(backend_name):
        raise RuntimeError(f"RPC backend {backend_name}: already registered")
    _makers[backend_name] = construct_rpc_backend_options_handler, init_backend_handler
    BackendType = _members(_makers)
    return BackendType[backend_name]


def construct_rpc_backend_options(backend, rpc_timeout=constants.DEFAULT_RPC_TIMEOUT_SEC,
                                  init_method=constants.DEFAULT_INIT_METHOD, **kwargs):
    """Returns options of a backend."""
    return _makers[backend.name][0](rpc_timeout=rpc_timeout, init_method=init_method, **kwargs)


def init_backend(backend, *args, **kwargs):
    """Starts a backend's agent and returns it."""
    return _makers[backend.name][1](*args, **kwargs)


def _tensorpipe_options(rpc_timeout, init_method, num_worker_threads=constants.DEFAULT_NUM_WORKER_THREADS, **kwargs):
    from .options import TensorPipeRpcBackendOptions
    return TensorPipeRpcBackendOptions(rpc_timeout=rpc_timeout, init_method=init_method,
                                       num_worker_threads=num_worker_threads, **kwargs)


def _tensorpipe_agent(store, name, rank, world_size, rpc_backend_options):
    from . import api
    from ._agent import TensorPipeAgent
    from .options import TensorPipeRpcBackendOptions
    if not isinstance(rpc_backend_options, TensorPipeRpcBackendOptions):
        raise TypeError(f"`rpc_backend_options` must be a `TensorPipeRpcBackendOptions`, got {rpc_backend_options!r}")
    agent = TensorPipeAgent(store, name, rank, world_size, rpc_backend_options)
    api._init_rpc_states(agent)
    return agent


register_backend("TENSORPIPE", _tensorpipe_options, _tensorpipe_agent)
