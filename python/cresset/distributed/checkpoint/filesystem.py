"""Checkpoints in folders, in torch's format: files of tensors, each as torch.save writes it, and the index `.metadata`.

A save leaves the files of the checkpoint before it alone: its files have names that are not taken.  The index is renamed to
its name last; then files which it does not name are removed.  A process that is killed at any time therefore leaves the old
checkpoint or the new one.
"""
import io
import os
import threading
import uuid
import warnings
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import cresset

from ...futures import Future
from . import _pickles
from .metadata import StorageMeta
from .planner import LoadItemType, WriteItemType
from .staging import BlockingAsyncStager
from .storage import StorageReader, StorageWriter, WriteResult

__all__ = ["FileSystemWriter", "FileSystemReader", "FileSystem", "FileSystemBase", "SerializationFormat"]

_metadata_fn = ".metadata"
DEFAULT_SUFFIX = ".distcp"
CURRENT_DCP_VERSION = "1.0.0"


@dataclass
class _StorageInfo:
    """Where a part is: bytes of a file."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if v is not None}


@dataclass
class _StoragePrefix:
    """With what the names of a rank's files begin."""

    prefix: str


class SerializationFormat(Enum):
    """How tensors are written."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


class FileSystemBase(ABC):
    """The operations of a file system."""

    @contextmanager
    @abstractmethod
    def create_stream(self, path, mode):
        """Opens a file."""

    @abstractmethod
    def concat_path(self, path, suffix):
        """Returns the path of a folder's file."""

    @abstractmethod
    def rename(self, path, new_path):
        """Renames a file, replacing another one."""

    @abstractmethod
    def init_path(self, path):
        """Returns a path as this class wants it."""

    @abstractmethod
    def mkdir(self, path):
        """Makes a folder and those above it."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Returns whether a folder can be there."""

    @abstractmethod
    def exists(self, path):
        """Returns whether a file is there."""

    @abstractmethod
    def rm_file(self, path):
        """Removes a file."""


