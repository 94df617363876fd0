"""Groups of processes and their calls, with torch's names."""
import contextlib
import functools
import inspect
import io
import logging
import os
import pickle
import sys
import threading
import warnings
from contextlib import contextmanager
from datetime import timedelta

import cresset

from .. import _C

from ._errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from ._groups import (AllgatherOptions, AllreduceCoalescedOptions, AllreduceOptions, AllToAllOptions,
                      BarrierOptions, BroadcastOptions, GatherOptions, premul_sum as _make_nccl_premul_sum,
                      ProcessGroup, ReduceOp, ReduceOptions, ReduceScatterOptions, ScatterOptions, Work, wraps_others)
from ._gloo import ProcessGroupGloo
from ._stores import FileStore, HashStore, milliseconds, PrefixStore, Store, TCPStore
from .constants import default_pg_nccl_timeout, default_pg_timeout
from .rendezvous import _rendezvous_of_group, register_rendezvous_handler, rendezvous  # noqa: F401
from ._debug import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env

__all__ = [
    "Backend", "BackendConfig", "GroupMember", "P2POp", "all_gather", "all_gather_coalesced", "all_gather_object",
    "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "send_object_list", "recv_object_list", "broadcast_object_list", "destroy_process_group", "gather", "gather_object",
    "get_backend_config", "get_backend", "get_default_backend_for_device", "get_rank", "get_world_size", "get_pg_count",
    "group", "init_process_group", "irecv", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_backend_available", "is_nccl_available", "is_torchelastic_launched", "is_ucc_available", "is_xccl_available",
    "isend", "monitored_barrier", "new_group", "new_subgroups", "new_subgroups_by_enumeration", "recv", "reduce",
    "reduce_scatter", "scatter", "scatter_object_list", "send", "supports_complex", "AllreduceCoalescedOptions",
    "AllreduceOptions", "AllToAllOptions", "BarrierOptions", "BroadcastOptions", "GatherOptions", "GroupName",
    "PrefixStore", "ProcessGroup", "ReduceOp", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions", "Store",
    "DebugLevel", "get_debug_level", "Work", "default_pg_timeout", "get_group_rank", "get_global_rank",
    "get_process_group_ranks", "reduce_op", "all_gather_single", "all_gather_into_tensor", "reduce_scatter_single",
    "reduce_scatter_tensor", "get_node_local_rank", "split_group", "shrink_group", "record_comm", "ProcessGroupGloo"]

_C._comm_set_inner_files(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, contextlib.__file__)
if not os.environ.get("CR_MPI") and os.path.exists(os.path.join(sys.prefix, "lib", "libmpi_abi.so.1")):
    os.environ["CR_MPI"] = os.path.join(sys.prefix, "lib", "libmpi_abi.so.1")

logger = logging.getLogger(__name__)
GroupName = str
STORE_BASED_BARRIER_PREFIX = "store_based_barrier_key"
_NOT_INITIALIZED = "Default process group has not been initialized, please make sure to call init_process_group."


# --- backends ----------------------------------------------------------------------------------------------------

class Backend(str):
    """A backend's name in lower case; the names of known backends are attributes."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"
    _plugins = {}
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}
    backend_capability = {GLOO: ["cpu", "cuda"], NCCL: ["cuda"], XCCL: ["xpu"], UCC: ["cpu", "cuda"],
                          MPI: ["cpu", "cuda"], FAKE: ["cpu", "cuda", "hpu", "xpu"]}
    backend_type_map = {UNDEFINED: ProcessGroup.BackendType.UNDEFINED, GLOO: ProcessGroup.BackendType.GLOO,
                        NCCL: ProcessGroup.BackendType.NCCL, UCC: ProcessGroup.BackendType.UCC,
                        MPI: ProcessGroup.BackendType.MPI, XCCL: ProcessGroup.BackendType.XCCL,
                        FAKE: ProcessGroup.BackendType.CUSTOM}

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        value = getattr(Backend, name.upper(), Backend.UNDEFINED)
        return name.lower() if value == Backend.UNDEFINED else value

    @classmethod
    def register_backend(cls, name, func, extended_api=False, devices=None):
        """Registers a backend: func(store, rank, size, timeout) returns a ProcessGroup.  With the extended API it
        gets an object of these facts, and options."""
        if not hasattr(cls, name.upper()):
            setattr(cls, name.upper(), name.lower())
        if name.lower() not in Backend.backend_list:
            Backend.backend_list.append(name.lower())
        devices = [devices] if isinstance(devices, str) else devices
        for device in devices or ():
            now = Backend.default_device_backend_map.get(device)
            if now is None or now == Backend.FAKE != name.lower():
                Backend.default_device_backend_map[device] = name.lower()
        if devices is None:
            warnings.warn(f"Device capability of {name} unspecified, assuming `cpu` and `cuda` or `xpu`. Please specify it via the "
                          "`devices` argument of `register_backend`.", stacklevel=2)
        Backend.backend_type_map[name.lower()] = ProcessGroup.BackendType.CUSTOM
        Backend.backend_capability[name.lower()] = list(devices or ["cpu", "cuda"])
        Backend._plugins[name.upper()] = Backend._BackendPlugin(func, extended_api)

    class _BackendPlugin:
        def __init__(self, creator_fn, extended_api):
            self.creator_fn, self.extended_api = creator_fn, extended_api


class BackendConfig:
    """Which backend serves which device, from "gloo" or "cpu:gloo,cuda:nccl"."""

    def __init__(self, backend):
        self.device_backend_map = {}
        text = str(backend)
        if text == Backend.UNDEFINED:
            self.device_backend_map = _default_backends()
        elif ":" in text:
            for pair in text.lower().split(","):
                device, colon, name = pair.partition(":")
                if not colon or not name:
                    raise ValueError(f"The custom backend string argument is invalid: {text}.\n                "
                                     "Custom backend string is an experimental feature where the backend string must be "
                                     "in the format:\n                \"<device_type1>:<backend1>,<device_type2>:<backend2>...\". "
                                     "e.g. 'cpu:gloo,cuda:nccl'")
                if device in self.device_backend_map:
                    raise ValueError(f"Duplicate device type {device} in backend string: {text}")
                self.device_backend_map[device] = Backend(name)
        else:
            for device in Backend.backend_capability.get(text.lower(), ["cpu", "cuda"]):
                self.device_backend_map[device] = Backend(text)

    def __repr__(self):
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())

    def get_device_backend_map(self):
        """Returns a dict from devices to backends."""
        return self.device_backend_map


def _default_backends():
    """Returns the backends of a run that names none: gloo, or mpi where there is no Gloo; nccl where GPUs are."""
    cuda = {"cuda": "nccl"} if _C._comm_is_available("nccl") else {}
    for name in ("gloo", "mpi"):
        if _C._comm_is_available(name):
            return {"cpu": name, **cuda}
    if cuda:
        return cuda
    raise DistBackendError("no backend for groups of processes is here: 'pip install mpich' brings backend 'mpi'; "
                           "'gloo' is there when the package is built where Gloo is installed (Debian: libgloo-dev)")


class P2POp:
    """A send or a receive of batch_isend_irecv: op is isend or irecv."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                             "``torch.distributed.irecv``.")
        _check_single_tensor(tensor, "tensor")
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = _group_or_default_group(group)
        self.peer = _canonicalize_global_rank(self.group, peer, group_peer)
        self.group_peer = get_group_rank(self.group, self.peer)

    def __repr__(self):
        name = "isend" if self.op is isend else "irecv"
        return (f"P2POp({name} pg={self.group.group_name}, group_src={get_rank(self.group)}, group_dst={self.group_peer}, "
                f"{self.tensor.shape}, {self.tensor.dtype})")


