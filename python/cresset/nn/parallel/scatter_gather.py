"""Scattering and gathering of nested arguments and results."""
import cresset
from . import comm

__all__ = ["scatter", "scatter_kwargs", "gather"]


def is_namedtuple(obj):
    """Returns whether the object, or the class, is a named tuple."""
    return hasattr(obj, "_asdict") and hasattr(obj, "_fields")


_is_namedtuple = is_namedtuple


def scatter(inputs, target_gpus, dim=0):
    """Splits the tensors inside nested tuples, lists and dicts; other objects go to every device.

    Returns a list with one structure for each device.
    """
    def split(obj):
        if isinstance(obj, cresset.Tensor):
            return comm.scatter(obj, target_gpus, None, dim)
        if is_namedtuple(obj):
            return [type(obj)(*args) for args in zip(*map(split, obj))]
        if isinstance(obj, tuple) and obj:
            return list(zip(*map(split, obj)))
        if isinstance(obj, list) and obj:
            return [list(i) for i in zip(*map(split, obj))]
        if isinstance(obj, dict) and obj:
            return [type(obj)(i) for i in zip(*map(split, obj.items()))]
        return [obj for _ in target_gpus]
    return split(inputs)


def scatter_kwargs(inputs, kwargs, target_gpus, dim=0):
    """Splits positional and keyword arguments.  Returns two tuples of equal length."""
    rows = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    rows = list(rows) + [()] * (len(named) - len(rows))
    named = list(named) + [{}] * (len(rows) - len(named))
    return tuple(rows), tuple(named)


def gather(outputs, target_device, dim=0):
    """Joins the results of all devices, which have the same structure."""
    first = outputs[0]
    if isinstance(first, cresset.Tensor):
        return comm.gather(outputs, dim, target_device)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(out) != len(first) for out in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((key, gather([out[key] for out in outputs], target_device, dim)) for key in first)
    joined = (gather(list(items), target_device, dim) for items in zip(*outputs))
    return type(first)(*joined) if is_namedtuple(first) else type(first)(joined)
