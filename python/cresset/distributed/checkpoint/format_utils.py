"""Checkpoints of one file as checkpoints of several processes, and back."""
import os

import cresset

from .default_planner import _EmptyStateDictLoadPlanner
from .filesystem import FileSystemReader, FileSystemWriter
from .state_dict_loader import _load_state_dict
from .state_dict_saver import _save_state_dict

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(dcp_checkpoint_dir, torch_save_path):
    """Writes a folder's checkpoint as one file of torch.save."""
    state_dict = {}
    _load_state_dict(state_dict, FileSystemReader(dcp_checkpoint_dir), planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    cresset.save(state_dict, torch_save_path)


def torch_save_to_dcp(torch_save_path, dcp_checkpoint_dir):
    """Writes a file of torch.save as a folder's checkpoint."""
    _save_state_dict(cresset.load(torch_save_path, weights_only=False), FileSystemWriter(os.fspath(dcp_checkpoint_dir)),
                     no_dist=True)
