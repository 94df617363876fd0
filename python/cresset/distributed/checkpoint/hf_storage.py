"""Checkpoints in files of safetensors: the classes that libraries import.  Both refuse to be made."""
from .filesystem import FileSystemReader, FileSystemWriter

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


class HuggingFaceStorageWriter(FileSystemWriter):
    """Is not implemented."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("HuggingFaceStorageWriter: checkpoints in files of safetensors are not implemented; "
                                  "FileSystemWriter writes torch's own format")


class HuggingFaceStorageReader(FileSystemReader):
    """Is not implemented."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("HuggingFaceStorageReader: checkpoints in files of safetensors are not implemented; "
                                  "FileSystemReader reads torch's own format")
