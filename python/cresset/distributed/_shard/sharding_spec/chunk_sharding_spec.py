"""The division of a tensor in chunks of one dim."""
from dataclasses import dataclass

import cresset

from ... import distributed_c10d as dist
from ...remote_device import _remote_device
from ..metadata import _rank_of, ShardMetadata
from ..sharded_tensor.metadata import ShardedTensorMetadata, TensorProperties
from .api import ShardingSpec

__all__ = ["ChunkShardingSpec"]


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

    def shard(self, tensor, src_rank=0, process_group=None):
        """Divides rank src_rank's tensor (a rank of the group) among the ranks of a group; each rank has one chunk."""
        from ..sharded_tensor import Shard, ShardedTensor
        group = dist._group_or_default_group(process_group)
        facts = TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad, cresset.contiguous_format, tensor.is_pinned())
        metadata = self.build_metadata(tensor.size(), facts)
        boxes = _boxes_by_rank(metadata.shards_metadata, group)
        dim, own = self.dim % tensor.dim(), boxes[group.rank()]
        chunk = max(box.shard_sizes[dim] for box in boxes)
        shape = [chunk if d == dim else n for d, n in enumerate(tensor.size())]
        sent, made = None, cresset.empty(shape, dtype=tensor.dtype, device=own.placement.device())
        if group.rank() == src_rank:  # scatter sends tensors of one size
            sent = [tensor.new_zeros(shape) for _ in boxes]
            for part, box in zip(sent, boxes):
                n = box.shard_sizes[dim]
                part.narrow(dim, 0, n).copy_(tensor.detach().narrow(dim, box.shard_offsets[dim], n))
        dist.scatter(made, sent, group=group, group_src=src_rank)
        if own.shard_sizes[dim] < chunk:
            made = made.narrow(dim, 0, own.shard_sizes[dim]).clone()
        shard = Shard(made.requires_grad_(tensor.requires_grad), own)
        return ShardedTensor._init_from_local_shards_and_global_metadata([shard], metadata, process_group=process_group,
                                                                         sharding_spec=self)


def _boxes_by_rank(boxes, group):
    """Returns the only box of each rank of a group."""
    ranks, found = dist.get_process_group_ranks(group), {}
    for box in boxes:
        found[_rank_of(box.placement, group)] = box
    if len(found) != len(boxes) or set(found) != set(ranks):
        raise AssertionError(f"shard() gives each of the ranks {ranks} one chunk; the placements are {[b.placement for b in boxes]}")
    return [found[rank] for rank in ranks]
