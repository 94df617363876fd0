"""Norms of lists of DTensors, of this rank's parts."""
import math

import cresset

from ._api import DTensor
from ._redistribute import _reduce
from ._dtensor_spec import DTensorSpec, TensorMeta
from .placement_types import Partial, Replicate, dim_of


def has_total_norm(tensors, norm_type):
    """True for DTensors of one mesh and dtype of which this rank has parts.  Norm 0 of norms counts tensors, not their numbers."""
    first = tensors[0]
    return norm_type != 0 and isinstance(first, DTensor) and first.device_mesh.get_coordinate() is not None and all(
        isinstance(x, DTensor) and x.device_mesh == first.device_mesh and x.dtype == first.dtype and x.numel() for x in tensors)


def _term(x, norm_type):
    """Returns what a part adds to the norm: a sum of powers, or an extreme."""
    if not x.numel():
        return x.new_full((), math.inf if norm_type == -math.inf else 0.0)
    norm = cresset.linalg.vector_norm(x, norm_type)
    return norm if math.isinf(norm_type) else norm.pow(norm_type)


def total_norm(tensors, norm_type):
    """Returns the norm of DTensors as if they were one vector: the terms of this rank's parts are added, and one number is reduced
    over each dimension of the mesh that divides a tensor.  Of equal copies the first rank's is added."""
    mesh, place = tensors[0].device_mesh, tensors[0].device_mesh.get_coordinate()
    parts, divided = [], set()
    for x in tensors:
        if any(isinstance(p, Partial) for p in x.placements):
            x = x.redistribute(placements=[Replicate() if isinstance(p, Partial) else p for p in x.placements])
        split = {i for i, p in enumerate(x.placements) if dim_of(p) is not None}
        parts.append((x.to_local(), split))
        divided |= split
    terms = [_term(x if all(place[i] == 0 for i in divided - split) else x[:0] if x.dim() else x.new_empty(0), norm_type)
             for x, split in parts]
    terms = cresset.stack(terms)
    op = "sum" if not math.isinf(norm_type) else "max" if norm_type > 0 else "min"
    total = {"sum": terms.sum, "max": terms.amax, "min": terms.amin}[op]()
    for i in sorted(divided):
        total = _reduce(total, op, mesh.get_group(i), mesh.size(i))
    total = total if math.isinf(norm_type) else total.pow(1 / norm_type)
    return DTensor(total, DTensorSpec(mesh, (Replicate(),) * mesh.ndim, TensorMeta(total.shape, (), total.dtype)))
