"""Arrangements of the ranks of a run in several dimensions, with a group along each."""
import math
from itertools import product

import cresset

from . import distributed_c10d as dist

__all__ = ["init_device_mesh", "DeviceMesh"]


class _MeshEnv:
    """The meshes of `with mesh:`."""

    def __init__(self):
        self.mesh_stack = []

    def get_current_mesh(self):
        """Returns the innermost mesh."""
        if not self.mesh_stack:
            raise RuntimeError("No device mesh is currently active!")
        return self.mesh_stack[-1]

    def get_root_mesh(self, device_mesh):
        """Returns the mesh that a mesh was sliced from."""
        return device_mesh._get_root_mesh()


_mesh_resources = _MeshEnv()


class _Dim:
    """A dimension: `offsets` of its places in the flat root mesh, this rank's `place` in it, and its `group`."""

    def __init__(self, offsets, place, group=None, name=None):
        self.offsets, self.place, self.group, self.name = offsets, place, group, name

    def stride(self):
        """Returns the step between places; several where dimensions that are no neighbours were flattened."""
        found, offsets = [], self.offsets
        while len(offsets) > 1:
            step, run = offsets[1] - offsets[0], 2
            while run < len(offsets) and offsets[run] - offsets[run - 1] == step:
                run += 1
            found.insert(0, step)
            offsets = offsets[::run]
        return found[0] if len(found) == 1 else tuple(found)


def _lines(offsets, count):
    """Returns all lines of places 0 to count - 1 along a dimension."""
    found, seen = [], set()
    for first in range(count):
        if first not in seen:
            found.append([first + offset for offset in offsets])
            seen.update(found[-1])
    return found


