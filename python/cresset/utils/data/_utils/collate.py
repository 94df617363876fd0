"""Collates lists of samples to batches.

`default_collate_fn_map` maps types of samples to functions; programs may add types.  NumPy's
types are recognized by name, so that NumPy is not imported for them.
"""
import copy
import re
import sys
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence

import cresset
from .... import Tensor

default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
    "found {}")

np_str_obj_array_pattern = re.compile(r"[SaUO]")  # dtypes of arrays that make no tensors


def _is_numpy(cls):
    return cls.__module__ == "numpy"


def _is_object_array(array):
    return np_str_obj_array_pattern.search(array.dtype.str) is not None


def _rebuild_mapping(elem, values):
    """Returns a mapping like `elem` with other values; a dict when its class cannot be
    constructed."""
    try:
        if isinstance(elem, MutableMapping):
            clone = copy.copy(elem)
            clone.update(values)
            return clone
        return type(elem)(values)
    except TypeError:
        return values


def _rebuild_sequence(elem, values):
    """Returns a sequence like `elem` with other items; a list when its class cannot be
    constructed."""
    try:
        if isinstance(elem, MutableSequence):
            clone = copy.copy(elem)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return type(elem)(values)
    except TypeError:
        return values


def default_convert(data):
    """Converts arrays to tensors, also inside containers; other objects are unchanged."""
    cls = type(data)
    if isinstance(data, Tensor):
        return data
    if _is_numpy(cls) and cls.__name__ not in ("str_", "string_", "bytes_"):
        if cls.__name__ == "ndarray" and _is_object_array(data):
            return data
        return cresset.as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuild_mapping(data, {k: default_convert(data[k]) for k in data})
    if isinstance(data, tuple):
        values = [default_convert(d) for d in data]
        return cls(*values) if hasattr(data, "_fields") else values
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _rebuild_sequence(data, [default_convert(d) for d in data])
    return data


def _find(elem, table):
    function = table.get(type(elem))
    if function is not None:
        return function
    for kind, function in table.items():
        if isinstance(elem, kind):
            return function
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(elem, numpy.ndarray):
        return collate_numpy_array_fn
    return collate_numpy_scalar_fn if _is_numpy(type(elem)) else None


def collate(batch, *, collate_fn_map=None):
    """Collates a list of samples by the functions of `collate_fn_map`."""
    elem = batch[0]
    if collate_fn_map is not None:
        function = _find(elem, collate_fn_map)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)
    join = lambda samples: collate(samples, collate_fn_map=collate_fn_map)
    if isinstance(elem, Mapping):
        return _rebuild_mapping(elem, {k: join([d[k] for d in batch]) for k in elem})
    if isinstance(elem, tuple) and hasattr(elem, "_fields"):
        return type(elem)(*map(join, zip(*batch)))
    if not isinstance(elem, Sequence):
        raise TypeError(default_collate_err_msg_format.format(type(elem)))
    if any(len(other) != len(elem) for other in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    values = [join(samples) for samples in zip(*batch)]
    return values if isinstance(elem, tuple) else _rebuild_sequence(elem, values)


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Tensors are stacked."""
    if batch[0].is_sparse:
        raise RuntimeError(
            "Batches of sparse tensors are not currently supported by the default collate_fn; "
            "please provide a custom collate_fn to handle them appropriately.")
    return cresset.stack(batch, 0)


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """Arrays become tensors and are stacked."""
    if _is_object_array(batch[0]):
        raise TypeError(default_collate_err_msg_format.format(batch[0].dtype))
    return collate([cresset.as_tensor(b) for b in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    """NumPy's numbers become a tensor."""
    return cresset.as_tensor(batch)


def collate_float_fn(batch, *, collate_fn_map=None):
    """Floats become a float64 tensor."""
    return cresset.tensor(batch, dtype=cresset.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    """Integers become an int64 tensor."""
    return cresset.tensor(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    """Strings stay a list."""
    return batch


default_collate_fn_map = {
    Tensor: collate_tensor_fn, float: collate_float_fn, int: collate_int_fn,
    str: collate_str_fn, bytes: collate_str_fn}


def default_collate(batch):
    """Stacks tensors, arrays and numbers, also inside containers."""
    return collate(batch, collate_fn_map=default_collate_fn_map)
