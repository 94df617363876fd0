"""How a tensor is divided into boxes of ranks: in chunks of one dim, or by a list of boxes."""
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import combinations
from math import prod

import cresset

from ...remote_device import _remote_device
from ..metadata import ShardMetadata
from ..sharded_tensor.metadata import ShardedTensorMetadata

__all__ = ["ChunkShardingSpec", "DevicePlacementSpec", "EnumerableShardingSpec", "PlacementSpec", "ShardingSpec", "ShardMetadata"]


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


@dataclass
class ChunkShardingSpec(ShardingSpec):
    """Chunks of one dim, one for each placement; the last ones may be smaller or empty."""

    dim: int
    placements: list

    def __post_init__(self):
        if isinstance(self.dim, str):
            raise NotImplementedError("ChunkShardingSpec does not support named dimension yet!")
        if not isinstance(self.dim, int):
            raise ValueError(f"Sharding dim needs to be an integer, found: {self.dim}")
        self.placements = [p if isinstance(p, _remote_device) else _remote_device(p) for p in self.placements]

    def build_metadata(self, tensor_sizes, tensor_properties):
        sizes, n = list(tensor_sizes), len(self.placements)
        if not -len(sizes) <= self.dim < len(sizes):
            raise ValueError(f"Invalid sharding dim: {self.dim}")
        dim = self.dim % len(sizes)
        chunk, boxes = -(-sizes[dim] // n), []
        for i, place in enumerate(self.placements):
            start = min(chunk * i, sizes[dim])
            own = min(chunk * (i + 1), sizes[dim]) - start
            boxes.append(ShardMetadata([start if d == dim else 0 for d in range(len(sizes))],
                                       [own if d == dim else s for d, s in enumerate(sizes)], place))
        return ShardedTensorMetadata(boxes, cresset.Size(sizes), tensor_properties)


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