class FileSystem(FileSystemBase):
    """The files of this host."""

    @contextmanager
    def create_stream(self, path, mode):
        with open(path, mode) as stream:
            yield stream

    def concat_path(self, path, suffix):
        return Path(path) / suffix

    def rename(self, path, new_path):
        os.replace(path, new_path)

    def init_path(self, path):
        return Path(path)

    def mkdir(self, path):
        os.makedirs(path, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        if isinstance(checkpoint_id, Path):
            return True
        return "://" not in str(checkpoint_id) and any(p.exists() and os.access(p, os.W_OK) for p in Path(checkpoint_id).parents)

    def exists(self, path):
        return os.path.exists(path)

    def rm_file(self, path):
        os.unlink(path)

    def ls(self, path):
        """Returns the paths of a folder's files."""
        return [str(p) for p in Path(path).iterdir()]


def _sync(stream):
    """Waits until a file's bytes are on the disk."""
    stream.flush()
    try:
        os.fsync(stream.fileno())
    except (AttributeError, io.UnsupportedOperation):
        os.sync()


def _sync_folder(path):
    """Waits until a folder's names are on the disk."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _deal(items, files):
    """Divides items among files: objects in turn, tensors to the file with the fewest bytes."""
    parts, sizes = [[] for _ in range(files)], [0] * files
    for i, item in enumerate(item for item in items if item.type == WriteItemType.BYTE_IO):
        parts[i % files].append(item)
    tensors = [item for item in items if item.type != WriteItemType.BYTE_IO]
    for item in sorted(tensors, key=lambda item: item._bytes(), reverse=True) if files > 1 else tensors:
        to = sizes.index(min(sizes))
        parts[to].append(item)
        sizes[to] += item._bytes()
    return parts


class _Uncloseable(io.RawIOBase):
    """A stream for transformations, which close theirs after each item."""

    def __init__(self, raw):
        self._raw = raw

    def writable(self):
        return True

    def write(self, b):
        return self._raw.write(b)

    def close(self):
        self._raw.flush()


def _compact(tensor):
    """Returns a host tensor whose storage has no other elements."""
    tensor = tensor.detach().cpu()
    return tensor if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.clone()


class FileSystemWriter(StorageWriter, BlockingAsyncStager):
    """Writes a checkpoint into a folder: a file for each rank, or for each item, and the index."""

    def __init__(self, path, single_file_per_rank=True, sync_files=True, thread_count=1, per_thread_copy_ahead=10_000_000,
                 cache_staged_state_dict=False, overwrite=True, _extensions=None,
                 serialization_format=SerializationFormat.TORCH_SAVE):
        BlockingAsyncStager.__init__(self, cache_staged_state_dict=cache_staged_state_dict)
        if serialization_format != SerializationFormat.TORCH_SAVE:
            raise ValueError("FileSystemWriter writes torch's format; HuggingFaceStorageWriter writes files of safetensors")
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.single_file_per_rank, self.sync_files, self.thread_count = single_file_per_rank, sync_files, thread_count
        self.per_thread_copy_ahead, self.overwrite = per_thread_copy_ahead, overwrite
        self.extensions = tuple(_extensions or ())
        self.save_id = str(uuid.uuid4())
        self.rank, self.use_collectives = None, True

    def reset(self, checkpoint_id=None):
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        self.rank, self.use_collectives = kwargs.get("rank"), kwargs.get("use_collectives", True)

    def _metadata_path(self, rank=None):
        return self.fs.concat_path(self.path, _metadata_fn if rank is None else f"__{rank}{_metadata_fn}")

    def prepare_local_plan(self, plan):
        self.fs.mkdir(self.path)
        if self.fs.exists(self._metadata_path(None if self.use_collectives else 0)):
            if not self.overwrite:
                raise RuntimeError(f"Checkpoint already exists and {self.overwrite=}.")
            warnings.warn(f"Detected an existing checkpoint in {self.path}, overwriting since {self.overwrite=}."
                          " Past version 2.5 of PyTorch, `overwrite` will default to False. Set this variable to True to"
                          " maintain this functionality or False to raise when an existing checkpoint is found.", stacklevel=2)
        if self.rank is not None and not self.use_collectives:
            plan = replace(plan, storage_data=_StoragePrefix(f"__{self.rank}_"))
        return plan

    def prepare_global_plan(self, plans):
        return [plan if plan.storage_data is not None else replace(plan, storage_data=_StoragePrefix(f"__{rank}_"))
                for rank, plan in enumerate(plans)]

    # --- data ---
    def _names(self, prefix):
        """Yields names of files that are not there."""
        n = 0
        while True:
            name = f"{prefix}{n}{DEFAULT_SUFFIX}"
            n += 1
            if not self.fs.exists(self.fs.concat_path(self.path, name)):
                yield name

    def _write_item(self, stream, name, planner, item):
        data = planner.resolve_data(item)
        offset = stream.tell()
        to = _Uncloseable(stream) if self.extensions else stream
        for extension in self.extensions:
            to = extension.transform_to(to)
        if item.type == WriteItemType.BYTE_IO:
            to.write(data.getbuffer())
        else:
            buffer = io.BytesIO()
            cresset.save(_compact(data), buffer)
            to.write(buffer.getbuffer())
        if self.extensions:
            to.close()
        length = stream.tell() - offset
        descriptors = [e.get_descriptor() for e in reversed(self.extensions)] or None
        return WriteResult(item.index, length, _StorageInfo(name, offset, length, descriptors))

    def _write_file(self, name, items, planner):
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "wb") as stream:
            results = [self._write_item(stream, name, planner, item) for item in items]
            if self.sync_files:
                _sync(stream)
        return results

    def write_data(self, plan, planner):
        names = self._names(plan.storage_data.prefix)
        parts = _deal(plan.items, max(self.thread_count, 1)) if self.single_file_per_rank else [[item] for item in plan.items]
        files = [(next(names), items) for items in parts]
        results, errors = [], []

        def work():
            while files:
                try:
                    name, items = files.pop()
                except IndexError:
                    return
                try:
                    results.extend(self._write_file(name, items, planner))
                except BaseException as error:
                    errors.append(error)
        threads = [threading.Thread(target=work) for _ in range(1, self.thread_count)]
        for thread in threads:
            thread.start()
        work()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        future = Future()
        future.set_result(results)
        return future

    # --- the index ---
    def _remove_others(self, metadata):
        """Removes files of earlier checkpoints of all ranks."""
        if not hasattr(self.fs, "ls"):
            return
        named = {info.relative_path for info in metadata.storage_data.values()}
        for path in self.fs.ls(self.path):
            name = os.path.basename(path)
            if name.startswith("__") and name.endswith(DEFAULT_SUFFIX) and name not in named:
                self.fs.rm_file(path)

    def finish(self, metadata, results):
        alone = not self.use_collectives and self.rank is not None
        metadata.version = CURRENT_DCP_VERSION
        metadata.storage_data = {r.index: r.storage_data for of_rank in results for r in of_rank}
        metadata.storage_meta = self.storage_meta()
        path = self._metadata_path(self.rank if alone else None)
        temporary = self.fs.concat_path(self.path, f"{path.name}.tmp" if isinstance(path, Path) else f"{path}.tmp")
        with self.fs.create_stream(temporary, "wb") as stream:
            _pickles.dump(metadata, stream)
            if self.sync_files:
                _sync(stream)
        if type(self.fs) is FileSystem and self.sync_files:
            _sync_folder(self.path)
        self.fs.rename(temporary, path)
        if type(self.fs) is FileSystem and self.sync_files:
            _sync_folder(self.path)
        if not alone:
            self._remove_others(metadata)

    def storage_meta(self):
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self.save_id)

    @property
    def checkpoint_id(self):
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class FileSystemReader(StorageReader):
    """Reads a checkpoint of a folder."""

    def __init__(self, path, _extension_registry=None):
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.registry = _extension_registry
        self.storage_data = {}
        self.load_id = str(uuid.uuid4())
        self.rank, self.use_collectives = None, True

    def reset(self, checkpoint_id=None):
        self.storage_data = {}
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args, **kwargs):
        rank = kwargs.get("rank")
        with self.fs.create_stream(self.fs.concat_path(self.path, _metadata_fn if rank is None else f"__{rank}{_metadata_fn}"),
                                   "rb") as stream:
            metadata = _pickles.load(stream)
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        if metadata.storage_data is None:
            raise AssertionError("storage_data must not be None in metadata")
        self.storage_data = metadata.storage_data
        self.rank, self.use_collectives = kwargs.get("rank"), kwargs.get("use_collectives", True)

    def prepare_local_plan(self, plan):
        return plan

    def prepare_global_plan(self, plans):
        return plans

    def _bytes_of(self, stream, info):
        """Returns the bytes of a part, through the transformations with which it was written."""
        stream.seek(info.offset)
        data = io.BytesIO(stream.read(info.length))
        if len(data.getbuffer()) != info.length:
            raise EOFError(f"{info.relative_path} has {info.offset + len(data.getbuffer())} bytes; the checkpoint's index "
                           f"says that it has at least {info.offset + info.length}")
        descriptors = getattr(info, "transform_descriptors", None) or ()
        if descriptors and self.registry is None:
            raise ValueError(f"the checkpoint was written with extensions {list(descriptors)}, which the reader was not given")
        for extension in self.registry.from_descriptor_list(descriptors) if descriptors else ():
            data = io.BytesIO(extension.transform_from(data).read(-1))
        return data

    def read_data(self, plan, planner):
        by_part = {}
        for item in plan.items:
            by_part.setdefault(item.storage_index, []).append(item)
        for path in dict.fromkeys(self.storage_data[index].relative_path for index in by_part):
            with self.fs.create_stream(self.fs.concat_path(self.path, path), "rb") as stream:
                for index, items in by_part.items():
                    if self.storage_data[index].relative_path == path:
                        self._read_part(self._bytes_of(stream, self.storage_data[index]), items, planner)
        future = Future()
        future.set_result(None)
        return future

    def _read_part(self, data, items, planner):
        if items[0].type == LoadItemType.BYTE_IO:
            for item in items:
                planner.load_bytes(item, io.BytesIO(data.getbuffer()))
            return
        whole = cresset.load(data, map_location="cpu", weights_only=True)
        for item in items:
            self._fill(whole, item, planner)

    @staticmethod
    def _fill(whole, item, planner):
        """Copies a box of a stored part to the place where the planner wants it."""
        part = whole
        for dim, (start, n) in enumerate(zip(item.storage_offsets, item.lengths)):
            part = part.narrow(dim, start, n)
        target = planner.resolve_tensor(item).detach()
        if target.size() != part.size():
            raise AssertionError(f"req {item.storage_index} mismatch sizes {target.size()} vs {part.size()}")
        target.copy_(part)
        planner.commit_tensor(item, target)

    @property
    def checkpoint_id(self):
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return FileSystem.validate_checkpoint_id(checkpoint_id)