class DeviceMesh:
    """Ranks in an array; get_group(d) is the group of this rank along dimension d."""

    def __init__(self, device_type, mesh=None, *, mesh_dim_names=None, backend_override=None, _init_backend=True, _rank=None):
        if mesh is None:
            raise TypeError("The mesh argument is required except for PRIVATE USAGE ONLY!")
        mesh = cresset.as_tensor(mesh, dtype=cresset.int32, device="cpu").clone()
        names = tuple(mesh_dim_names) if mesh_dim_names else (None,) * mesh.ndim
        if len(names) != mesh.ndim:
            raise RuntimeError(f"mesh_dim_names has {len(names)} names for {mesh.ndim} dimensions")
        if backend_override is not None and len(backend_override) != mesh.ndim:
            raise ValueError("backend_override should have the same length as the number of mesh dimensions, "
                             f"but got {len(backend_override)} and {mesh.ndim}.")
        if not dist.is_initialized() and _init_backend:
            dist.init_process_group()
        self._ranks = mesh.flatten().tolist()
        if len(set(self._ranks)) != len(self._ranks):
            raise ValueError(f"a mesh names each rank once, not {self._ranks}")
        if _init_backend and self._ranks and max(self._ranks) >= dist.get_world_size():
            raise RuntimeError(f"Mesh should not be bigger than default world size {dist.get_world_size()}, but found "
                               f"{len(self._ranks)} ranks!")
        self._rank = dist.get_rank() if _rank is None else _rank
        at = (mesh == self._rank).nonzero()
        at = at[0].tolist() if len(at) else None
        strides = mesh.contiguous().stride()
        self._begin(device_type, self, [_Dim([i * stride for i in range(size)], at and at[d], None, name)
                                        for d, (size, stride, name) in enumerate(zip(mesh.shape, strides, names))], mesh)
        self._flattened = {}
        if _init_backend:
            for d, dim in enumerate(self._dims):
                dim.group = self._make_group(dim, backend_override[d] if backend_override else (None, None))

    def _begin(self, device_type, root, dims, mesh=None):
        self.device_type, self._root, self._dims = device_type, root, dims
        self._rank = root._rank
        if mesh is None:
            if any(dim.place is None for dim in dims):
                raise RuntimeError("In order to get the mesh Tensor of a DeviceMesh it needs to either have all its original "
                                   "dimensions (e.g., no slicing) or it needs to contain the local rank")
            first = root._ranks.index(self._rank) - sum(dim.offsets[dim.place] for dim in dims)
            mesh = cresset.tensor([root._ranks[first + sum(place)] for place in product(*(dim.offsets for dim in dims))],
                                  dtype=cresset.int32).view([len(dim.offsets) for dim in dims])
        self.mesh = mesh

    def _part(self, dims):
        """Returns a mesh of dimensions of the same root."""
        made = DeviceMesh.__new__(DeviceMesh)
        made._begin(self.device_type, self._root, dims)
        return made

    def _make_group(self, dim, how=(None, None)):
        """Makes the group of each line along a dimension; all ranks make all groups.  Returns this rank's."""
        ranks, (backend, options), own = self._root._ranks, how, None
        if backend is None and options is None and len(dim.offsets) == dist.get_world_size() == len(ranks) and \
                [ranks[o] for o in dim.offsets] == list(range(len(ranks))):
            return dist._get_default_group()
        for line in _lines(dim.offsets, len(ranks)):
            line = [ranks[place] for place in line]
            made = dist.new_group(line, backend=backend, pg_options=options, sort_ranks=False, group_desc=f"mesh_{dim.name or 'dim'}")
            if self._rank in line:
                own = made
        return own

    # --- facts ---
    @property
    def mesh_dim_names(self):
        """The names of the dimensions, or None."""
        return tuple(dim.name for dim in self._dims) if self._dims and self._dims[0].name is not None else None

    @property
    def ndim(self):
        """The number of dimensions."""
        return len(self._dims)

    @property
    def shape(self):
        """The sizes."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim=None):
        """Returns the number of ranks, in all or along a dimension."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.size(mesh_dim)

    def get_rank(self):
        """Returns the rank in the whole run."""
        return self._rank

    def get_coordinate(self):
        """Returns this rank's place, or None outside of the mesh."""
        places = tuple(dim.place for dim in self._dims)
        return None if None in places else places

    def _is_current_rank_part_of_mesh(self):
        return self.get_coordinate() is not None

    def _get_root_mesh(self):
        return self._root

    def _dim(self, mesh_dim):
        """Returns a dimension by its number or its name; the root mesh knows names of flattened dimensions as well."""
        if not isinstance(mesh_dim, str):
            return self._dims[mesh_dim]
        if self.mesh_dim_names is None:
            raise KeyError("No `mesh_dim_names` found.")
        known = {dim.name: dim for dim in self._dims}
        if self._root is self:
            known.update((name, mesh._dims[0]) for name, mesh in self._flattened.items())
        if mesh_dim not in known:
            raise KeyError(f"Mesh dimension '{mesh_dim}' does not exist.", f"Available mesh dimensions are: mesh_dim_names={self.mesh_dim_names}")
        return known[mesh_dim]

    # --- groups ---
    def get_group(self, mesh_dim=None):
        """Returns this rank's group along a dimension."""
        if mesh_dim is None:
            if self.ndim > 1:
                raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions",
                                   "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.",
                                   "If you want to get the list of all the ProcessGroups in the DeviceMesh,"
                                   "please use `get_all_groups()` instead.")
            mesh_dim = 0
        group = self._dim(mesh_dim).group
        if group is None:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        return group

    def get_all_groups(self):
        """Returns this rank's groups along all dimensions."""
        return [self.get_group(d) for d in range(self.ndim)]

    def get_local_rank(self, mesh_dim=None):
        """Returns this rank's number along a dimension."""
        if mesh_dim is None and self.ndim > 1:
            raise RuntimeError(f"Found the DeviceMesh have {self.ndim} dimensions",
                               "Optional kwarg `mesh_dim` needs to be specified when device_mesh.ndim > 1.")
        return dist.get_rank(self.get_group(mesh_dim or 0))

    # --- other meshes of the same ranks ---
    def __getitem__(self, names):
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        names = (names,) if isinstance(names, str) else tuple(names)
        if names == self.mesh_dim_names:
            return self
        valid = [*self.mesh_dim_names, *(self._flattened if self._root is self else ())]
        if any(name not in valid for name in names):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Valid mesh_dim_names are {valid}.")
        dims = [self._dim(name) for name in names]
        steps = [dim.offsets[1] for dim in dims if len(dim.offsets) > 1]
        numbers = [self.mesh_dim_names.index(name) for name in names if name in self.mesh_dim_names]
        if numbers != sorted(numbers) or steps != sorted(steps, reverse=True):
            raise KeyError(f"Invalid mesh_dim_names {names} specified. Mesh dim indices should be in ascending order.")
        places = [sum(place) for place in product(*(dim.offsets for dim in dims))]
        if len(set(places)) != len(places):
            raise RuntimeError(f"Slicing overlapping dim_names {names} is not allowed.")
        return self._part(dims)

    def _get_all_submeshes(self, mesh_dim_name):
        """Returns the meshes of all lines along a dimension."""
        dim, ranks = self._dim(mesh_dim_name), self._root._ranks
        return [DeviceMesh(self.device_type, [ranks[place] for place in line], mesh_dim_names=(mesh_dim_name,), _init_backend=False,
                           _rank=self._rank) for line in _lines(dim.offsets, len(ranks))]

    def _flatten(self, mesh_dim_name=None, backend_override=None):
        """Returns a mesh whose one dimension has all ranks of this mesh.  All ranks of the root mesh call it."""
        if not self.mesh_dim_names:
            raise RuntimeError("Cannot flatten a DeviceMesh without mesh_dim_names!")
        root, name = self._root, mesh_dim_name or "_".join(self.mesh_dim_names)
        if self.ndim == 1 and name == self.mesh_dim_names[0]:
            return self
        if name in (root.mesh_dim_names or ()):
            raise ValueError(f"{name} already exists for submesh of the {root}. ",
                             f"The mesh_dim_names of submesh and flattened mesh are {root.mesh_dim_names}. "
                             "Please specify another valid mesh_dim_name.")
        offsets = [sum(place) for place in product(*(dim.offsets for dim in self._dims))]
        if name in root._flattened:
            if root._flattened[name]._dims[0].offsets == offsets:
                return root._flattened[name]
            raise ValueError(f"Flatten mesh with mesh_dim_name {name} has been created before, "
                             "Please specify another valid mesh_dim_name.")
        place = 0
        for dim in self._dims:
            place = place * len(dim.offsets) + dim.place
        dim = _Dim(offsets, place, None, name)
        dim.group = self._dims[0].group if self.ndim == 1 else self._make_group(dim, _override(backend_override))
        root._flattened[name] = self._part([dim])
        return root._flattened[name]

    def _unflatten(self, dim, mesh_sizes, mesh_dim_names, backend_override=None):
        """Returns a mesh with several dimensions in place of one.  All ranks of the root mesh call it."""
        if isinstance(dim, int) and not 0 <= dim < self.ndim:
            raise ValueError(f"dim {dim} specified in `_unflatten` is out of range {self.ndim}")
        if isinstance(dim, str) and dim not in (self.mesh_dim_names or ()):
            raise ValueError(f"dim {dim} specified in `_unflatten` is not in {self.mesh_dim_names}")
        if len(mesh_sizes) != len(mesh_dim_names):
            raise RuntimeError("mesh_dim_names must have same length as mesh_sizes in _unflatten!")
        number = self.mesh_dim_names.index(dim) if isinstance(dim, str) else dim
        old = self._dims[number]
        if math.prod(mesh_sizes) != len(old.offsets):
            raise ValueError(f"The product of {mesh_sizes=} is {math.prod(mesh_sizes)}, but the original dimension at dim={number} has "
                             f"size {len(old.offsets)}. These must be equal for unflatten to work correctly.")
        made, step = [], len(old.offsets)
        how = _normalize_backend_override(backend_override or {}, len(mesh_sizes), mesh_dim_names)
        for size, name, override in zip(mesh_sizes, mesh_dim_names, how):
            step //= size
            new = _Dim([old.offsets[i * step] - old.offsets[0] for i in range(size)], old.place // step % size, None, name)
            new.group = self._make_group(new, override)
            made.append(new)
        return self._part([*self._dims[:number], *made, *self._dims[number + 1:]])

    @staticmethod
    def _concatenate(device_mesh_list):
        """Returns the mesh of the dimensions of several meshes of one root."""
        first = device_mesh_list[0]
        if any(mesh._root is not first._root for mesh in device_mesh_list):
            raise RuntimeError("Cannot concatenate DeviceMeshes derived from different device meshs")
        dims = [dim for mesh in device_mesh_list for dim in mesh._dims]
        places = [sum(place) for place in product(*(dim.offsets for dim in dims))]
        if len(set(places)) != len(places):
            raise RuntimeError(f"Cannot concatenate overlapping meshes: {device_mesh_list}")
        return first._part(dims)

    @staticmethod
    def from_group(group, device_type, mesh=None, *, mesh_dim_names=None):
        """Makes a mesh of groups that exist: of one group, or of one along each dimension."""
        if isinstance(group, dist.ProcessGroup):
            ranks = dist.get_process_group_ranks(group)
            given = mesh.tolist() if isinstance(mesh, cresset.Tensor) else mesh
            if given is not None and given != ranks:
                raise ValueError(f"Invalid mesh {mesh} for ProcessGroup with ranks {ranks}")
            groups, mesh = [group], ranks
        else:
            groups = list(group)
            if not groups:
                raise ValueError("Expects at least one ProcessGroup to be passed")
            if mesh is None:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            if mesh_dim_names is None:
                raise ValueError("Must pass mesh_dim_names if passing multiple ProcessGroups")
            mesh = cresset.as_tensor(mesh)
            if mesh.ndim != len(groups):
                raise ValueError("Expects mesh with ndim equal to number of ProcessGroups but got "
                                 f"mesh {mesh.tolist()} and {len(groups)} ProcessGroups")
        made = DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, _init_backend=False)
        for dim, one in zip(made._dims, groups):
            dim.group = one
        return made

    # --- as a value ---
    def __enter__(self):
        _mesh_resources.mesh_stack.append(self)
        return self

    def __exit__(self, *error):
        _mesh_resources.mesh_stack.pop()

    def __getstate__(self):
        """Groups stay in their process."""
        return {"device_type": self.device_type, "mesh": self.mesh.tolist(), "mesh_dim_names": self.mesh_dim_names, "_rank": self._rank}

    def __setstate__(self, state):
        self.__init__(**state, _init_backend=False)

    def _key(self):
        if self._made_key is None:
            self._made_key = self.device_type, tuple(self.mesh.flatten().tolist()), self.shape, self.mesh_dim_names
        return self._made_key

    _made_key = None

    def __eq__(self, other):
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        names = self.mesh_dim_names
        shape = f"({', '.join(f'{n}={s}' for n, s in zip(names, self.shape))})" if names else str(self.shape)
        return f"DeviceMesh({shape}, '{self.device_type}', stride={tuple(dim.stride() for dim in self._dims)})"


