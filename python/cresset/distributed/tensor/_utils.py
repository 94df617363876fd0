"""Parts of distributed tensors."""
from .placement_types import Shard, _StridedShard


def compute_local_shape_and_global_offset(global_shape, mesh, placements, skip_offset=False):
    """Returns the sizes of this rank's part of a tensor and its first indices in the whole; ((0,), ()) outside of the mesh.

    The first index of a part without elements is the whole's size."""
    place = mesh.get_coordinate()
    if place is None:
        return (0,), ()
    sizes, first = list(global_shape), [0] * len(global_shape)
    for dim, placement in enumerate(placements):
        if isinstance(placement, _StridedShard):
            raise NotImplementedError(f"the part of a tensor that is placed by {placement!r}")
        if isinstance(placement, Shard):
            sizes[placement.dim], at = placement.local_shard_size_and_offset(sizes[placement.dim], mesh.size(dim), place[dim])
            first[placement.dim] += at
            if not sizes[placement.dim]:
                first[placement.dim] = global_shape[placement.dim]
    return tuple(sizes), () if skip_offset else tuple(first)
