"""Remote procedure calls: functions that run in other processes, references to their results."""
import itertools
import logging
import os

from .. import rendezvous as _rendezvous
from . import api, backend_registry, constants, functions, internal, options  # noqa: F401
from ._agent import RpcAgent, TensorPipeAgent, WorkerInfo
from ._rref import PyRRef
from .api import (_cleanup_python_rpc_handler, _delete_all_user_and_unforked_owner_rrefs, _destroy_rref_context,  # noqa: F401
                  _get_current_rpc_agent, _get_debug_info, _is_current_rpc_agent_set, _reset_current_rpc_agent,
                  _rref_context_get_debug_info, _set_and_start_rpc_agent, _set_rpc_timeout, AllGatherStates,
                  enable_gil_profiling, get_rpc_timeout, get_worker_info, method_factory, new_method, remote, RRef, rpc_async,
                  rpc_sync, shutdown)
from .backend_registry import BackendType
from .constants import (DEFAULT_INIT_METHOD as _DEFAULT_INIT_METHOD,  # noqa: F401
                        DEFAULT_NUM_WORKER_THREADS as _DEFAULT_NUM_WORKER_THREADS,
                        DEFAULT_RPC_TIMEOUT_SEC as _DEFAULT_RPC_TIMEOUT_SEC, UNSET_RPC_TIMEOUT as _UNSET_RPC_TIMEOUT)
from .options import RpcBackendOptions, TensorPipeRpcBackendOptions

__all__ = ["is_available", "init_rpc", "rpc_sync", "rpc_async", "remote", "shutdown", "get_worker_info", "RRef", "PyRRef",
           "WorkerInfo", "RpcAgent", "TensorPipeAgent", "RpcBackendOptions", "TensorPipeRpcBackendOptions", "BackendType",
           "AllGatherStates", "method_factory", "new_method", "get_rpc_timeout", "enable_gil_profiling"]

logger = logging.getLogger(__name__)
_init_counter = itertools.count()


def is_available():
    """Returns whether functions can be called in other processes: True."""
    return True


def _rank_and_size(init_method, rank, world_size):
    """torch.distributed.rendezvous takes -1 for a number that the address or the environment has."""
    if rank == -1 and init_method.startswith("env:") and "RANK" not in os.environ:
        raise ValueError("Error initializing torch.distributed using env:// rendezvous: environment variable RANK expected, but "
                         "not set")
    if rank == -1 and "rank=" not in init_method and not init_method.startswith("env:"):
        raise ValueError(f"Error initializing torch.distributed using {init_method.partition(':')[0]}:// rendezvous: rank "
                         "parameter missing")
    return rank, world_size


def init_rpc(name, backend=None, rank=-1, world_size=None, rpc_backend_options=None):
    """Starts the agent of this process, and waits until `world_size` processes have started theirs.  Without world_size the
    group has the processes that are there, and further ones may join."""
    if backend is not None and not isinstance(backend, backend_registry.BackendType):
        raise TypeError("Argument backend must be a member of BackendType")
    if rpc_backend_options is not None and not isinstance(rpc_backend_options, RpcBackendOptions):
        raise TypeError("Argument rpc_backend_options must be an instance of RpcBackendOptions")
    if backend is None and rpc_backend_options is not None:
        if type(rpc_backend_options) is not TensorPipeRpcBackendOptions:
            raise TypeError(f"Could not infer backend for options {rpc_backend_options}")
    backend = backend or BackendType.TENSORPIPE
    if rpc_backend_options is None:
        rpc_backend_options = backend_registry.construct_rpc_backend_options(backend)
    address = rpc_backend_options.init_method
    rank, size = _rank_and_size(address, rank, world_size)
    if size is None and address.startswith("env:") and "WORLD_SIZE" in os.environ:
        size = world_size = int(os.environ["WORLD_SIZE"])
    if size is None and rank != -1 and not address.startswith("env:") and "world_size=" not in address:
        address, rank = f"{address}{'&' if '?' in address else '?'}rank={rank}&world_size=-1", -1
    try:
        store, rank, _ = next(_rendezvous(address, rank, -1 if size is None else size, **_no_wait(address)))
    except ValueError as error:
        raise ValueError(f"{error}") from None
    store = _prefixed(store)
    from .. import autograd
    autograd._init(rank)
    _init_rpc_backend(backend, store, name, rank, world_size, rpc_backend_options)


def _no_wait(address):
    """Processes that join later are not waited for at the store; the names of those of a fixed group are, afterwards."""
    return {"wait_for_workers": False} if address.startswith(("env:", "tcp:")) else {}


def _prefixed(store):
    """Every group of the run has keys of its own in the store."""
    from .. import PrefixStore
    return PrefixStore(f"rpc_prefix_{next(_init_counter)}", store)


def _init_rpc_backend(backend=BackendType.TENSORPIPE, store=None, name=None, rank=-1, world_size=None,
                      rpc_backend_options=None):
    if _is_current_rpc_agent_set():
        raise RuntimeError("RPC is already initialized")
    _validate_rpc_args(backend, store, name, rank, world_size, rpc_backend_options)
    api._init_rpc_states(backend_registry.init_backend(backend, store=store, name=name, rank=rank, world_size=world_size,
                                                       rpc_backend_options=rpc_backend_options))


def _validate_rpc_args(backend, store, name, rank, world_size, rpc_backend_options):
    from .. import Store
    kinds = {"backend": (backend, backend_registry.BackendType), "store": (store, Store), "name": (name, str),
             "rank": (rank, int), "world_size": (world_size, (int, type(None))),
             "rpc_backend_options": (rpc_backend_options, RpcBackendOptions)}
    for argument, (value, kind) in kinds.items():
        if not isinstance(value, kind):
            raise RuntimeError(f"Argument {argument} must be of type {kind} but got type {type(value)}")
