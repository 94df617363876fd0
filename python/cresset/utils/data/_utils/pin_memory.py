"""Batches in page-locked memory, from which GPUs copy asynchronously."""
from collections.abc import Mapping, Sequence

from .... import Tensor
from .collate import _rebuild_mapping, _rebuild_sequence


def pin_memory(data, device=None):
    """Returns `data` with all tensors in page-locked memory."""
    if isinstance(data, Tensor) or (hasattr(data, "pin_memory") and not isinstance(data, type)):
        return data.pin_memory()
    if isinstance(data, (str, bytes)):
        return data
    if isinstance(data, Mapping):
        return _rebuild_mapping(data, {k: pin_memory(v, device) for k, v in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pin_memory(v, device) for v in data))
    if isinstance(data, tuple):
        return [pin_memory(v, device) for v in data]
    if isinstance(data, Sequence):
        return _rebuild_sequence(data, [pin_memory(v, device) for v in data])
    return data
