"""Groups of processes: stores, calls between ranks, data-parallel training.

`init_process_group` makes the group of all ranks.  Backends for CPUs are "gloo" and "mpi"; "fake" plays one rank of a
run of any size.  docs/design/comm.md describes the library underneath.
"""
import sys

from ._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from ._errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from ._stores import FileStore, HashStore, PrefixStore, Store, TCPStore
from .distributed_c10d import *  # noqa: F403
from .distributed_c10d import (_all_gather_base, _coalescing_manager, _create_process_group_wrapper,  # noqa: F401
                               _get_process_group_name, _make_nccl_premul_sum, _rank_not_in_group, _reduce_scatter_base,
                               ProcessGroup, ReduceOp, Work)

from .rendezvous import register_rendezvous_handler, rendezvous
from . import _c10d_ops  # noqa: F401, torch.ops.c10d, and operators find groups by their names

RankType = int
_Work = Work


def is_available():
    """Returns whether the package can communicate with other processes: True."""
    return True


def breakpoint(rank=0, skip=0, timeout_s=3600):
    """Stops one rank in the debugger, while the others wait for it."""
    import pdb
    if get_rank() == rank:  # noqa: F405
        pdb.set_trace()
    barrier()  # noqa: F405


_LAZY = ("_functional_collectives", "_shard", "algorithms", "autograd", "checkpoint", "constants", "device_mesh",
         "distributed_c10d", "elastic", "launch", "launcher",
         "rendezvous", "rpc", "run", "tensor", "utils", "nn", "optim", "c10d_logger", "logging_handlers", "collective_utils",
         "argparse_util")
_NAMES = {"DeviceMesh": "device_mesh", "init_device_mesh": "device_mesh", "GradBucket": "_reducer", "Reducer": "_reducer",
          "Logger": "_reducer", "BuiltinCommHookType": "_reducer", "_ControlCollectives": "_store_collectives",
          "_StoreCollectives": "_store_collectives",
          **dict.fromkeys(("_broadcast_coalesced", "_compute_bucket_assignment_by_size", "_verify_params_across_processes",
                           "_DEFAULT_FIRST_BUCKET_BYTES"), "_reducer")}


def __getattr__(name):
    from importlib import import_module
    from importlib.util import find_spec
    if name in _LAZY and find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    from .._absent_names import missing
    raise missing(__name__, name)
