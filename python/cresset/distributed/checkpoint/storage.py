"""Where checkpoints are: classes that write and read their parts."""
import abc
from dataclasses import dataclass
from typing import Any

from .metadata import MetadataIndex

__all__ = ["WriteResult", "StorageWriter", "StorageReader"]


@dataclass(frozen=True)
class WriteResult:
    """The place of a part that was written."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(abc.ABC):
    """Writes a checkpoint.  Methods are called in the order in which they stand here; prepare_global_plan and finish at the
    coordinator alone.  A checkpoint exists when finish has returned."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None):
        """Begins a new checkpoint at a place."""

    @abc.abstractmethod
    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        """Is told whether this rank is the coordinator."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """Returns a plan with this storage's data."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """Returns the plans of all ranks with this storage's data."""

    @abc.abstractmethod
    def write_data(self, plan, planner):
        """Writes all items.  Returns a future of a list of WriteResult."""

    @abc.abstractmethod
    def finish(self, metadata, results):
        """Writes the index; results has a list of each rank."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Returns whether the storage can have such a checkpoint."""

    def storage_meta(self):
        """Returns a StorageMeta, or None."""
        return None


class StorageReader(abc.ABC):
    """Reads a checkpoint.  Methods are called in the order in which they stand here; prepare_global_plan at the coordinator
    alone."""

    @abc.abstractmethod
    def reset(self, checkpoint_id=None):
        """Begins with a checkpoint."""

    @abc.abstractmethod
    def read_metadata(self, *args, **kwargs):
        """Returns the index, a Metadata."""

    @abc.abstractmethod
    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        """Takes the index."""

    @abc.abstractmethod
    def prepare_local_plan(self, plan):
        """Returns a plan with this storage's data."""

    @abc.abstractmethod
    def prepare_global_plan(self, plans):
        """Returns the plans of all ranks with this storage's data."""

    @abc.abstractmethod
    def read_data(self, plan, planner):
        """Reads all items into the planner's tensors.  Returns a future."""

    @classmethod
    @abc.abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Returns whether the storage can have such a checkpoint."""
