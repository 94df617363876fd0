"""Checkpoints at places that fsspec knows: memory://, s3://, gs://, ..."""
import os
from contextlib import contextmanager
from pathlib import Path

from fsspec.core import url_to_fs

from .filesystem import FileSystemBase, FileSystemReader, FileSystemWriter, SerializationFormat

__all__ = ["FsspecWriter", "FsspecReader"]


class FileSystem(FileSystemBase):
    """The files of the file system that a path's beginning names."""

    fs = None

    @contextmanager
    def create_stream(self, path, mode):
        with self.fs.open(os.fspath(path), mode) as stream:
            try:
                yield stream
            except BaseException:
                if set(mode) & set("w+a"):  # a part of a file is none
                    try:
                        self.rm_file(path)
                    except Exception:
                        pass
                raise

    def concat_path(self, path, suffix):
        return os.path.join(path, suffix)

    def init_path(self, path, **kwargs):
        self.fs, _ = url_to_fs(path, **kwargs)
        return path

    def rename(self, path, new_path):
        self.fs.mv(os.fspath(path), os.fspath(new_path))

    def mkdir(self, path):
        self.fs.makedirs(path, exist_ok=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        if isinstance(checkpoint_id, Path):
            return False
        try:
            url_to_fs(checkpoint_id)
        except (ValueError, ImportError):
            return False
        return True

    def exists(self, path):
        return self.fs.exists(path)

    def rm_file(self, path):
        self.fs.rm(path)

    def ls(self, path):
        """Returns the paths of a folder's files."""
        return self.fs.ls(path, detail=False)


class FsspecWriter(FileSystemWriter):
    """A FileSystemWriter whose path is a URL; more arguments are options of the file system."""

    def __init__(self, path, single_file_per_rank=True, sync_files=True, thread_count=1, per_thread_copy_ahead=10_000_000,
                 overwrite=True, _extensions=None, serialization_format=SerializationFormat.TORCH_SAVE, **kwargs):
        super().__init__(path, single_file_per_rank, sync_files, thread_count, per_thread_copy_ahead, overwrite=overwrite,
                         _extensions=_extensions, serialization_format=serialization_format)
        self.fs = FileSystem()
        self.path = self.fs.init_path(path, **kwargs)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return FileSystem.validate_checkpoint_id(checkpoint_id)


class FsspecReader(FileSystemReader):
    """A FileSystemReader whose path is a URL."""

    def __init__(self, path, **kwargs):
        super().__init__(path)
        self.fs = FileSystem()
        self.path = self.fs.init_path(path, **kwargs)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        return FileSystem.validate_checkpoint_id(checkpoint_id)
