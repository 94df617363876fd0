"""Tensors in safetensors files: save_file, load_file, load.

A file is checked as a whole before any tensor is made, and no code in it is ever run.  Writing
goes beside the file and renames, so a reader sees the old file or the new."""
from . import _C

__all__ = ["save_file", "load_file", "load", "metadata"]


def save_file(tensors, filename, metadata=None):
    """Writes a dict of name to tensor (any strides, CPU); metadata is a dict of str to str."""
    _C._safetensors_save(dict(tensors), filename, metadata)


def load_file(filename, device="cpu"):
    """The dict of tensors in a file; they share its mapped memory until they are written to."""
    tensors, _ = _C._safetensors_load(filename)
    return tensors if str(device) == "cpu" else {k: v.to(device) for k, v in tensors.items()}


def load(data):
    """The dict of tensors in the bytes of a file."""
    return _C._safetensors_parse(data)[0]


def metadata(filename):
    """The file's metadata, a dict of str to str."""
    return _C._safetensors_load(filename)[1]
