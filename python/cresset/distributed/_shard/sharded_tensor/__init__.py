"""ShardedTensor: a tensor of which every rank has some boxes.  Checkpoints save and load it, for any other division too."""
from dataclasses import dataclass, replace
from typing import Any

import cresset

from ... import distributed_c10d as dist
from ...checkpoint.metadata import ChunkStorageMetadata
from ...checkpoint.planner_helpers import _write_item_for_shard
from ..metadata import _rank_of, ShardMetadata
from .metadata import ShardedTensorMetadata, TensorProperties

__all__ = ["Shard", "ShardMetadata", "ShardedTensor", "ShardedTensorMetadata", "TensorProperties", "empty",
           "full", "init_from_local_shards", "ones", "pre_load_state_dict_hook", "rand", "randn", "state_dict_hook", "zeros"]


@dataclass
class Shard:
    """A box's elements and its place."""

    tensor: Any
    metadata: ShardMetadata

    @classmethod
    def from_tensor_and_offsets(cls, tensor, shard_offsets, rank):
        """Makes a box of a rank."""
        return cls(tensor, ShardMetadata(list(shard_offsets), list(tensor.size()), f"rank:{rank}/{tensor.device}"))


def _check_rrefs(init_rrefs):
    if init_rrefs:
        raise RuntimeError("RPC Framework needs to be initialized using torch.distributed.rpc.init_rpc if init_rrefs is set to True")


def _chunk(shard):
    return ChunkStorageMetadata(cresset.Size(shard.shard_offsets), cresset.Size(shard.shard_sizes))


class ShardedTensor:
    """A tensor in boxes; local_shards() are this rank's."""

    def __init__(self, local_shards, metadata, process_group=None, sharding_spec=None):
        self._local_shards, self._metadata, self._process_group = list(local_shards), metadata, process_group
        self._sharding_spec = sharding_spec

    @classmethod
    def _init_from_local_shards(cls, local_shards, *global_size, process_group=None, init_rrefs=False):
        _check_rrefs(init_rrefs)
        size = cresset.Size(global_size[0] if len(global_size) == 1 and not isinstance(global_size[0], int) else global_size)
        own = [s.metadata for s in local_shards]
        dtypes = {s.tensor.dtype for s in local_shards}
        every = [(own, dtypes)]
        if dist.is_initialized():
            every = [None] * dist.get_world_size(process_group)
            dist.all_gather_object(every, (own, dtypes), process_group)
        shards = [s for shards, _ in every for s in shards]
        dtypes = {d for _, some in every for d in some}
        if len(dtypes) != 1:
            raise ValueError(f"the boxes of a ShardedTensor have one dtype, not {sorted(map(str, dtypes))}")
        for s in shards:
            if len(s.shard_offsets) != len(size) or any(
                    o < 0 or o + n > m for o, n, m in zip(s.shard_offsets, s.shard_sizes, size)):
                raise ValueError(f"the box {s} is not inside of a tensor of size {tuple(size)}")
        return cls(local_shards, ShardedTensorMetadata(shards, size, TensorProperties(dtypes.pop())), process_group)

    @classmethod
    def _init_from_local_shards_and_global_metadata(cls, local_shards, sharded_tensor_metadata, process_group=None, init_rrefs=False,
                                                    sharding_spec=None):
        """Makes a tensor whose boxes of all ranks are known, without a call between ranks."""
        _check_rrefs(init_rrefs)
        return cls(local_shards, sharded_tensor_metadata, process_group, sharding_spec)

    def local_shards(self):
        """Returns this rank's boxes."""
        return self._local_shards

    def local_tensor(self):
        """Returns the elements of this rank's only box."""
        if len(self._local_shards) != 1:
            raise NotImplementedError("Only single local shard is supported.")
        return self._local_shards[0].tensor

    def metadata(self):
        """Returns the boxes of all ranks."""
        return self._metadata

    def sharding_spec(self):
        """Returns the division of which this tensor has the boxes."""
        if self._sharding_spec is None:
            from ..sharding_spec import _infer_sharding_spec_from_shards_metadata
            self._sharding_spec = _infer_sharding_spec_from_shards_metadata(self._metadata.shards_metadata)
        return self._sharding_spec

    def remote_shards(self):
        """Is refused: there is no RPC."""
        raise RuntimeError("ShardedTensor created with init_rrefs=False, no RRefs to remote shards available")

    def size(self, dim=None):
        """Returns the size of the whole tensor."""
        return self._metadata.size if dim is None else self._metadata.size[dim]

    shape = property(size)
    dtype = property(lambda self: self._metadata.tensor_properties.dtype)

    def dim(self):
        """Returns the number of dims."""
        return len(self._metadata.size)

    def numel(self):
        """Returns the number of elements of the whole tensor."""
        return self._metadata.size.numel()

    def gather(self, dst=0, out=None, enforce_dtype=False, dtype=None):
        """Collects all boxes in rank dst's `out`."""
        boxes = [(s.metadata, s.tensor.detach()) for s in self._local_shards]
        every = [boxes]
        if dist.is_initialized():
            root = dist.get_rank(self._process_group) == dst
            every = [None] * dist.get_world_size(self._process_group) if root else None
            dist.gather_object(boxes, every, group=self._process_group, group_dst=dst)
        for shard, tensor in (box for boxes in every or () for box in boxes):
            part = out
            for dim, (start, n) in enumerate(zip(shard.shard_offsets, shard.shard_sizes)):
                part = part.narrow(dim, start, n)
            part.copy_(tensor)

    # --- checkpoints ---
    def __create_write_items__(self, fqn, object):
        return [_write_item_for_shard(fqn, _chunk(s.metadata), self.size(), self._metadata.tensor_properties)
                for s in self._local_shards]

    def _items_of_all_ranks(self, fqn):
        return [_write_item_for_shard(fqn, _chunk(s), self.size(), self._metadata.tensor_properties)
                for s in self._metadata.shards_metadata]

    def __create_chunk_list__(self):
        return [_chunk(s.metadata) for s in self._local_shards]

    def __get_tensor_shard__(self, index):
        if index.offset is None:
            raise ValueError(f"Cannot lookup {index.fqn} since its a ShardedTensor and no offset was provided")
        for shard in self._local_shards:
            if list(shard.metadata.shard_offsets) == list(index.offset):
                return shard.tensor
        raise ValueError(f"Could not find shard at '{index.offset}' for FQN: '{index.fqn}'")

    def _map_local(self, fn):
        """Returns this tensor with other elements."""
        return ShardedTensor([replace(s, tensor=fn(s.tensor)) for s in self._local_shards], self._metadata, self._process_group,
                             self._sharding_spec)

    def __repr__(self):
        return f"ShardedTensor({self._metadata})"


