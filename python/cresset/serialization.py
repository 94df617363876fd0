"""save and load: state dicts as safetensors files."""
import os

__all__ = ["save", "load"]


def _is_state(obj):
    import cresset

    return isinstance(obj, dict) and all(
        isinstance(k, str) and isinstance(v, cresset.Tensor) for k, v in obj.items())


def save(obj, f):
    """Writes a dict of name to tensor to the path f, in the safetensors format."""
    from .safetensors import save_file

    if not _is_state(obj):
        raise TypeError(f"save() writes a dict of str to Tensor (a state_dict), not {type(obj).__name__}")
    if not isinstance(f, (str, os.PathLike)):
        raise AttributeError(f"expected 'f' to be string, path, got {type(f).__name__}")
    save_file(obj, f)


def load(f, map_location=None, *, mmap=None):
    """The dict of tensors that save() wrote to the path f, on map_location (default: CPU)."""
    from .safetensors import load_file

    if not isinstance(f, (str, os.PathLike)):
        raise AttributeError(f"expected 'f' to be string, path, got {type(f).__name__}")
    return load_file(f, "cpu" if map_location is None else map_location)