def _override(value):
    """Returns a backend and options of a dimension's groups: of a name, of options, or of both."""
    if value is None:
        return None, None
    return (value, None) if isinstance(value, str) else tuple(value) if isinstance(value, tuple) else (None, value)


def _normalize_backend_override(backend_override, ndim, mesh_dim_names=None):
    """Returns a backend and options for each dimension."""
    rest, found = dict(backend_override), []
    for d in range(ndim):
        name = mesh_dim_names[d] if mesh_dim_names else None
        if name in rest and d in rest:
            raise RuntimeError(f"Found redundant dim index {d} and name {name} in backend_override")
        found.append(_override(rest.pop(name, None) if name in rest else rest.pop(d, None)))
    if rest:
        raise RuntimeError(f"Found invalid keys in backend_override: got {list(rest)}, expected integers in range [0, {ndim}) "
                           f"or one of {mesh_dim_names}")
    return found


def init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """Makes a mesh of ranks 0, 1, ... in row-major order."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(f"Each mesh_dim_name must be unique. Found repeated mesh_dim_name in mesh_dim_names {mesh_dim_names}")
        if len(mesh_dim_names) != len(mesh_shape):
            raise RuntimeError("mesh_shape and mesh_dim_names should have same length! Found len(mesh_dim_names): "
                               f"{len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}.")
    how = _normalize_backend_override(backend_override, len(mesh_shape), mesh_dim_names) if backend_override is not None else None
    if device_type and not device_type.isalpha():
        raise RuntimeError(f"Device type with index is not supported but got {device_type}. ",
                           "If you maintained a 'torch.device' object, it's recommended to pass in 'device.type'.")
    mesh = cresset.arange(math.prod(mesh_shape), device="cpu").view(tuple(mesh_shape))
    return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names, backend_override=how)
