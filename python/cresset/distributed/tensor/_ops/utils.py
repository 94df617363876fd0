"""Questions about dims and specs of distributed tensors."""
from math import prod

from ..placement_types import Partial, dim_of

__all__ = ["is_tensor_dim_sharded", "is_tensor_evenly_shardable", "is_tensor_partial", "is_tensor_shardable", "normalize_dim",
           "normalize_dims", "prod"]


def normalize_dim(dim, ndim):
    """Returns a dim that is not negative."""
    return dim if dim >= 0 else dim + ndim


def normalize_dims(dims, ndim):
    """Returns dims, or one dim as a tuple, that are not negative."""
    return (normalize_dim(dims, ndim),) if isinstance(dims, int) else tuple(normalize_dim(d, ndim) for d in dims)


def _parts(shape, spec):
    found = [1] * len(shape)
    for i, p in enumerate(spec.placements):
        if dim_of(p) is not None:
            if p.dim >= len(shape):
                return None
            found[p.dim] *= spec.mesh.size(i)
    return found


def is_tensor_shardable(shape, spec):
    """Whether each rank has a part that is not empty."""
    parts = _parts(shape, spec)
    return parts is not None and all(n == 1 or size >= n for size, n in zip(shape, parts))


def is_tensor_evenly_shardable(shape, spec):
    """Whether all ranks have parts of one size."""
    parts = _parts(shape, spec)
    return parts is not None and all(n == 1 or size % n == 0 for size, n in zip(shape, parts))


def is_tensor_dim_sharded(spec, dim):
    """Whether a dim is divided."""
    return any(dim_of(p) == dim for p in spec.placements)


def is_tensor_partial(spec):
    """Whether a tensor must be reduced over a dimension of its mesh."""
    return any(isinstance(p, Partial) for p in spec.placements)
