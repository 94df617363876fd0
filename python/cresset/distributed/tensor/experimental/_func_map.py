"""Functions of plain tensors, applied to the parts of DTensors."""
import functools

import cresset

from ....utils._pytree import tree_flatten, tree_unflatten
from .._api import DTensor

__all__ = ["local_map"]


def _local_input(x, number, placements, grads, redistribute):
    """Returns the part of an argument, in the placements that are asked for."""
    if not isinstance(x, DTensor):
        if placements is not None and not isinstance(x, cresset.Tensor) and placements[number] is not None:
            raise AssertionError(f"Non-Tensor input {x} expects None placements but received {placements[number]}!")
        return x
    if placements is not None:
        wanted = placements[number]
        if wanted is None:
            raise AssertionError(f"DTensor input {x} expects placements but received {wanted}!")
        if x.placements != tuple(wanted):
            if not redistribute:
                raise ValueError(f"arg {x} in local_map has a mismatched placements: arg placements is {x.placements} but the input "
                                 f"placements is {tuple(wanted)}! If redistribute_inputs is wanted, set redistribute_inputs=True to "
                                 "local_map.")
            x = x.redistribute(placements=tuple(wanted))
    if grads is None:
        return x.to_local()
    if grads[number] is None:
        raise AssertionError(f"DTensor input {x} expects in grad placements but received {grads[number]}!")
    return x.to_local(grad_placements=tuple(grads[number]))


def _output(x, placements, mesh):
    if not isinstance(x, cresset.Tensor):
        if placements is not None:
            raise AssertionError(f"Non-tensor output {x} expects None placements but received {placements}!")
        return x
    if isinstance(x, DTensor):
        raise AssertionError(f"torch.Tensor output expected but received {type(x)}: {x}")
    return DTensor.from_local(x, mesh, placements, run_check=False)


def local_map(func=None, out_placements=None, in_placements=None, in_grad_placements=None, device_mesh=None, *,
              redistribute_inputs=False):
    """Returns a function that calls `func` with the parts of DTensors, and makes DTensors of its results."""
    if func is None:
        return lambda f: local_map(f, out_placements, in_placements, in_grad_placements, device_mesh,
                                   redistribute_inputs=redistribute_inputs)

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        flat, spec = tree_flatten(args)
        if in_placements is not None and len(in_placements) != len(flat):
            raise AssertionError(f"in_placements length {len(in_placements)} does not match the number of input args {len(flat)}!")
        parts = [_local_input(x, k, in_placements, in_grad_placements, redistribute_inputs) for k, x in enumerate(flat)]
        made = func(*tree_unflatten(parts, spec), **kwargs)
        meshes = [x.device_mesh for x in flat if isinstance(x, DTensor)]
        if not meshes:
            return made
        flat, spec = tree_flatten(made)
        placed = out_placements if isinstance(out_placements, tuple) else (out_placements,)
        if len(flat) != len(placed):
            raise AssertionError("local_map requires one PlacementType be provided for each output value, "
                                 f"received {len(placed)} out_placements but {len(flat)} is expected!")
        return tree_unflatten([_output(x, p, device_mesh or meshes[0]) for x, p in zip(flat, placed)], spec)
    return mapped
