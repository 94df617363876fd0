"""Reads and writes safetensors files: save_file, load_file, load.

A file is checked as a whole before a tensor is made, and no code in it is run.  A written file
replaces an earlier one when it is complete.
"""
from . import _C

__all__ = ["save_file", "load_file", "load", "metadata"]


def save_file(tensors, filename, metadata=None):
    """Writes a dict of name to tensor (any strides); metadata is a dict of str to str.

    Tensors of other devices are copied to the host first."""
    here = {k: v.cpu() if isinstance(v, _C.Tensor) and v.device.type != "meta" else v for k, v in tensors.items()}
    _C._safetensors_save(here, filename, metadata)


def load_file(filename, device="cpu"):
    """Returns the dict of tensors in a file.  They share a private mapping of the file."""
    tensors, _ = _C._safetensors_load(filename)
    return tensors if str(device) == "cpu" else {k: v.to(device) for k, v in tensors.items()}


def load(data):
    """Returns the dict of tensors in the bytes of a file."""
    return _C._safetensors_parse(data)[0]


def metadata(filename):
    """Returns the file's metadata, a dict of str to str."""
    return _C._safetensors_load(filename)[1]
