"""Parts of distributed tensors."""
from .placement_types import Shard, divisions, interleaves


def compute_local_shape_and_global_offset(global_shape, mesh, placements, skip_offset=False):
    """Returns the sizes of this rank's part of a tensor and its first indices in the whole; ((0,), ()) outside of the mesh.

    The first index of a part without elements is the whole's size."""
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    sizes, first = list(global_shape), [0] * len(global_shape)
    if not skip_offset and not interleaves(placements, mesh):
        raise NotImplementedError(f"the first index of a part that is not one block of the tensor: {tuple(placements)}")
    for i in divisions(placements):
        dim = placements[i].dim
        sizes[dim], at = Shard.local_shard_size_and_offset(sizes[dim], mesh.size(i), place[i])
        first[dim] += at
        if not sizes[dim]:
            first[dim] = global_shape[dim]
    return tuple(sizes), () if skip_offset else tuple(first)
