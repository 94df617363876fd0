"""Dicts of states: copies on the host, copies into others, comparison, rank 0's for all ranks, flat dicts."""
import copy
import io

import cresset

from . import distributed_c10d as dist
from .checkpoint._nested_dict import flatten_state_dict as _flatten_state_dict  # noqa: F401
from .checkpoint._nested_dict import unflatten_state_dict as _unflatten_state_dict  # noqa: F401
from .tensor import DTensor
from .tensor._utils import compute_local_shape_and_global_offset


class CompanionMismatch(Exception):
    """Two dicts have other keys, or lists of other lengths."""


def _walk(value, each, companion, type_check):
    """Returns a value whose tensors are each(tensor, the companion's)."""
    if isinstance(value, cresset.Tensor):
        return each(value, companion)
    if value is None or isinstance(value, (int, float, str, bytes, io.BytesIO)):
        return value
    if isinstance(value, dict):
        if companion is not None and (not isinstance(companion, dict) or set(companion) != set(value)):
            theirs = set(companion) if isinstance(companion, dict) else type(companion).__name__
            raise CompanionMismatch(f"{theirs} instead of {set(value)}")
        return {k: _walk(v, each, None if companion is None else companion[k], type_check) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        if companion is not None and (not isinstance(companion, (list, tuple)) or len(companion) != len(value)):
            raise CompanionMismatch(f"{companion!r} instead of {len(value)} values")
        made = [_walk(v, each, None if companion is None else companion[i], type_check) for i, v in enumerate(value)]
        return tuple(made) if isinstance(value, tuple) else made
    if type_check:
        raise ValueError(f"Unexpected value type {type(value)}")
    return copy.deepcopy(value)


def _of_ranks(make, ranks_only, pg=None):
    """Returns make() at some ranks, and an empty dict at the others."""
    made = make()
    return made if not ranks_only or dist.get_rank(pg) in ranks_only else {}


def _gather_state_dict(state_dict, *, pg=None, device=None, cpu_offload=False, ranks_only=(), type_check=True):
    """Returns whole tensors of a dict that may have DTensors."""
    def whole(t, _):
        t = t.full_tensor() if isinstance(t, DTensor) else t
        return t.cpu() if cpu_offload else t
    return _of_ranks(lambda: _walk(state_dict, whole, None, type_check), ranks_only, pg)


def _offload_state_dict_to_cpu(state_dict, *, ranks_only=(), type_check=True):
    """Returns the dict with tensors on the host."""
    return _gather_state_dict(state_dict, cpu_offload=True, ranks_only=ranks_only, type_check=type_check)


def _copy_state_dict(state_dict, copy_state_dict, non_blocking=False, type_check=True):
    """Copies the tensors into those of another dict.  Returns that with the other values of the first."""
    def into(tensor, target):
        target.copy_(tensor.detach(), non_blocking=non_blocking)
        return target
    with cresset.no_grad():
        return _walk(state_dict, into, copy_state_dict, type_check)


def _create_cpu_state_dict(state_dict, pin_memory=False, share_memory=False):
    """Returns a dict of empty host tensors of the same sizes and dtypes, pinned or shared where asked."""
    def empty(tensor, _):
        made = cresset.tensor(0, dtype=tensor.dtype) if not tensor.dim() else cresset.empty(tensor.shape, dtype=tensor.dtype)
        made = made.share_memory_() if share_memory else made
        return made.pin_memory() if pin_memory and cresset.cuda.is_available() else made
    return _walk(state_dict, empty, None, False)


def _check_state_dict_similarity(state_dict, compared_state_dict):
    """Returns whether two dicts have the same keys, and tensors of the same sizes and dtypes."""
    def same(tensor, other):
        if not isinstance(other, cresset.Tensor) or other.dtype != tensor.dtype or other.shape != tensor.shape:
            raise CompanionMismatch("tensors differ")
        return tensor
    try:
        _walk(state_dict, same, compared_state_dict, False)
    except CompanionMismatch:
        return False
    return True


def _distribute_tensors(local_state_dict, keys, device, pg=None):
    """Makes a DTensor of each pair (a DTensor, the whole tensor): the first with the elements of the second, or a new one where
    the first is on device meta."""
    for key in keys:
        pair = local_state_dict.get(key)
        if pair is None or isinstance(pair, cresset.Tensor):
            continue
        own, whole = pair
        sizes, offsets = compute_local_shape_and_global_offset(whole.shape, own.device_mesh, own.placements)
        part = whole[tuple(slice(at, at + n) for at, n in zip(offsets, sizes))].detach()
        if own.is_meta:
            own = DTensor.from_local(part.clone(), own.device_mesh, own.placements, shape=own.shape, stride=own.stride())
        else:
            with cresset.no_grad():
                own.to_local().copy_(part)
        local_state_dict[key] = own


def _broadcast_state_dict(full_state_dict, local_state_dict, device, pg=None, strict=False, cpu_offload=False):
    """Fills local_state_dict with rank 0's values, which full_state_dict has there."""
    root = dist.get_global_rank(dist._group_or_default_group(pg), 0)
    facts = [{k: cresset.empty(v.shape, dtype=v.dtype, device="meta") if isinstance(v, cresset.Tensor) else v
              for k, v in full_state_dict.items()}]
    dist.broadcast_object_list(facts, src=root, group=pg)
    for key, value in facts[0].items():
        if isinstance(value, cresset.Tensor):
            own = full_state_dict[key].detach().to(device) if dist.get_rank(pg) == 0 else \
                cresset.empty(value.shape, dtype=value.dtype, device=device)
            own = own.contiguous()
            dist.broadcast(own, src=root, group=pg)
            value = own.cpu() if cpu_offload else own
        if key in local_state_dict and isinstance(local_state_dict[key], cresset.Tensor) and isinstance(value, cresset.Tensor) and \
                local_state_dict[key].device.type != "meta":
            with cresset.no_grad():
                local_state_dict[key].copy_(value)
        elif key in local_state_dict or not strict:
            local_state_dict[key] = value
    if strict:
        for key in set(local_state_dict) - set(facts[0]):
            del local_state_dict[key]