# --- the groups of this process ----------------------------------------------------------------------------------

class _World:
    """All groups of this process."""

    def __init__(self):
        self.default_pg = None
        self.pg_map = {}  # group: (backend, store)
        self.pg_names = {}
        self.pg_group_ranks = {}  # group: {global rank: group rank}
        self.pg_backend_config = {}
        self.group_count = 0
        self.tags_to_pg = {}
        self.pg_to_tag = {}


_world = _World()  # tests of programs replace it by one with other groups in each thread


def _adopt(pg):
    """Makes a group known that a program made by its class: its ranks are those of the run."""
    if pg not in _world.pg_map:
        _world.pg_map[pg], _world.pg_names[pg] = (pg.getBackendName(), None), pg.group_name
        _world.pg_group_ranks[pg] = {r: r for r in range(pg.size())}


def _forget(pg):
    for table in (_world.pg_map, _world.pg_names, _world.pg_group_ranks, _world.pg_backend_config, _world.pg_to_tag):
        table.pop(pg, None)


class _WorldMeta(type):
    @property
    def WORLD(cls):
        return _world.default_pg

    @WORLD.setter
    def WORLD(cls, pg):
        _world.default_pg = pg


class group(metaclass=_WorldMeta):
    """group.WORLD is the group of all ranks."""


class GroupMember(metaclass=_WorldMeta):
    """NON_GROUP_MEMBER stands for a group that this rank is not in."""

    NON_GROUP_MEMBER = -100


class _reduce_op:
    """A former name of ReduceOp."""

    def __getattribute__(self, name):
        if name in ("SUM", "PRODUCT", "MIN", "MAX"):
            warnings.warn("`torch.distributed.reduce_op` is deprecated, please use `torch.distributed.ReduceOp` instead",
                          FutureWarning, stacklevel=2)
            return getattr(ReduceOp, name)
        return object.__getattribute__(self, name)


reduce_op = _reduce_op()


def is_mpi_available():
    """Returns whether backend mpi is there."""
    return _C._comm_is_available("mpi")


def is_gloo_available():
    """Returns whether backend gloo is there."""
    return _C._comm_is_available("gloo")


def is_nccl_available():
    """Returns whether backend nccl is there: the library and a GPU."""
    return _C._comm_is_available("nccl")


def is_ucc_available():
    """Returns whether backend ucc is there."""
    return False


def is_xccl_available():
    """Returns whether backend xccl is there."""
    return False


def is_backend_available(backend):
    """Returns whether a backend is there."""
    name = backend.lower()
    if name in ("ucc", "xccl"):
        return False
    return _C._comm_is_available(name) or name.upper() in Backend._plugins


def is_initialized():
    """Returns whether the group of all ranks was made."""
    return _world.default_pg is not None


def is_torchelastic_launched():
    """Returns whether torchrun started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_node_local_rank(fallback_rank=None):
    """Returns the rank among the processes of this host, from the environment."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` "
                       "to work, assuming you are not running in a multi-device context and want the code to run locally "
                       "instead.")


def _get_default_group():
    if _world.default_pg is None:
        raise ValueError(_NOT_INITIALIZED)
    return _world.default_pg


def _get_default_store():
    return _world.pg_map[_get_default_group()][1]


def _group_or_default_group(pg=None):
    if pg is None or pg is group.WORLD:
        return _get_default_group()
    return pg


def _rank_not_in_group(pg):
    return pg == GroupMember.NON_GROUP_MEMBER


def _warn_not_in_group(name):
    warnings.warn(f"Running {name} on global rank {'-1' if group.WORLD is None else group.WORLD.rank()} which does not "
                  "belong to the given group.", stacklevel=3)


