"""save and load: state dicts as safetensors files."""
import os

__all__ = ["save", "load"]


def _is_state(obj):
    import cresset

    return isinstance(obj, dict) and all(
        isinstance(k, str) and isinstance(v, cresset.Tensor) for k, v in obj.items())


def _bytes_of(obj):
    """The bytes of the file that save() writes."""
    import tempfile

    from .safetensors import save_file

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.safetensors")
        save_file(obj, path)
        with open(path, "rb") as file:
            return file.read()


def save(obj, f):
    """Writes a dict of name to tensor to f, a path or an open binary file, in the safetensors format."""
    from .safetensors import save_file

    if not _is_state(obj):
        raise TypeError(f"save() writes a dict of str to Tensor (a state_dict), not {type(obj).__name__}")
    if isinstance(f, (str, os.PathLike)):
        save_file(obj, f)
    elif hasattr(f, "write"):
        f.write(_bytes_of(obj))
    else:
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")


def load(f, map_location=None, *, mmap=None):
    """The dict of tensors that save() wrote, on map_location (default: CPU); f is a path or an open binary file."""
    from .safetensors import load as load_bytes, load_file

    device = "cpu" if map_location is None else map_location
    if isinstance(f, (str, os.PathLike)):
        return load_file(f, device)
    if not hasattr(f, "read"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'read' attribute")
    return {k: v.to(device) for k, v in load_bytes(f.read()).items()}
