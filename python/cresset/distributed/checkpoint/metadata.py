"""The index of a checkpoint: which tensors it has, in which parts, and the place of each part in its files.

A pickle of `Metadata` is the file `.metadata`; it has torch's names (_pickles.py).
"""
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import cresset

__all__ = ["ChunkStorageMetadata", "TensorStorageMetadata", "BytesStorageMetadata", "Metadata", "MetadataIndex",
           "TensorProperties", "StorageMeta"]


@dataclass
class ChunkStorageMetadata:
    """A box of a tensor's elements."""

    offsets: cresset.Size
    sizes: cresset.Size


class _MEM_FORMAT_ENCODING(Enum):
    """Numbers of memory formats in pickles."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


_FORMATS = {cresset.contiguous_format: _MEM_FORMAT_ENCODING.TORCH_CONTIGUOUS_FORMAT,
            cresset.channels_last: _MEM_FORMAT_ENCODING.TORCH_CHANNELS_LAST,
            cresset.preserve_format: _MEM_FORMAT_ENCODING.TORCH_PRESERVE_FORMAT}


@dataclass
class TensorProperties:
    """Facts of a tensor besides its size.  Only the dtype matters; torch's other fields are old."""

    dtype: cresset.dtype = field(default_factory=cresset.get_default_dtype)
    layout: cresset.layout = cresset.strided
    requires_grad: bool = False
    memory_format: cresset.memory_format = cresset.contiguous_format
    pin_memory: bool = False

    def __getstate__(self):
        if self.memory_format not in _FORMATS:
            raise RuntimeError(f"Invalid torch.memory_format: {self.memory_format}")
        return self.dtype, self.layout, self.requires_grad, _FORMATS[self.memory_format], self.pin_memory

    def __setstate__(self, state):
        self.dtype, self.layout, self.requires_grad, encoding, self.pin_memory = state
        self.memory_format = next(k for k, v in _FORMATS.items() if v == encoding)

    @staticmethod
    def create_from_tensor(tensor):
        """Returns the facts of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad, cresset.contiguous_format,
                                tensor.is_pinned())


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint and the boxes of which it consists."""

    properties: TensorProperties
    size: cresset.Size
    chunks: list


@dataclass
class BytesStorageMetadata:
    """An object of a checkpoint that is no tensor."""


STORAGE_TYPES = (TensorStorageMetadata, BytesStorageMetadata)
STATE_DICT_TYPE = dict


@dataclass
class StorageMeta:
    """Where a checkpoint was written, and numbers of its save and load."""

    checkpoint_id: Any = None
    save_id: Any = None
    load_id: Any = None
    modules: list = field(default_factory=list)


@dataclass
class Metadata:
    """The index of a checkpoint.  storage_data: {MetadataIndex: a place}, of the kind of storage."""

    state_dict_metadata: dict
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: Any = None
    version: Any = None


@dataclass(frozen=True)
class MetadataIndex:
    """The name of a part: of an object by fqn, of a tensor also by the offsets of a box.  `index`, the box's number in the
    list, only speeds a search up."""

    fqn: str
    offset: Any = None
    index: Any = field(hash=False, compare=False, default=None)

    def __init__(self, fqn, offset=None, index=None):
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        if offset is not None:
            object.__setattr__(self, "offset", cresset.Size(offset))