def init_from_local_shards(local_shards, *global_size, process_group=None, init_rrefs=False):
    """Makes a tensor of the boxes that the ranks of a group have."""
    return ShardedTensor._init_from_local_shards(local_shards, *global_size, process_group=process_group, init_rrefs=init_rrefs)


# --- tensors of a division -----------------------------------------------------------------------------------------

def _of_spec(fill, spec, size, dtype, layout, requires_grad, pin_memory, memory_format, process_group, init_rrefs):
    """Makes a tensor of which each rank has the boxes that a division gives it."""
    _check_rrefs(init_rrefs)
    if layout is not cresset.strided:
        raise ValueError("Only torch.strided layout is currently supported")
    if memory_format is not cresset.contiguous_format:
        raise ValueError("Only torch.contiguous_format memory_format is currently supported")
    size = size[0] if len(size) == 1 and not isinstance(size[0], int) else size
    dtype = dtype or cresset.get_default_dtype()
    metadata = spec.build_metadata(size, TensorProperties(dtype, layout, requires_grad, memory_format, pin_memory))
    group, own = dist._group_or_default_group(process_group), []
    for box in metadata.shards_metadata:
        if _rank_of(box.placement, group) == dist.get_rank():
            tensor = fill(list(box.shard_sizes), dtype=dtype, layout=layout, device=box.placement.device(), pin_memory=pin_memory)
            own.append(Shard(tensor.requires_grad_(requires_grad), box))
    return ShardedTensor(own, metadata, process_group, spec)


def empty(sharding_spec, *size, dtype=None, layout=cresset.strided, requires_grad=False, pin_memory=False,
          memory_format=cresset.contiguous_format, process_group=None, init_rrefs=False):
    """Makes a tensor whose elements are undefined."""
    return _of_spec(cresset.empty, sharding_spec, size, dtype, layout, requires_grad, pin_memory, memory_format, process_group,
                    init_rrefs)


def full(sharding_spec, size, fill_value, *, dtype=None, layout=cresset.strided, requires_grad=False, pin_memory=False,
         memory_format=cresset.contiguous_format, process_group=None, init_rrefs=False):
    """Makes a tensor whose elements are a number."""
    return _of_spec(lambda size, **how: cresset.full(size, fill_value, **how), sharding_spec, (size,), dtype, layout, requires_grad,
                    pin_memory, memory_format, process_group, init_rrefs)


def ones(sharding_spec, *size, **how):
    """Makes a tensor of ones."""
    return full(sharding_spec, size[0] if len(size) == 1 and not isinstance(size[0], int) else size, 1, **how)


def zeros(sharding_spec, *size, **how):
    """Makes a tensor of zeros."""
    return full(sharding_spec, size[0] if len(size) == 1 and not isinstance(size[0], int) else size, 0, **how)


def rand(sharding_spec, *size, dtype=None, layout=cresset.strided, requires_grad=False, pin_memory=False,
         memory_format=cresset.contiguous_format, process_group=None, init_rrefs=False):
    """Makes a tensor of random numbers of [0, 1), by each rank's generator."""
    return _of_spec(cresset.rand, sharding_spec, size, dtype, layout, requires_grad, pin_memory, memory_format, process_group,
                    init_rrefs)


def randn(sharding_spec, *size, dtype=None, layout=cresset.strided, requires_grad=False, pin_memory=False,
          memory_format=cresset.contiguous_format, process_group=None, init_rrefs=False):
    """Makes a tensor of normal random numbers, by each rank's generator."""
    return _of_spec(cresset.randn, sharding_spec, size, dtype, layout, requires_grad, pin_memory, memory_format, process_group,
                    init_rrefs)


# --- hooks of modules whose attributes are such tensors ------------------------------------------------------------

def state_dict_hook(module, destination, prefix, local_metadata):
    """Adds the ShardedTensors among the attributes of a module and its submodules to a state dict."""
    for name, inner in module.named_modules():
        for attribute, value in vars(inner).items():
            if isinstance(value, ShardedTensor):
                destination[f"{prefix}{name}{'.' if name else ''}{attribute}"] = value


def pre_load_state_dict_hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
    """Gives these attributes the ShardedTensors of a state dict."""
    for name, inner in module.named_modules():
        for attribute, value in list(vars(inner).items()):
            key = f"{prefix}{name}{'.' if name else ''}{attribute}"
            if isinstance(value, ShardedTensor) and isinstance(state_dict.get(key), ShardedTensor):
                setattr(inner, attribute, state_dict[key])
