"""A box of a tensor and the rank that has it."""
from dataclasses import dataclass

from .. import distributed_c10d as dist
from ..remote_device import _remote_device

__all__ = ["ShardMetadata"]


@dataclass
class ShardMetadata:
    """The place of a box; placement may be given as "rank:0/cpu"."""

    shard_offsets: list
    shard_sizes: list
    placement: _remote_device | None = None

    def __post_init__(self):
        if isinstance(self.placement, str):
            self.placement = _remote_device(self.placement)
        if len(self.shard_offsets) != len(self.shard_sizes):
            raise ValueError(f"shard_offsets and shard_sizes should have the same number of elements, found {len(self.shard_offsets)} "
                             f"and {self.shard_sizes} respectively")
        for start, n in zip(self.shard_offsets, self.shard_sizes):
            if start < 0:
                raise ValueError("shard_offsets should be >=0")
            if n < 0:
                raise ValueError("shard_sizes should be >= 0")

    def __hash__(self):
        return hash((*self.shard_offsets, *self.shard_sizes, self.placement))


def _rank_of(placement, group):
    """Returns the rank, among all, of a box's place, which is one of a group."""
    if placement is None:
        raise ValueError("remote device is None")
    if placement.worker_name() is not None:
        raise RuntimeError(f"RPC framework needs to be initialized for using worker names: {placement.worker_name()}")
    ranks = dist.get_process_group_ranks(group)
    if placement.rank() is not None and placement.rank() not in ranks:
        raise ValueError(f"Global rank {placement.rank()} does not exist in input process group: {ranks}")
    return placement.rank()
