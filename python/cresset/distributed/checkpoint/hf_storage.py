"""Checkpoints in files of safetensors, as HuggingFace's libraries have them.

Without save_distributed one process writes whole tensors: files model-I-of-N.safetensors and the index
model.safetensors.index.json.  With it each rank writes its boxes: a file shard-R-model-I-of-N.safetensors says in its metadata
where its boxes begin, and has one box of a tensor at most.  Consolidation joins such files to whole tensors.

A file replaces an earlier one when it is complete.  The index is written last.  Files of an earlier save which have other names
are removed when all files are written.
"""
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import cresset

from ... import safetensors
from ...futures import Future
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta, TensorProperties, TensorStorageMetadata
from .planner import WriteItemType
from .storage import WriteResult

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

_INDEX = "model.safetensors.index.json"
_SUFFIX = ".safetensors"
_SHARDED = "sharded"
_SHARDING_INFO = "DCP_SHARDING_INFO"  # in a file's metadata: JSON of {name: {"saved_offsets": [...]}}


@dataclass
class _HFStorageInfo:
    """Where a box is: a tensor of a file."""

    relative_path: str
    shape: cresset.Size
    dtype: cresset.dtype


def _file_name(number, count, shard=None):
    name = f"model-{number:05}-of-{count:05}{_SUFFIX}"
    return name if shard is None else f"shard-{shard:05}-{name}"


def _done(value):
    future = Future()
    future.set_result(value)
    return future


def _remove_others(folder, written):
    """Removes files of an earlier save."""
    for name in os.listdir(folder):
        if name not in written and re.fullmatch(rf"(shard-\d+-)?model-\d+-of-\d+{re.escape(_SUFFIX)}", name):
            os.unlink(os.path.join(folder, name))


def _write_index(folder, files, total):
    """Writes which file has which tensor; `files` by name."""
    path = os.path.join(folder, _INDEX)
    with open(path + ".new", "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": files}, file, indent=2)
    os.replace(path + ".new", path)


# --- reading -------------------------------------------------------------------------------------------------------

def _boxes_of(path):
    """Yields (name, offsets, tensor) of a file.  The tensors share a mapping of the file."""
    tensors, offsets = safetensors.load_file(path), json.loads((safetensors.metadata(path) or {}).get(_SHARDING_INFO, "{}"))
    for name, tensor in tensors.items():
        yield name, offsets[name]["saved_offsets"] if offsets else [0] * tensor.dim(), tensor


def _files_of(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(_SUFFIX))


def _tensors_of(folder):
    """Returns the boxes of a folder's files: {name: [(offsets, tensor, path)]}, and the sizes of whole tensors by name."""
    boxes, sizes = {}, {}
    for path in _files_of(folder):
        for name, offsets, tensor in _boxes_of(path):
            boxes.setdefault(name, []).append((offsets, tensor, path))
            ends = [first + n for first, n in zip(offsets, tensor.shape)]
            sizes[name] = [max(pair) for pair in zip(sizes.get(name, ends), ends)]
    return boxes, sizes


class HuggingFaceStorageReader(FileSystemReader):
    """Reads the files of safetensors in a folder, whole tensors or boxes."""

    def __init__(self, path, thread_count=1):
        super().__init__(path)
        self.thread_count = thread_count

    def read_metadata(self, *args, **kwargs):
        tensors, places = {}, {}
        boxes, sizes = _tensors_of(self.path)
        for name, parts in boxes.items():
            chunks = [ChunkStorageMetadata(cresset.Size(offsets), tensor.shape) for offsets, tensor, _ in parts]
            tensors[name] = TensorStorageMetadata(TensorProperties(dtype=parts[0][1].dtype), cresset.Size(sizes[name]), chunks)
            for offsets, tensor, path in parts:
                places[MetadataIndex(name, offsets)] = _HFStorageInfo(path, tensor.shape, tensor.dtype)
        return Metadata(tensors, storage_data=places, storage_meta=StorageMeta(load_id=self.load_id))

    def _read_file(self, path, items, planner):
        tensors = safetensors.load_file(path)
        for item in items:
            self._fill(tensors[item.storage_index.fqn], item, planner)

    def read_data(self, plan, planner):
        by_file = {}
        for item in plan.items:
            by_file.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        with ThreadPoolExecutor(max(self.thread_count, 1)) as threads:
            for reading in [threads.submit(self._read_file, path, items, planner) for path, items in by_file.items()]:
                reading.result()
        return _done(None)


