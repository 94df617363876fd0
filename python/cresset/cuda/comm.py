"""Copies of tensors between CUDA devices of one process."""
from .. import _C
from ._device import _index

__all__ = ["broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced", "scatter", "gather"]


def broadcast(tensor, devices=None, *, out=None):
    """Copies of a tensor on each device, or in the tensors of `out`."""
    if (devices is None) == (out is None):
        raise RuntimeError(f"Exactly one of 'devices' and 'out' must be specified, but got devices={devices} and out={out}")
    if out is not None:
        return tuple(to.copy_(tensor) for to in out)
    return tuple(tensor.to(_C.device("cuda", _index(device))) for device in devices)


def broadcast_coalesced(tensors, devices, buffer_size=10485760):
    """A list of copies for each device."""
    return tuple([tensor.to(_C.device("cuda", _index(device))) for tensor in tensors] for device in devices)


def reduce_add(inputs, destination=None):
    """The sum of tensors of several devices, on one of them."""
    if not inputs:
        raise RuntimeError("reduce_add expects a sequence of at least one tensor")
    if len({tensor.shape for tensor in inputs}) > 1:
        raise ValueError("reduce_add expects all inputs to have the same shape")
    to = _C.device("cuda", _index(destination))
    total = inputs[0].to(to, copy=True)
    for tensor in inputs[1:]:
        total += tensor.to(to)
    return total


def reduce_add_coalesced(inputs, destination=None, buffer_size=10485760):
    """The sums of the lists' tensors."""
    return tuple(reduce_add(tensors, destination) for tensors in zip(*inputs))


def scatter(tensor, devices=None, chunk_sizes=None, dim=0, streams=None, *, out=None):
    """Parts of a tensor along `dim`, one on each device."""
    if out is not None:
        parts = tensor.split([to.size(dim) for to in out], dim)
        return tuple(to.copy_(part) for to, part in zip(out, parts))
    parts = tensor.split(list(chunk_sizes), dim) if chunk_sizes is not None else tensor.tensor_split(len(devices), dim)
    return tuple(part.to(_C.device("cuda", _index(device)), copy=True) for part, device in zip(parts, devices))


def gather(tensors, dim=0, destination=None, *, out=None):
    """The tensors one after the other along `dim`, on one device."""
    if out is not None:
        return out.copy_(_C.cat([tensor.to(out.device) for tensor in tensors], dim))
    to = _C.device("cpu") if str(destination) == "cpu" else _C.device("cuda", _index(destination))
    return _C.cat([tensor.to(to) for tensor in tensors], dim)
