"""Which parts an object of a dict has.

A tensor is one part.  An object in several processes says which boxes it has here, by three methods: __create_write_items__,
__create_chunk_list__ and __get_tensor_shard__, torch's protocol.
"""
import cresset

from .metadata import BytesStorageMetadata, ChunkStorageMetadata, MetadataIndex, TensorProperties
from .planner import BytesIOWriteData, LoadItemType, ReadItem, SavePlan, TensorWriteData, WriteItem, WriteItemType

__all__ = ["create_read_items_for_chunk_list"]


def _is_shared(obj):
    return hasattr(obj, "__create_write_items__")


def _create_chunk_from_tensor(tensor):
    return ChunkStorageMetadata(cresset.Size([0] * tensor.dim()), tensor.size())


def _write_item_for_shard(fqn, chunk, size, properties, index=None):
    """Returns the item of a box of a tensor."""
    return WriteItem(MetadataIndex(fqn, chunk.offsets, index), WriteItemType.SHARD,
                     tensor_data=TensorWriteData(chunk, properties, cresset.Size(size)))


def _create_write_item_for_tensor(fqn, tensor):
    """Returns the item of a whole tensor."""
    chunk = _create_chunk_from_tensor(tensor)
    data = TensorWriteData(chunk, TensorProperties.create_from_tensor(tensor), tensor.size())
    return WriteItem(MetadataIndex(fqn, chunk.offsets), WriteItemType.TENSOR, tensor_data=data)


def _create_write_items(fqn, object):
    if _is_shared(object):
        return object.__create_write_items__(fqn, object)
    if isinstance(object, cresset.Tensor):
        return [_create_write_item_for_tensor(fqn, object)]
    return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO, BytesIOWriteData(0))]


def _create_default_metadata_only_plan(state_dict):
    """Returns a plan of all parts that a dict has in all processes, as far as its objects know them."""
    items = []
    for fqn, obj in state_dict.items():
        items += obj._items_of_all_ranks(fqn) if hasattr(obj, "_items_of_all_ranks") else _create_write_items(fqn, obj)
    return SavePlan(items)


def _create_chunk_list(tensor):
    if hasattr(tensor, "__create_chunk_list__"):
        return tensor.__create_chunk_list__()
    if isinstance(tensor, cresset.Tensor):
        return [_create_chunk_from_tensor(tensor)]
    raise ValueError("Unsupported Type, expecting one of [Tensor, DTensor, ShardedTensor] "
                     f",but got {type(tensor)}")


def _overlap(saved, wanted):
    """Returns (offsets in the saved box, offsets in the wanted box, lengths), or None."""
    first = [max(a, b) for a, b in zip(saved.offsets, wanted.offsets)]
    after = [min(a + n, b + m) for a, n, b, m in zip(saved.offsets, saved.sizes, wanted.offsets, wanted.sizes)]
    if any(a >= b for a, b in zip(first, after)):
        return None
    return ([f - a for f, a in zip(first, saved.offsets)], [f - b for f, b in zip(first, wanted.offsets)],
            [b - a for a, b in zip(first, after)])


def create_read_items_for_chunk_list(fqn, checkpoint_md, local_chunks):
    """Returns the items that fill boxes of a tensor from the boxes of a checkpoint."""
    items = []
    for i, wanted in enumerate(local_chunks):
        for k, saved in enumerate(checkpoint_md.chunks):
            found = _overlap(saved, wanted)
            if found is not None:
                here, there, lengths = map(cresset.Size, found)
                items.append(ReadItem(LoadItemType.TENSOR, MetadataIndex(fqn, wanted.offsets, i), there,
                                      MetadataIndex(fqn, saved.offsets, k), here, lengths))
    return items


def _create_read_items(fqn, md, obj):
    if isinstance(md, BytesStorageMetadata):
        zero = cresset.Size((0,))
        return [ReadItem(LoadItemType.BYTE_IO, MetadataIndex(fqn), zero, MetadataIndex(fqn), zero, zero)]
    try:
        chunks = _create_chunk_list(obj)
    except ValueError as error:
        raise ValueError(f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but found {type(md)}") from error
    return create_read_items_for_chunk_list(fqn, md, chunks)


def find_state_dict_object(state_dict, index):
    """Returns the tensor of a dict's part."""
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    obj = state_dict[index.fqn]
    if hasattr(obj, "__get_tensor_shard__"):
        return obj.__get_tensor_shard__(index)
    if index.offset is not None and any(index.offset):
        raise ValueError(f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'")
    return obj
