"""What a DTensor is: its mesh, its placements, and the sizes of the whole."""
from dataclasses import dataclass
from itertools import combinations

import cresset

from ...utils._dtype_abbrs import dtype_abbrs
from ..device_mesh import DeviceMesh
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard, dim_of

_CODES = {"sum": -2, "product": -3, "min": -4, "max": -5, "avg": -6}
_NAMES = {code: name for name, code in _CODES.items()}


def code_of(placement):
    """Returns the number of a placement in src/dist/shard.h."""
    if dim_of(placement) is not None:
        return placement.dim
    return -1 if isinstance(placement, Replicate) else _CODES.get(placement.reduce_op, -7)


def placement_of(code):
    """Returns the placement of a number."""
    return Shard(code) if code >= 0 else Replicate() if code == -1 else Partial(_NAMES[code])


@dataclass(frozen=True)
class TensorMeta:
    """Sizes, strides and dtype of the whole tensor."""

    shape: cresset.Size
    stride: tuple
    dtype: cresset.dtype


@dataclass(frozen=True)
class DTensorSpec:
    """A placement for each dimension of a mesh, and the whole tensor's sizes."""

    mesh: DeviceMesh
    placements: tuple
    tensor_meta: TensorMeta

    @property
    def device_mesh(self):
        """The mesh."""
        return self.mesh

    @property
    def shape(self):
        """The sizes of the whole."""
        return self.tensor_meta.shape

    @property
    def ndim(self):
        """The number of its dimensions."""
        return len(self.tensor_meta.shape)

    def placed(self, placements):
        """Returns the same with other placements."""
        return DTensorSpec(self.mesh, tuple(placements), self.tensor_meta)

    def of_part(self, part):
        """Returns the same with strides in the order of those of a part: calls between ranks, and kernels, may have made another."""
        meta = self.tensor_meta
        old, new = meta.stride, part.stride()
        dims = [d for d, n in enumerate(part.shape) if n > 1]
        if all((old[a] < old[b]) == (new[a] < new[b]) for a, b in combinations(dims, 2)):
            return self
        strides, step = [0] * len(new), 1
        for d in sorted(range(len(new)), key=lambda d: (new[d], -d)):
            if new[d] or meta.shape[d] == 1:
                strides[d], step = step, step * max(meta.shape[d], 1)
        return DTensorSpec(self.mesh, self.placements, TensorMeta(meta.shape, tuple(strides), meta.dtype))

    def __str__(self):
        meta = self.tensor_meta
        return f"Spec({dtype_abbrs[meta.dtype]}{list(meta.shape)}({''.join(map(str, self.placements))}))"

    @property
    def dim_map(self):
        """For each dim of the tensor, the dimension of the mesh that divides it, or -1."""
        found = [-1] * self.ndim
        for i, p in enumerate(self.placements):
            if dim_of(p) is not None:
                found[p.dim] = i
        return found

    @property
    def num_shards_map(self):
        """For each dim of the tensor, the number of its parts."""
        found = [1] * self.ndim
        for i, p in enumerate(self.placements):
            if dim_of(p) is not None:
                found[p.dim] *= self.mesh.size(i)
        return found

    @property
    def sums(self):
        """The dimensions of the mesh along which the tensor is partial."""
        return [i for i, p in enumerate(self.placements) if isinstance(p, Partial)]


def row_major(sizes):
    """Returns the strides of a tensor without gaps."""
    strides, step = [], 1
    for n in reversed(tuple(sizes)):
        strides.insert(0, step)
        step *= max(n, 1)
    return tuple(strides)


def strides_of_whole(part, mesh, placements):
    """Returns the strides of the whole of equal parts: those of the part, without the other ranks' elements between them."""
    strides = list(part.stride())
    for i, p in enumerate(placements):
        if dim_of(p) is not None:
            own = strides[p.dim]
            strides = [n * mesh.size(i) if d != p.dim and n >= own else n for d, n in enumerate(strides)]
    return tuple(strides)


def checked(placements, mesh, ndim=None):
    """Returns placements with dims that are not negative, as many as the mesh has dimensions."""
    placements = tuple(placements) if placements is not None else tuple(Replicate() for _ in range(mesh.ndim))
    for p in placements:
        if not isinstance(p, Placement):
            raise RuntimeError(f"placements must be a list of Placement, but got {type(p)}")
    if ndim is None:
        return placements
    found = []
    for p in placements:
        if dim_of(p) is not None:
            dim = p.dim + ndim if p.dim < 0 else p.dim
            if ndim == 0:
                raise AssertionError("Expected tensor.dim() > 0, got 0")
            if not 0 <= dim < ndim:
                raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {p.dim})")
            if dim != p.dim:
                p = Shard(dim) if isinstance(p, Shard) else _StridedShard(dim, split_factor=p.split_factor)
        found.append(p)
    return tuple(found)
