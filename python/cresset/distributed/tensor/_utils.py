"""Parts of distributed tensors."""
from ._redistribute import sizes_at
from .placement_types import Shard, block_divisions


def compute_local_shape_and_global_offset(global_shape, mesh, placements, skip_offset=False):
    """Returns the sizes of this rank's part of a tensor and its first indices in the whole; ((0,), ()) outside of the mesh.

    The first index of a part without elements is the whole's size."""
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    if skip_offset:
        return tuple(sizes_at(global_shape, mesh, placements, mesh.ndim)), ()
    sizes, first = list(global_shape), [0] * len(global_shape)
    for i in block_divisions(placements, mesh):
        dim = placements[i].dim
        sizes[dim], at = Shard.local_shard_size_and_offset(sizes[dim], mesh.size(i), place[i])
        first[dim] += at
        if not sizes[dim]:
            first[dim] = global_shape[dim]
    return tuple(sizes), tuple(first)
