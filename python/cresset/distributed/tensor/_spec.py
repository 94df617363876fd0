"""What a DTensor is: its mesh, its placements, and the sizes of the whole."""
from dataclasses import dataclass

import cresset

from ..device_mesh import DeviceMesh
from .placement_types import Partial, Placement, Replicate, Shard

_CODES = {"sum": -2, "product": -3, "min": -4, "max": -5, "avg": -6}
_NAMES = {code: name for name, code in _CODES.items()}


def code_of(placement):
    """Returns the number of a placement in src/dist/shard.h."""
    if isinstance(placement, Shard):
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

    def __str__(self):
        return f"Spec({''.join(map(str, self.placements))} on {tuple(self.shape)})"


def row_major(sizes):
    """Returns the strides of a tensor without gaps."""
    strides, step = [], 1
    for n in reversed(tuple(sizes)):
        strides.insert(0, step)
        step *= max(n, 1)
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
        if isinstance(p, Shard):
            dim = p.dim + ndim if p.dim < 0 else p.dim
            if not 0 <= dim < ndim:
                raise IndexError(f"Sharding dim {p.dim} greater than tensor ndim {ndim}")
            p = Shard(dim) if dim != p.dim else p
        found.append(p)
    return tuple(found)
