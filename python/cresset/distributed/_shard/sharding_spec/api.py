"""Divisions of tensors, and the one by a list of boxes."""
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import combinations
from math import prod

import cresset

from ...remote_device import _remote_device
from ..sharded_tensor.metadata import ShardedTensorMetadata

__all__ = ["DevicePlacementSpec", "EnumerableShardingSpec", "PlacementSpec", "ShardingSpec"]


class PlacementSpec(ABC):
    """Where a box is; for other kinds of places than devices."""


@dataclass
class DevicePlacementSpec(PlacementSpec):
    """A device of a rank."""

    device: _remote_device

    def __post_init__(self):
        if not isinstance(self.device, _remote_device):
            self.device = _remote_device(self.device)


class ShardingSpec(ABC):
    """A division of tensors."""

    @abstractmethod
    def build_metadata(self, tensor_sizes, tensor_properties):
        """Returns the boxes of a tensor of this size."""

    @abstractmethod
    def shard(self, tensor, src_rank=0, process_group=None):
        """Returns rank src_rank's tensor, divided among the ranks of a group."""


def _overlap(a, b):
    return all(x < y + m and y < x + n for x, n, y, m in zip(a.shard_offsets, a.shard_sizes, b.shard_offsets, b.shard_sizes))


@dataclass
class EnumerableShardingSpec(ShardingSpec):
    """A list of boxes, which must not overlap."""

    shards: list = field(default_factory=list)

    def __post_init__(self):
        if not self.shards:
            raise ValueError(f"Empty shard list provided: {self.shards}")
        rank = len(self.shards[0].shard_offsets)
        for shard in self.shards:
            if len(shard.shard_offsets) != rank:
                raise ValueError(f"Found inconsistent ranks for shards: {rank} and {len(shard.shard_offsets)}")
        for a, b in combinations(self.shards, 2):
            if _overlap(a, b):
                raise ValueError(f"Shards {a} and {b} overlap")

    def build_metadata(self, tensor_sizes, tensor_properties):
        sizes, total = list(tensor_sizes), 0
        if len(sizes) != len(self.shards[0].shard_offsets):
            raise ValueError(f"Rank of tensor is {len(sizes)}, but shards rank is {len(self.shards[0].shard_offsets)}")
        for shard in self.shards:
            for start, n, size in zip(shard.shard_offsets, shard.shard_sizes, sizes):
                if start + n > size:
                    raise ValueError(f"Shard offset {start} and length {n} exceeds tensor dim: {size} for shard {shard}")
            total += prod(shard.shard_sizes)
        if total != prod(sizes):
            raise ValueError(f"Total volume of shards: {total} does not match tensor volume: {prod(sizes)}, in other words all the "
                             "individual shards do not cover the entire tensor")
        return ShardedTensorMetadata(self.shards, cresset.Size(sizes), tensor_properties)

    def shard(self, tensor, src_rank=0, process_group=None):
        raise NotImplementedError("EnumerableShardingSpec.shard not implemented yet!")


def _infer_sharding_spec_from_shards_metadata(shards_metadata):
    """Returns the division that has these boxes: chunks of a dim where they are, otherwise the list."""
    from .chunk_sharding_spec import ChunkShardingSpec
    boxes = list(shards_metadata)
    moved = {tuple(d for d, start in enumerate(s.shard_offsets) if start) for s in boxes} - {()}
    if len(moved) == 1 and len(min(moved)) == 1:
        dim = min(moved)[0]
        boxes.sort(key=lambda s: s.shard_offsets[dim])
        total = sum(s.shard_sizes[dim] for s in boxes)
        n = -(-total // len(boxes))
        if all(min(s.shard_offsets[dim], total) == min(n * i, total) and s.shard_sizes[dim] == min(n * i + n, total) - min(n * i, total)
               for i, s in enumerate(boxes)):
            return ChunkShardingSpec(dim, [s.placement for s in boxes])
    return EnumerableShardingSpec(shards_metadata)
