"""Checkpoints of one file as checkpoints of several processes, and back."""
import os

import cresset

from .. import distributed_c10d as dist
from ...futures import Future
from ._nested_dict import flatten_state_dict
from .default_planner import DefaultLoadPlanner, _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import ChunkStorageMetadata, Metadata, TensorProperties, TensorStorageMetadata
from .planner import LoadItemType
from .state_dict_loader import _load_state_dict
from .state_dict_saver import _save_state_dict
from .storage import StorageReader

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp", "BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner"]


def _only_tensors(reader, fqn):
    return RuntimeError(f"Non-tensor value identified at {fqn}. "
                        f"At this time {type(reader).__name__} only supports loading Tensors.")


class BroadcastingTorchSaveReader(StorageReader):
    """Loads a file of torch.save: the coordinator reads it and sends each tensor to all ranks, which take their boxes.

    The file has no index: the planner is a DynamicMetaLoadPlanner.
    """

    def __init__(self, checkpoint_id=None, coordinator_rank=0):
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank

    def read_metadata(self):
        """Returns an empty index; the planner makes the true one of the dict that is loaded into."""
        return Metadata(state_dict_metadata={})

    def set_up_storage_reader(self, metadata, is_coordinator):
        self.is_coordinator = is_coordinator
        if is_coordinator and dist.get_rank() != self.coordinator_rank:
            raise AssertionError(f"Coordinator rank mismatch: expected {self.coordinator_rank}, got {dist.get_rank()}")
        if self.checkpoint_id is None:
            raise AssertionError("checkpoint_id must be set before setting up storage reader")

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def _read(self, planner):
        """Returns the file's dict at the coordinator, None elsewhere."""
        if not self.is_coordinator:
            return None
        state_dict = cresset.load(self.checkpoint_id, map_location="cpu", weights_only=False)
        return flatten_state_dict(state_dict)[0] if planner.flatten_state_dict else state_dict

    def read_data(self, plan, planner):
        state_dict, device = self._read(planner), dist._get_pg_default_device()
        for item in plan.items:
            fqn = item.storage_index.fqn
            if item.type == LoadItemType.BYTE_IO:
                raise _only_tensors(self, fqn)
            wanted = planner.state_dict[fqn]
            tensor = state_dict[fqn].to(device).contiguous() if self.is_coordinator else \
                cresset.empty(wanted.size(), dtype=wanted.dtype, device=device)
            dist.broadcast(tensor, self.coordinator_rank)
            for dim, (start, n) in enumerate(zip(item.storage_offsets, item.lengths)):
                tensor = tensor.narrow(dim, start, n)
            target = planner.resolve_tensor(item).detach()
            if target.size() != tensor.size():
                raise AssertionError(f"req {item.storage_index} mismatch sizes, {target.size()} vs {tensor.size()}")
            target.copy_(tensor)
            planner.commit_tensor(item, target)
        done = Future()
        done.set_result(None)
        return done

    def reset(self, checkpoint_id=None):
        self.checkpoint_id = checkpoint_id

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return os.path.isfile(checkpoint_id)


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Loads files of whole tensors without an index: the dict that is loaded into says which tensors there are."""

    def set_up_planner(self, state_dict, metadata=None, is_coordinator=False):
        super().set_up_planner(state_dict, metadata, is_coordinator)
        made = {}
        for key, tensor in self.state_dict.items():
            if not cresset.is_tensor(tensor) and not hasattr(tensor, "__create_chunk_list__"):
                raise _only_tensors(self, key)
            whole = ChunkStorageMetadata(cresset.Size([0] * tensor.dim()), tensor.size())
            made[key] = TensorStorageMetadata(TensorProperties(dtype=tensor.dtype), tensor.size(), [whole])
        self.metadata = Metadata(state_dict_metadata=made)


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path):
    """Writes a folder's checkpoint as one file of torch.save."""
    state_dict = {}
    _load_state_dict(state_dict, FileSystemReader(dcp_checkpoint_dir), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    cresset.save(state_dict, torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir):
    """Writes a file of torch.save as a folder's checkpoint."""
    _save_state_dict(cresset.load(torch_save_path, weights_only=False), FileSystemWriter(os.fspath(dcp_checkpoint_dir)),
                     no_dist=True)