def get_group_rank(group, global_rank):
    """Returns a rank's number in a group."""
    if group is GroupMember.WORLD:
        return global_rank
    ranks = _ranks_of(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks[global_rank]


def get_global_rank(group, group_rank):
    """Returns the number in the whole run of a group's rank."""
    if group is GroupMember.WORLD:
        return group_rank
    for rank, number in _ranks_of(group).items():
        if number == group_rank:
            return rank
    raise ValueError(f"Group rank {group_rank} is not part of group {group}")


def _ranks_of(group):
    if group not in _world.pg_group_ranks:
        raise ValueError(f"Group {group} is not registered, please create group with torch.distributed.new_group API")
    return _world.pg_group_ranks[group]


def get_process_group_ranks(group):
    """Returns the numbers in the whole run of a group's ranks, in the group's order."""
    return list(_world.pg_group_ranks[_group_or_default_group(group)])


def _canonicalize_global_rank(pg, global_rank, group_rank, any_source=False):
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return get_global_rank(pg, group_rank)
    if global_rank is None and not any_source:
        raise ValueError("Must specify global_rank or group_rank")
    return global_rank


def _canonicalize_group_rank(pg, global_rank, group_rank, default=None):
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return group_rank
    if global_rank is None:
        if default is None:
            raise ValueError("Must specify global_rank or group_rank")
        global_rank = default
    return get_group_rank(pg, global_rank)


def get_rank(group=None):
    """Returns this process's rank in a group, or -1 outside of it."""
    if _rank_not_in_group(group):
        return -1
    pg = _group_or_default_group(group)
    return pg.rank() if pg is _world.default_pg else get_group_rank(pg, _get_default_group().rank())


def get_world_size(group=None):
    """Returns the number of ranks of a group, or -1 outside of it."""
    if _rank_not_in_group(group):
        return -1
    return _group_or_default_group(group).size()


def _get_group_size(pg):
    return get_world_size(pg)


def get_pg_count():
    """Returns the number of groups."""
    return _world.group_count


def get_backend(group=None):
    """Returns the name of a group's backend."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    return Backend(_world.pg_map[pg][0])


def get_backend_config(group=None):
    """Returns the backends of a group by device, as text."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    return str(_world.pg_backend_config[pg])


def get_default_backend_for_device(device):
    """Returns the backend that serves a device."""
    kind = device.type if isinstance(device, cresset.device) else str(device).partition(":")[0]
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def supports_complex(op):
    """Returns whether a reduction is defined for complex numbers."""
    return (op.op if isinstance(op, ReduceOp) else op) not in (
        ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


# --- making groups -----------------------------------------------------------------------------------------------

def _check_timeout(timeout):
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")


def init_process_group(backend=None, init_method=None, timeout=None, world_size=-1, rank=-1, store=None, group_name="",
                       pg_options=None, device_id=None, _ranks=None):
    """Makes the group of all ranks: by an address (env://, tcp://, file://), or by a store, a rank and a size."""
    if _world.default_pg is not None:
        raise ValueError("trying to initialize the default process group twice!")
    set_debug_level_from_env()
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None:
        if world_size <= 0:
            raise AssertionError("world_size must be positive if using store")
        if rank < 0:
            raise AssertionError("rank must be non-negative if using store")
    timeout = default_pg_timeout if timeout is None else timeout
    _check_timeout(timeout)
    backend = Backend(backend) if backend else Backend("undefined")
    if backend == Backend.MPI and store is None and init_method is None and _mpi_launched():
        pg = _make_group(rank if rank >= 0 else -1, world_size if world_size > 0 else -1, None, backend, None, "0",
                         timeout, "default_pg", pg_options)
    else:
        if store is None:
            store, rank, world_size = next(_meeting_place(backend)(init_method or "env://", rank, world_size, timeout=timeout))
            store.set_timeout(timeout)
            if rank < 0 or world_size < 1 or rank >= world_size:
                raise ValueError(f"rank {rank} is not in a run of {world_size} ranks")
            store = PrefixStore("default_pg", store)
        pg = _make_group(rank, world_size, None, backend, store, "0", timeout, "default_pg", pg_options)
    _world.default_pg = pg


def _meeting_place(backend):
    """Returns how ranks find their store: engines' groups meet there, those of programs' backends may not."""
    backends = BackendConfig(backend).device_backend_map.values()
    return rendezvous if any(name.upper() in Backend._plugins for name in backends) else _rendezvous_of_group


def _mpi_launched():
    return any(name in os.environ for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"))


def _plugin_group(name, store, rank, size, timeout, ranks, group_id, options):
    """Makes a group of a backend that a program registered."""
    plugin = Backend._plugins[name.upper()]
    if not plugin.extended_api:
        return plugin.creator_fn(store, rank, size, timeout)
    how = type("DistributedBackendOptions", (), {})()
    how.store, how.group_rank, how.group_size, how.timeout = store, rank, size, timeout
    how.group_id, how.global_ranks_in_group = group_id, ranks
    return plugin.creator_fn(how, options)


def _make_group(rank, size, ranks, backend, store, name, timeout, desc, options=None):
    """Makes a group.  rank -1: the engine knows.  ranks: numbers in the whole run, or None for all."""
    config = BackendConfig(backend)
    engines = list(dict.fromkeys(config.device_backend_map.values()))
    engine = config.device_backend_map.get("cpu", engines[0])
    inner = None if store is None else PrefixStore(f"{name}/", store)  # each group has keys of its own
    if engine.upper() in Backend._plugins:
        pg = _plugin_group(engine, inner, rank, size, timeout, ranks or [], name, options)
        if not isinstance(pg, ProcessGroup):
            raise TypeError(f"Backend {engine} made a {type(pg).__name__}, not a ProcessGroup")
        pg._rank, pg._size = rank, size
    else:
        if engine in (Backend.UCC, Backend.XCCL):
            raise RuntimeError(f"Distributed package doesn't have {engine.upper()} built in; 'gloo' and 'mpi' are for CPUs, "
                               "'nccl' is for NVIDIA's GPUs")
        pg = (ProcessGroupGloo if engine == Backend.GLOO else ProcessGroup)(rank, size)
        for other in engines:
            under = None if inner is None else PrefixStore(other, inner)._handle if other != engine else inner._handle
            try:
                pg._handles[other] = _C._comm_group(other, desc, rank, size, tuple(ranks) if ranks else None, under,
                                                    milliseconds(timeout), "")
            except DistBackendError as error:
                if other != Backend.NCCL or _C._comm_is_available(other):
                    raise
                raise RuntimeError(f"Distributed package doesn't have NCCL built in: {error}") from None
            pg._handles[other].compares = get_debug_level() == DebugLevel.DETAIL
        pg._handle, pg._by_device = pg._handles[engine], {d: pg._handles[e] for d, e in config.device_backend_map.items()}
        pg._rank, pg._size, pg._store = pg._handle.rank, pg._handle.size, inner
        if engine == Backend.GLOO and inner is not None and get_debug_level() == DebugLevel.DETAIL:
            pg = _create_process_group_wrapper(pg, "compared", inner, pg._rank, pg._size, timeout)
    pg._set_group_name(name)
    pg._set_group_desc(desc)
    _world.pg_map[pg] = (engine, inner)
    _world.pg_names[pg] = name
    _world.pg_backend_config[pg] = config
    _world.pg_group_ranks[pg] = {r: i for i, r in enumerate(ranks or range(pg.size()))}
    _world.group_count += 1
    return pg


def _create_process_group_wrapper(wrapped_pg, store_prefix, store, rank, world_size, timeout=default_pg_timeout):
    """Returns a group that compares the ranks' calls before those of wrapped_pg, which stays usable when they differ."""
    from ._wrapper import _create_process_group_wrapper as make
    return make(wrapped_pg, store_prefix, store, rank, world_size, timeout)


def _local_group_name(ranks):
    """Returns a name that the ranks of a group agree on without the others."""
    key = "-".join(map(str, ranks))
    counts = _world.tags_to_pg  # has names of the library's own alone
    counts[key] = counts.get(key, 0) + 1
    return f"local-{key}-{counts[key]}"


def new_group(ranks=None, timeout=None, backend=None, pg_options=None, use_local_synchronization=False, group_desc=None,
              device_id=None, sort_ranks=True):
    """Makes a group of some ranks.  All ranks call it, with the same ranks and in the same order; with
    use_local_synchronization only the group's ranks."""
    default = _get_default_group()
    if timeout is not None:
        _check_timeout(timeout)
    size = default.size()
    if ranks is not None:
        ranks = sorted(ranks) if sort_ranks else list(ranks)
        if len(ranks) > size:
            raise ValueError("the new group's world size should be less or equal to the world size set by init_process_group")
        if len(set(ranks)) != len(ranks):
            raise ValueError(f"ranks list must not contain duplicate entries, got {ranks}")
        for r in ranks:
            if r < 0 or r >= size:
                raise ValueError(f"Rank {r} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})")
    members = list(range(size)) if ranks is None else ranks
    if use_local_synchronization:
        name = _local_group_name(members)
    else:
        name = str(_world.group_count)
        if default.rank() not in members:
            _world.group_count += 1
    if default.rank() not in members:
        return None if use_local_synchronization else GroupMember.NON_GROUP_MEMBER
    if timeout is None:
        timeout = timedelta(milliseconds=default._handle.timeout_ms) if default._handle is not None else default_pg_timeout
    return _make_group(members.index(default.rank()), len(members), members, backend or str(_world.pg_backend_config[default]),
                       _world.pg_map[default][1], name, timeout, group_desc or f"group {name}", pg_options)


def new_subgroups(group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Makes groups of group_size ranks each.  Returns this rank's group and all groups."""
    size = get_world_size()
    if group_size is None:
        raise ValueError("Default group size only takes effect when CUDA is available. If your subgroup using a backend that "
                         "does not depend on CUDA, please pass in 'group_size' correctly.")
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size}'")
    lists = [list(range(first, first + group_size)) for first in range(0, size, group_size)]
    return new_subgroups_by_enumeration(lists, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None):
    """Makes groups of these lists of ranks.  Returns this rank's group and all groups."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    groups, own, seen = [], None, {}
    for i, ranks in enumerate(ranks_per_subgroup_list):
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {ranks_per_subgroup_list[seen[rank]]} and {ranks}")
            seen[rank] = i
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(made)
        if get_rank() in ranks:
            own = made
    return own, groups


def split_group(parent_pg=None, split_ranks=None, timeout=None, pg_options=None, group_desc=None, backend=None):
    """Makes groups of lists of the parent's ranks, which together name each rank at most once."""
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    parent = _group_or_default_group(parent_pg)
    all_ranks = get_process_group_ranks(parent)
    own = None
    for ranks in split_ranks:
        if len(ranks) > parent.size() or len(set(ranks)) != len(ranks):
            raise ValueError("the split group's size should be less or equal to the world_size set by init_process_group")
        members = [all_ranks[r] for r in sorted(ranks)]
        if parent.rank() in ranks:
            own = new_group(members, timeout, backend or get_backend(parent), pg_options, True, group_desc)
    return own


def shrink_group(ranks_to_exclude, group=None, shrink_flags=0, pg_options=None):
    """Makes a group without some ranks, which do not call it."""
    pg = _group_or_default_group(group)
    excluded = set(ranks_to_exclude)
    if not excluded:
        raise ValueError("ranks_to_exclude cannot be empty")
    ranks = get_process_group_ranks(pg)
    if not excluded <= set(range(len(ranks))):
        raise ValueError(f"ranks_to_exclude {sorted(excluded)} are not all in a group of {len(ranks)} ranks")
    return new_group([r for i, r in enumerate(ranks) if i not in excluded], use_local_synchronization=True)


def destroy_process_group(group=None):
    """Ends a group; without one, or for the group of all ranks, all groups."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    pg = group if group is not None else GroupMember.WORLD
    if pg is None:
        raise AssertionError("Process group cannot be None")
    if pg not in _world.pg_map:
        raise ValueError("Invalid process group specified or has been destroyed.")
    if pg is GroupMember.WORLD:
        for other in reversed(list(_world.pg_map)):
            other.shutdown()
            _forget(other)
        _world.tags_to_pg.clear()
        _world.default_pg, _world.group_count = None, 0
    else:
        pg.shutdown()
        _forget(pg)


def _abort_process_group(group=None):
    """Ends a group at once: calls in progress fail at all ranks."""
    pg = _group_or_default_group(group)
    for each in list(_world.pg_map) if pg is GroupMember.WORLD else [pg]:
        each.abort()
    destroy_process_group(pg)


def _get_process_group_name(pg):
    return _world.pg_names.get(pg, "None")


def _get_process_group_store(pg):
    return _world.pg_map[pg][1]


def _resolve_process_group(group_name):
    if isinstance(group_name, ProcessGroup):
        return group_name
    for pg, name in [*_world.pg_names.items(), *((pg, name) for name, pg in _named_groups().items())]:
        if name == group_name:
            return pg
    raise _no_such_name(group_name)


def _no_such_name(name):
    return RuntimeError(f"Could not resolve the process group registered under the name {name}")


_named = {}  # thread, or None for all: groups that programs registered, by name
_named_by_thread = False


def _named_groups():
    return _named.setdefault(threading.get_ident() if _named_by_thread else None, {})


def _register_process_group(group_name, group):
    """Makes a group one that operators of graphs find by its name."""
    _named_groups()[group_name] = group


def _unregister_process_group(group_name):
    """Undoes _register_process_group."""
    _named_groups().pop(group_name, None)


def _unregister_all_process_groups():
    """Undoes all calls of _register_process_group."""
    _named_groups().clear()


def _set_thread_isolation_mode(enable):
    """Makes names of groups those of the thread that registers them, or, with False, those of all threads."""
    global _named_by_thread
    _named_by_thread = bool(enable)


# --- checks ------------------------------------------------------------------------------------------------------

def _check_single_tensor(param, name):
    if not isinstance(param, cresset.Tensor):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n             but got "
                        f"{type(param)} instead.")


def _check_tensor_list(param, name):
    if not isinstance(param, list):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             but "
                        f"got {type(param)} instead.")
    for p in param:
        if not isinstance(p, cresset.Tensor):
            raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n             "
                            f"but got {type(param)} with elements of type {[type(p) for p in param]}.")


def _flat(items):
    for item in items:
        if isinstance(item, (list, tuple)):
            yield from _flat(item)
        else:
            yield item


def _ensure_all_tensors_same_dtype(*tensors):
    last = None
    for tensor in _flat(tensors):
        if last is not None and tensor.dtype != last:
            raise ValueError(f"Invalid usage of tensors with different dtypesFound {last} and  {tensor.dtype}")
        last = tensor.dtype


def _check_op(op, tensors, name):
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}(): argument 'op' must be ReduceOp, not {type(op).__name__}")
    op = op.op
    for tensor in _flat(tensors):
        if tensor.is_complex() and not supports_complex(op):
            raise ValueError(f"{name} does not support {op} on complex tensors")
        if op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR) and (tensor.is_complex() or tensor.is_floating_point()):
            raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")


def _finish(work, async_op):
    if async_op:
        return work
    if work is not None:
        work.wait(timedelta(0))  # 0: the limit of the group; wait() of a program's class may need the argument
    return None


def _with(options, async_op, **fields):
    options.asyncOp = async_op
    for name, value in fields.items():
        setattr(options, name, value)
    return options


# --- calls -------------------------------------------------------------------------------------------------------

@contextmanager
def _coalescing_manager(group=None, device=None, async_ops=False):
    """Calls inside of the context start together at its end."""
    pg = _group_or_default_group(group)

    class Manager:
        work = None

        def append(self, work):
            pass

        def wait(self):
            if self.work is not None:
                self.work.wait()
    manager = Manager()
    pg._start_coalescing(device)
    try:
        yield manager
    except BaseException:
        pg._coalesced = None
        raise
    manager.work = pg._end_coalescing(device) if pg._coalesced else None
    pg._coalesced = None
    if not async_ops:
        manager.wait()


def _wraps_others(x):
    return any(map(wraps_others, x)) if isinstance(x, (list, tuple)) else wraps_others(x)


def _in_graphs(name):
    """Makes a call an operator in recorded programs, and for tensors that wrap others, by a function of
    _functional_collectives.  With async_op the work cannot be recorded, and the program is cut there."""
    def decorate(call):
        signature = inspect.signature(call)

        @functools.wraps(call)
        def either(*args, **kwargs):
            if cresset.compiler.is_compiling() or any(map(_wraps_others, args)):
                bound = signature.bind(*args, **kwargs).arguments
                if not bound.get("async_op") and not _rank_not_in_group(bound.get("group")):
                    from . import _functional_collectives
                    if getattr(_functional_collectives, name)(*args, **kwargs) is not NotImplemented:
                        return None
            return call(*args, **kwargs)
        return either
    return decorate


@_in_graphs("broadcast_inplace")
def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Copies the tensor of rank src to all ranks."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("broadcast")
    _check_single_tensor(tensor, "tensor")
    root = _canonicalize_group_rank(pg, src, group_src)
    return _finish(pg.broadcast([tensor], _with(BroadcastOptions(), async_op, rootRank=root)), async_op)


@_in_graphs("all_reduce_inplace")
def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces a tensor over all ranks, in place."""
    _check_single_tensor(tensor, "tensor")
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("all_reduce")
    _check_op(op, [tensor], "all_reduce")
    return _finish(pg.allreduce([tensor], _with(AllreduceOptions(), async_op, reduceOp=op)), async_op)


@_in_graphs("all_reduce_list_inplace")
def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces several tensors over all ranks."""
    tensors = [tensors] if isinstance(tensors, cresset.Tensor) else tensors
    _check_tensor_list(tensors, "tensor")
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("all_reduce_coalesced")
    _check_op(op, tensors, "all_reduce")
    tensors = [cresset.view_as_real(t) if t.is_complex() else t for t in tensors]
    options = _with(AllreduceCoalescedOptions(), async_op, reduceOp=op)
    work = pg.allreduce_coalesced(tensors, options)
    return work.get_future() if async_op else _finish(work, False)


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Reduces a tensor over all ranks; rank dst gets the result."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("reduce")
    _check_single_tensor(tensor, "tensor")
    _check_op(op, [tensor], "reduce")
    root = _canonicalize_group_rank(pg, dst, group_dst)
    return _finish(pg.reduce([tensor], _with(ReduceOptions(), async_op, reduceOp=op, rootRank=root)), async_op)


@_in_graphs("all_gather_inplace")
def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Collects each rank's tensor in tensor_list."""
    _check_tensor_list(tensor_list, "tensor_list")
    _check_single_tensor(tensor, "tensor")
    _ensure_all_tensors_same_dtype(tensor_list, tensor)
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("all_gather")
    return _finish(pg.allgather([tensor_list], [tensor], _with(AllgatherOptions(), async_op)), async_op)


@_in_graphs("all_gather_tensor_inplace")
def all_gather_single(output_tensor, input_tensor, group=None, async_op=False):
    """Collects each rank's tensor in one tensor."""
    _check_single_tensor(input_tensor, "input_tensor")
    _check_single_tensor(output_tensor, "output_tensor")
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("all_gather_into_tensor")
    _ensure_all_tensors_same_dtype(output_tensor, input_tensor)
    return _finish(pg._allgather_base(output_tensor, input_tensor, _with(AllgatherOptions(), async_op)), async_op)


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """Collects each rank's tensor in one tensor."""
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def _all_gather_base(output_tensor, input_tensor, group=None, async_op=False):
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """Collects several tensors of each rank; output_tensor_lists[rank] has that rank's."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("all_gather_coalesced")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(input_tensor_list)
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for tensors in output_tensor_lists:
        _check_tensor_list(tensors, "output_tensor_lists")
    work = pg.allgather_coalesced(output_tensor_lists, input_tensor_list, _with(AllgatherOptions(), async_op))
    return work.get_future() if async_op else _finish(work, False)


def _check_root_list(tensors, tensor, name, is_root, side):
    """Only the root gives a list of tensors."""
    if not is_root and tensors:
        raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{side} ranks.")
    if is_root and not tensors:
        raise ValueError(f"Argument ``{name}`` must be specified on {side} rank.")
    if is_root:
        _check_tensor_list(tensors, name)
        _ensure_all_tensors_same_dtype(tensor, tensors)


def _list_of_root(name, tensor, tensors, root, group, async_op, group_root):
    """Runs gather or scatter: the root has a list of tensors, and every rank one tensor."""
    _check_single_tensor(tensor, "tensor")
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group(name)
    root = _canonicalize_group_rank(pg, root, group_root, 0 if pg is GroupMember.WORLD else get_global_rank(pg, 0))
    gathers, lists = name == "gather", [tensors] if pg.rank() == root else []
    _check_root_list(tensors, tensor, f"{name}_list", pg.rank() == root, "destination" if gathers else "source")
    options = _with(GatherOptions() if gathers else ScatterOptions(), async_op, rootRank=root)
    return _finish(pg.gather(lists, [tensor], options) if gathers else pg.scatter([tensor], lists, options), async_op)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Collects each rank's tensor at rank dst."""
    return _list_of_root("gather", tensor, gather_list, dst, group, async_op, group_dst)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Gives each rank one tensor of rank src's list."""
    return _list_of_root("scatter", tensor, scatter_list, src, group, async_op, group_src)


@_in_graphs("reduce_scatter_inplace")
def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces a list of tensors over all ranks; each rank gets one of them."""
    _check_single_tensor(output, "output")
    _check_tensor_list(input_list, "input_list")
    _ensure_all_tensors_same_dtype(output, input_list)
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("reduce_scatter")
    _check_op(op, [output], "reduce_scatter")
    return _finish(pg.reduce_scatter([output], [input_list], _with(ReduceScatterOptions(), async_op, reduceOp=op)), async_op)


@_in_graphs("reduce_scatter_tensor_inplace")
def reduce_scatter_single(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces a tensor over all ranks; each rank gets its part."""
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("reduce_scatter_tensor")
    _ensure_all_tensors_same_dtype(output, input)
    _check_op(op, [output], "reduce_scatter_tensor")
    return _finish(pg._reduce_scatter_base(output, input, _with(ReduceScatterOptions(), async_op, reduceOp=op)), async_op)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces a tensor over all ranks; each rank gets its part."""
    return reduce_scatter_single(output, input, op, group, async_op)


def _reduce_scatter_base(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    return reduce_scatter_single(output, input, op, group, async_op)


@_in_graphs("all_to_all_inplace")
def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Gives each rank a part of the input, and gets a part of the output from each."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("all_to_all_single")
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    _ensure_all_tensors_same_dtype(output, input)
    out_sizes, in_sizes = ([] if sizes is None else [int(n) for n in sizes] for sizes in (output_split_sizes, input_split_sizes))
    work = pg.all_to_all_single(output, input, out_sizes, in_sizes, _with(AllToAllOptions(), async_op))
    return _finish(work, async_op)


@_in_graphs("all_to_all_list_inplace")
def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Gives each rank one tensor and gets one from each."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("all_to_all")
    _check_tensor_list(output_tensor_list, "output_tensor_list")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(output_tensor_list, input_tensor_list)
    return _finish(pg.alltoall(output_tensor_list, input_tensor_list, _with(AllToAllOptions(), async_op)), async_op)


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Waits for all ranks."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("barrier")
    if device_ids is not None and not isinstance(device_ids, list):
        raise TypeError("Invalid function argument: device_ids type should be List[int]")
    options = _with(BarrierOptions(), async_op)
    if timeout is not None:
        options.timeout = timeout
    return _finish(pg.barrier(options), async_op)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Waits for all ranks; rank 0 raises an error that names the ranks which do not come."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("monitored_barrier")
    if isinstance(timeout, float):
        warnings.warn(f"Please specify timeout arg as a timedelta. Converting current value of {timeout} assuming it represents "
                      "seconds", stacklevel=2)
        timeout = timedelta(seconds=timeout)
    if timeout is not None:
        _check_timeout(timeout)
        if timeout <= timedelta(0):
            raise ValueError("monitoredBarrier: the timeout must be positive")
    _group_or_default_group(group).monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)
    return None


# --- messages ----------------------------------------------------------------------------------------------------

def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Starts to send a tensor."""
    pg = _group_or_default_group(group)
    peer = _canonicalize_group_rank(pg, dst, group_dst) if not _rank_not_in_group(pg) else -1
    _check_single_tensor(tensor, "tensor")
    if _rank_not_in_group(pg):
        return _warn_not_in_group("isend")
    _check_peer(pg, peer, "destination")
    return pg.send([tensor], peer, tag)


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Starts to receive a tensor; from any rank without src."""
    _check_single_tensor(tensor, "tensor")
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("irecv")
    if src is None and group_src is None:
        return pg.recv_anysource([tensor], tag)
    peer = _canonicalize_group_rank(pg, src, group_src)
    _check_peer(pg, peer, "source")
    return pg.recv([tensor], peer, tag)


def _check_peer(pg, peer, what):
    if peer == pg.rank():
        raise ValueError(f"Invalid {what} rank: {what} rank should not be the same as the rank of the current process.")


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Sends a tensor, and waits until it is on its way."""
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receives a tensor and returns the sender's rank."""
    return _receive(tensor, src, group, tag, group_src)


def _receive(tensor, src, group, tag, group_src, *limit):
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait(*limit)
    pg = _group_or_default_group(group)
    if src is None and group_src is None:
        return get_global_rank(pg, work._source_rank())
    return _canonicalize_global_rank(pg, src, group_src)


def batch_isend_irecv(p2p_op_list):
    """Starts all sends and receives of a list; returns their works."""
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    if not p2p_op_list:
        raise ValueError("``p2p_op_list`` cannot be empty")
    if len({id(op.group) for op in p2p_op_list}) != 1:
        raise ValueError("All ops need to use the same group.")
    pg = p2p_op_list[0].group
    together = not _rank_not_in_group(pg) and pg._handles and pg._handle_of(
        [(None,) * 5 + ([op.tensor for op in p2p_op_list], [])]).device != "cpu"
    if together:  # a GPU runs messages one after the other, unless they start together
        pg._start_coalescing()
    works = [op.op(op.tensor, op.peer, op.group, op.tag) for op in p2p_op_list]
    return [pg._end_coalescing()] if together else [work for work in works if work is not None]


# --- objects -----------------------------------------------------------------------------------------------------

def _object_to_tensor(obj, device="cpu"):
    buffer = io.BytesIO()
    pickle.Pickler(buffer).dump(obj)
    data = cresset.frombuffer(bytearray(buffer.getvalue()), dtype=cresset.uint8).to(device)
    return data, cresset.tensor([data.numel()], dtype=cresset.int64, device=device)


def _tensor_to_object(tensor, size):
    return pickle.Unpickler(io.BytesIO(tensor[:size].cpu().numpy().tobytes())).load()


def _object_device(pg):
    """Returns the device on which objects travel: the host, unless a group has GPUs alone."""
    if pg._handle is None or pg._handle.device == "cpu":
        return cresset.device("cpu")
    return cresset.device("cuda", cresset.cuda.current_device())


def _limit_of_host(group):
    """The argument of wait() for calls whose results the host reads: with a limit the host waits for calls on GPUs to end.  One
    that fails leaves other bytes."""
    return () if _object_device(group).type == "cpu" else (timedelta(milliseconds=group._handle.timeout_ms),)


def _for_the_host(call, group, *args, **kwargs):
    """Runs a call whose results the host reads."""
    limit = _limit_of_host(group)
    work = call(*args, group=group, async_op=bool(limit), **kwargs)
    if limit:
        work.wait(*limit)


def all_gather_object(object_list, obj, group=None):
    """Collects each rank's object in object_list."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("all_gather_object")
    data, size = _object_to_tensor(obj, _object_device(pg))
    sizes = cresset.zeros(pg.size(), dtype=cresset.int64, device=_object_device(pg))
    _for_the_host(all_gather_single, pg, sizes, size)
    parts = [cresset.empty(n, dtype=cresset.uint8, device=_object_device(pg)) for n in sizes.tolist()]
    _for_the_host(all_gather, pg, parts, data)
    for i, part in enumerate(parts):
        object_list[i] = _tensor_to_object(part, part.numel())


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Collects each rank's object at rank dst."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("gather_object")
    root = _canonicalize_group_rank(pg, dst, group_dst, 0 if pg is GroupMember.WORLD else get_global_rank(pg, 0))
    if pg.rank() == root and not object_gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    if pg.rank() != root and object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    data, size = _object_to_tensor(obj, _object_device(pg))
    sizes = cresset.zeros(pg.size(), dtype=cresset.int64, device=_object_device(pg))
    _for_the_host(all_gather_single, pg, sizes, size)
    parts = [cresset.empty(n, dtype=cresset.uint8, device=_object_device(pg)) for n in sizes.tolist()] if pg.rank() == root else None
    _for_the_host(gather, pg, data, parts, group_dst=root)
    for i, part in enumerate(parts or ()):
        object_gather_list[i] = _tensor_to_object(part, part.numel())


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """Copies the list of rank src to all ranks, whose lists have the same length."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("broadcast_object_list")
    root = _canonicalize_group_rank(pg, src, group_src, 0)
    own = [_object_to_tensor(obj, _object_device(pg))[0] for obj in object_list] if pg.rank() == root else []
    sizes = cresset.tensor([d.numel() for d in own] or [0] * len(object_list), dtype=cresset.int64, device=_object_device(pg))
    _for_the_host(broadcast, pg, sizes, group_src=root)
    whole = cresset.cat(own) if own else cresset.empty(int(sizes.sum()), dtype=cresset.uint8, device=_object_device(pg))
    _for_the_host(broadcast, pg, whole, group_src=root)
    if pg.rank() != root:
        for i, part in enumerate(whole.split(sizes.tolist())):
            object_list[i] = _tensor_to_object(part, part.numel())


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None):
    """Gives each rank one object of rank src's list, as the first item of the output list."""
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("scatter_object_list")
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = _canonicalize_group_rank(pg, src, group_src, 0)
    own = []
    if pg.rank() == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        if len(scatter_object_input_list) != pg.size():
            raise ValueError(f"scatter_object_input_list has {len(scatter_object_input_list)} objects for {pg.size()} ranks")
        own = [_object_to_tensor(obj, _object_device(pg))[0] for obj in scatter_object_input_list]
    sizes = cresset.tensor([d.numel() for d in own] or [0] * pg.size(), dtype=cresset.int64, device=_object_device(pg))
    _for_the_host(broadcast, pg, sizes, group_src=root)
    part = cresset.empty(int(sizes[pg.rank()]), dtype=cresset.uint8, device=_object_device(pg))
    _for_the_host(scatter, pg, part, own or None, group_src=root)
    scatter_object_output_list[0] = _tensor_to_object(part, part.numel())


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Sends a list of objects to a rank, which receives a list of the same length."""
    pg = _group_or_default_group(group)
    peer = _canonicalize_group_rank(pg, dst, group_dst)
    _check_peer(pg, peer, "destination")
    parts = [_object_to_tensor(obj, _object_device(pg))[0] for obj in object_list]
    send(cresset.tensor([p.numel() for p in parts], dtype=cresset.int64, device=_object_device(pg)), group=pg, group_dst=peer)
    send(cresset.cat(parts), group=pg, group_dst=peer)


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Receives a list of objects and returns the sender's rank."""
    pg = _group_or_default_group(group)
    sizes = cresset.zeros(len(object_list), dtype=cresset.int64, device=_object_device(pg))
    sender = _receive(sizes, src, pg, 0, group_src, *_limit_of_host(pg))
    whole = cresset.empty(int(sizes.sum()), dtype=cresset.uint8, device=_object_device(pg))
    _receive(whole, sender, pg, 0, None, *_limit_of_host(pg))
    for i, part in enumerate(whole.split(sizes.tolist())):
        object_list[i] = _tensor_to_object(part, part.numel())
    return sender


@contextmanager
def record_comm(name="", *args, **kwargs):
    """Names the calls inside of the context in profiles."""
    with cresset.profiler.record_function(name or "record_comm"):
        yield


def _get_pg_default_device(group=None):
    return _object_device(_group_or_default_group(group))


_get_object_coll_device = _get_pg_default_device


def _get_default_timeout(backend):
    return default_pg_nccl_timeout if backend == Backend.NCCL else default_pg_timeout


def _set_pg_timeout(timeout, group=None):
    """Sets the limit of a group's calls."""
    _check_timeout(timeout)
    _group_or_default_group(group).set_timeout(timeout)


def _store_based_barrier(rank, store, group_name, rendezvous_count, timeout, logging_interval=timedelta(seconds=10)):
    """Waits at a store for rendezvous_count processes."""
    store.barrier(f"store_based_barrier_key:{group_name}", rendezvous_count, timeout)


def _flight_recorder(group=None):
    """Returns the last 4,096 calls of a group as dicts; `start` is a time of time.monotonic()."""
    names = ("seq", "op", "elements", "dtype", "line", "state", "seconds", "results", "start")
    lines = _group_or_default_group(group)._need().history().splitlines()
    return [dict(zip(names, line.split("\t"))) for line in lines]


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
