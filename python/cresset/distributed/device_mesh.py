"""Arrangements of the ranks of a run in several dimensions, with a group along each."""
import math

import cresset

from . import distributed_c10d as dist

__all__ = ["init_device_mesh", "DeviceMesh"]


class DeviceMesh:
    """Ranks in an array; get_group(d) is the group of this rank along dimension d."""

    def __init__(self, device_type, mesh, *, mesh_dim_names=None, backend_override=None, _init_backend=True, _rank=None):
        self.device_type = device_type
        self.mesh = cresset.as_tensor(mesh, dtype=cresset.int64, device="cpu").clone()
        self.mesh_dim_names = tuple(mesh_dim_names) if mesh_dim_names else None
        if self.mesh_dim_names and len(self.mesh_dim_names) != self.mesh.ndim:
            raise RuntimeError(f"mesh_dim_names has {len(self.mesh_dim_names)} names for {self.mesh.ndim} dimensions")
        if not dist.is_initialized() and _init_backend:
            dist.init_process_group()
        ranks = self.mesh.flatten().tolist()
        if len(set(ranks)) != len(ranks):
            raise ValueError(f"a mesh names each rank once, not {ranks}")
        if _init_backend and ranks and max(ranks) >= dist.get_world_size():
            raise RuntimeError(f"Mesh should not be bigger than default world size {dist.get_world_size()}, but found "
                               f"{max(ranks) + 1} ranks!")
        self._rank = dist.get_rank() if _rank is None else _rank
        at = (self.mesh == self._rank).nonzero()
        self._coordinate = at[0].tolist() if len(at) else None
        self._groups = self._make_groups() if _init_backend else []

    def _make_groups(self):
        """Makes the group of each line of ranks; all ranks make all groups."""
        if self.mesh.ndim == 1 and self.mesh.numel() == dist.get_world_size() and self.mesh.tolist() == list(range(self.mesh.numel())):
            return [dist._get_default_group()]
        own = []
        for d in range(self.mesh.ndim):
            mine = None
            for line in self.mesh.movedim(d, -1).reshape(-1, self.mesh.size(d)).tolist():
                made = dist.new_group(line, sort_ranks=False)
                if self._rank in line:
                    mine = made
            own.append(mine)
        return own

    @property
    def ndim(self):
        """The number of dimensions."""
        return self.mesh.ndim

    @property
    def shape(self):
        """The sizes."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim=None):
        """Returns the number of ranks, in all or along a dimension."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.size(mesh_dim)

    def _dim(self, mesh_dim):
        if isinstance(mesh_dim, str):
            if not self.mesh_dim_names or mesh_dim not in self.mesh_dim_names:
                raise KeyError(f"Invalid mesh_dim_name {mesh_dim}: the mesh has {self.mesh_dim_names}")
            return self.mesh_dim_names.index(mesh_dim)
        return mesh_dim

    def get_group(self, mesh_dim=None):
        """Returns this rank's group along a dimension."""
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be "
                                   "specified when device_mesh.ndim > 1. If you want to get the list of all the ProcessGroups "
                                   "in the DeviceMesh,please use `get_all_groups()` instead.")
            mesh_dim = 0
        return self._groups[self._dim(mesh_dim)]

    def get_all_groups(self):
        """Returns this rank's groups along all dimensions."""
        return list(self._groups)

    def get_rank(self):
        """Returns the rank in the whole run."""
        return self._rank

    def get_local_rank(self, mesh_dim=None):
        """Returns this rank's number along a dimension."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions. Optional kwarg `mesh_dim` needs to be "
                               "specified when device_mesh.ndim > 1.")
        return self._coordinate[self._dim(mesh_dim or 0)]

    def get_coordinate(self):
        """Returns this rank's place, or None outside of the mesh."""
        return None if self._coordinate is None else list(self._coordinate)

    def __getitem__(self, names):
        names = (names,) if isinstance(names, str) else tuple(names)
        dims = [self._dim(name) for name in names]
        at = tuple(slice(None) if d in dims else c for d, c in enumerate(self._coordinate))
        part = DeviceMesh(self.device_type, self.mesh[at], mesh_dim_names=names, _init_backend=False, _rank=self._rank)
        part._groups = [self._groups[d] for d in dims]
        return part

    def __eq__(self, other):
        return isinstance(other, DeviceMesh) and self.device_type == other.device_type and \
            self.mesh.shape == other.mesh.shape and bool((self.mesh == other.mesh).all()) and \
            self.mesh_dim_names == other.mesh_dim_names

    def __hash__(self):
        return hash((self.device_type, tuple(self.mesh.flatten().tolist()), self.shape, self.mesh_dim_names))

    def __repr__(self):
        names = self.mesh_dim_names
        shape = f"({', '.join(f'{n}={s}' for n, s in zip(names, self.shape))})" if names else str(self.shape)
        return f"DeviceMesh({shape}, '{self.device_type}', stride={tuple(self.mesh.stride())})"


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """Makes a mesh of ranks 0, 1, ... in row-major order."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}")
        if len(mesh_dim_names) != len(mesh_shape):
            raise RuntimeError("mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
                               f"{len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}.")
    if device_type and not device_type.isalpha():
        raise RuntimeError(f"Device type with index is not supported but got {device_type}. ")
    mesh = cresset.arange(math.prod(mesh_shape)).view(tuple(mesh_shape))
    return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names)
