"""Copies of tensors between devices; gradients flow through them."""
import warnings

import cresset
from ... import accelerator

__all__ = ["broadcast", "scatter", "gather"]


def device_of(device):
    """Returns the torch.device of a device, a string, or an index of the accelerator."""
    if not isinstance(device, int):
        return cresset.device(device)
    if device == -1:
        return cresset.device("cpu")
    kind = accelerator.current_accelerator()
    if kind is None:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return cresset.device(kind.type, device)


def broadcast(tensor, devices):
    """Returns copies of a tensor on the devices."""
    return tuple(tensor.to(device_of(device)) for device in devices)


def scatter(tensor, devices, chunk_sizes=None, dim=0):
    """Returns parts of a tensor along `dim`, one on each device."""
    parts = tensor.chunk(len(devices), dim) if chunk_sizes is None else tensor.split(list(chunk_sizes), dim)
    return tuple(part.to(device_of(device)) for part, device in zip(parts, devices))


def gather(tensors, dim=0, destination=None):
    """Returns the tensors, one after the other along `dim`, on a device."""
    target = tensors[0].device if destination is None else device_of(destination)
    if all(t.dim() == 0 for t in tensors) and dim == 0:
        warnings.warn("Was asked to gather along dimension 0, but all input tensors were scalars; will "
                      "instead unsqueeze and return a vector.", stacklevel=2)
        tensors = [t.view(1) for t in tensors]
    return cresset.cat([t.to(target) for t in tensors], dim)
