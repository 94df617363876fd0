"""Checkpoints that several processes write and read, in torch's format (filesystem.py).

A checkpoint says which boxes of which tensors it has; a load reads the boxes that its own layout needs, so any number of
ranks, and any division of the tensors among them, reads any checkpoint.
"""
from . import _version  # noqa: F401
from .api import CheckpointException  # noqa: F401
from .default_planner import DefaultLoadPlanner, DefaultSavePlanner  # noqa: F401
from .filesystem import FileSystemReader, FileSystemWriter  # noqa: F401
from .hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter  # noqa: F401
from .metadata import BytesStorageMetadata, ChunkStorageMetadata, Metadata, TensorStorageMetadata  # noqa: F401
from .planner import LoadPlan, LoadPlanner, ReadItem, SavePlan, SavePlanner, WriteItem  # noqa: F401
from .state_dict_loader import load, load_state_dict  # noqa: F401
from .state_dict_saver import async_save, save, save_state_dict  # noqa: F401
from .storage import StorageReader, StorageWriter  # noqa: F401
