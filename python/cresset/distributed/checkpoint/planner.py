"""Plans of saves and loads: lists of parts to write and to read, and the classes that make them."""
import abc
import math
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from .metadata import ChunkStorageMetadata, MetadataIndex, TensorProperties

__all__ = ["WriteItemType", "LoadItemType", "BytesIOWriteData", "TensorWriteData", "WriteItem", "ReadItem", "SavePlan",
           "LoadPlan", "SavePlanner", "LoadPlanner"]


class WriteItemType(Enum):
    """TENSOR: a whole tensor; SHARD: a box of one; BYTE_IO: a pickled object."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """TENSOR: a box of a tensor; BYTE_IO: a pickled object."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """The size of an object, where it is known."""

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """A box of a tensor, and the tensor's size."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Any


@dataclass(frozen=True)
class WriteItem:
    """A part that is written."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: Any = None
    tensor_data: Any = None

    def tensor_storage_size(self):
        """Returns the bytes of the whole tensor, or None for an object."""
        return None if self.tensor_data is None else math.prod(self.tensor_data.size) * self.tensor_data.properties.dtype.itemsize

    def _bytes(self):
        data = self.tensor_data
        return 0 if data is None else math.prod(data.chunk.sizes) * data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """A box that is read: from a part of the checkpoint to a part of the program's dict."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Any
    storage_index: MetadataIndex
    storage_offsets: Any
    lengths: Any


@dataclass(frozen=True)
class SavePlan:
    """The parts that a rank writes."""

    items: list
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """The boxes that a rank reads."""

    items: list
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(abc.ABC):
    """Plans a save.  Methods are called in the order in which they stand here; create_global_plan at the coordinator alone."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict, storage_meta=None, is_coordinator=False):
        """Takes the dict to save."""

    @abc.abstractmethod
    def create_local_plan(self):
        """Returns this rank's SavePlan."""

    @abc.abstractmethod
    def create_global_plan(self, all_plans):
        """Returns (the ranks' final plans, Metadata)."""

    @abc.abstractmethod
    def finish_plan(self, new_plan):
        """Returns this rank's final plan."""

    @abc.abstractmethod
    def resolve_data(self, write_item):
        """Returns the tensor of an item, or its io.BytesIO.  May be called again, and by several threads."""


class LoadPlanner(abc.ABC):
    """Plans a load.  Methods are called in the order in which they stand here; create_global_plan at the coordinator alone."""

    @abc.abstractmethod
    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        """Takes the dict to fill and the checkpoint's index."""

    @abc.abstractmethod
    def create_local_plan(self):
        """Returns this rank's LoadPlan."""

    @abc.abstractmethod
    def create_global_plan(self, global_plan):
        """Returns the ranks' final plans."""

    @abc.abstractmethod
    def finish_plan(self, central_plan):
        """Returns this rank's final plan."""

    @abc.abstractmethod
    def load_bytes(self, read_item, value):
        """Takes an object's bytes, an io.BytesIO."""

    def resolve_bytes(self, read_item):
        """Returns an io.BytesIO for an object's bytes."""
        raise NotImplementedError("LoadPlanner.resolve_bytes is not implemented")

    @abc.abstractmethod
    def resolve_tensor(self, read_item):
        """Returns the tensor that the reader fills."""

    @abc.abstractmethod
    def commit_tensor(self, read_item, tensor):
        """Is called when that tensor is full."""