# --- writing -------------------------------------------------------------------------------------------------------

class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors into files of safetensors; fqn_to_index_mapping has the numbers, from 1, of the files."""

    def __init__(self, path, fqn_to_index_mapping=None, thread_count=1, save_distributed=False, enable_consolidation=False,
                 thread_count_consolidation=1):
        super().__init__(path, thread_count=thread_count)
        if enable_consolidation and not save_distributed:
            raise ValueError("HuggingFaceStorageWriter: enable_consolidation joins the files of save_distributed")
        self.fqn_to_index_mapping, self.save_distributed = fqn_to_index_mapping, save_distributed
        self.enable_consolidation, self.thread_count_consolidation = enable_consolidation, thread_count_consolidation

    @property
    def _folder(self):
        """The folder of the files that ranks write."""
        return os.path.join(self.path, _SHARDED) if self.enable_consolidation else str(self.path)

    @property
    def metadata_path(self):
        """The name of the index."""
        return _INDEX

    def prepare_local_plan(self, plan):
        self.fs.mkdir(self._folder)
        others = [item.index.fqn for item in plan.items if item.type == WriteItemType.BYTE_IO]
        if others:
            raise ValueError(f"files of safetensors have tensors alone; {others[0]} is another object")
        missing = [item.index.fqn for item in plan.items if self.fqn_to_index_mapping is not None
                   and item.index.fqn not in self.fqn_to_index_mapping]
        if missing:
            raise KeyError(f"fqn_to_index_mapping has no file for {missing[0]}")
        return plan

    def prepare_global_plan(self, plans):
        if not self.save_distributed and sum(bool(plan.items) for plan in plans) > 1:
            raise ValueError("HuggingFaceStorageWriter: tensors of several ranks need save_distributed=True")
        return [replace(plan, storage_data=(rank, len(plans))) for rank, plan in enumerate(plans, 1)]

    def _files(self, plan):
        """Returns the items by file name.  A tensor's second box on a rank goes to another file."""
        numbers, (rank, ranks) = self.fqn_to_index_mapping or {}, plan.storage_data
        files, seen = {}, {}
        for item in plan.items:
            fqn = item.index.fqn
            shard = rank + ranks * seen.get(fqn, 0) if self.save_distributed else None
            seen[fqn] = seen.get(fqn, 0) + 1
            name = _file_name(numbers.get(fqn, 1), max(numbers.values(), default=1), shard)
            files.setdefault(name, []).append(item)
        return files

    def _write_file(self, name, items, planner):
        tensors = {item.index.fqn: planner.resolve_data(item).detach().contiguous() for item in items}
        offsets = {item.index.fqn: {"saved_offsets": list(item.tensor_data.chunk.offsets)} for item in items}
        facts = {"format": "pt", "DCP_VERSION": "1.0"}
        if self.save_distributed:
            facts[_SHARDING_INFO] = json.dumps(offsets)
        safetensors.save_file(tensors, os.path.join(self._folder, name), facts)
        return [WriteResult(item.index, tensors[item.index.fqn].nbytes,
                            _HFStorageInfo(name, tensors[item.index.fqn].shape, tensors[item.index.fqn].dtype)) for item in items]

    def write_data(self, plan, planner):
        with ThreadPoolExecutor(max(self.thread_count, 1)) as threads:
            writing = [threads.submit(self._write_file, name, items, planner) for name, items in self._files(plan).items()]
            return _done([result for one in writing for result in one.result()])

    def finish(self, metadata, results):
        every = [result for of_rank in results for result in of_rank]
        _remove_others(self._folder, {r.storage_data.relative_path for r in every})
        if not self.save_distributed:
            _write_index(self.path, {r.index.fqn: r.storage_data.relative_path for r in every}, sum(r.size_in_bytes for r in every))
        elif self.enable_consolidation:
            from ._consolidate_hf_safetensors import consolidate_safetensors_files
            numbers = self.fqn_to_index_mapping or dict.fromkeys(metadata.state_dict_metadata, 1)
            consolidate_safetensors_files(self._folder, str(self.path), numbers, self.thread_count_consolidation)
            _remove_others(self.path, {_file_name(n, max(numbers.values())) for n in numbers.values()})
        elif os.path.exists(os.path.join(self.path, _INDEX)):  # of an earlier save: it names files that are removed
            os.unlink(os.path.join(self.path, _INDEX))
