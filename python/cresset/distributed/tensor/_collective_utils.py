"""Calls along one dimension of a mesh."""
import cresset

from .. import distributed_c10d as dist
from ._redistribute import _exchange

__all__ = ["mesh_broadcast", "mesh_scatter", "pad_tensor", "shard_dim_alltoall", "unpad_tensor"]


def shard_dim_alltoall(input, gather_dim, shard_dim, mesh, mesh_dim):
    """Returns this rank's part along shard_dim of a tensor of which the ranks have equal parts along gather_dim."""
    ranks, sizes = mesh.size(mesh_dim), list(input.shape)
    sizes[gather_dim] *= ranks
    return _exchange(input, gather_dim, shard_dim, sizes, mesh.get_group(mesh_dim), ranks, mesh.get_local_rank(mesh_dim))


def mesh_scatter(output, scatter_list, mesh, mesh_dim=0, async_op=False, *, group_src=0):
    """Gives each rank of a dimension of the mesh a tensor of the list of its rank group_src."""
    if output.is_meta:
        return None
    group = mesh.get_group(mesh_dim)
    given = scatter_list if dist.get_rank(group) == group_src else None
    return dist.scatter(output, given, group=group, async_op=async_op, group_src=group_src)


def mesh_broadcast(tensor, mesh, mesh_dim=0, async_op=False, *, group_src=0):
    """Gives all ranks of a dimension of the mesh the tensor of its rank group_src."""
    if tensor.is_meta:
        return None
    return dist.broadcast(tensor, group=mesh.get_group(mesh_dim), async_op=async_op, group_src=group_src)


def pad_tensor(tensor, pad_dim, pad_size):
    """Returns a tensor with zeros behind it along a dim."""
    if pad_size == 0:
        return tensor
    sizes = list(tensor.shape)
    sizes[pad_dim] = pad_size
    return cresset.cat([tensor, tensor.new_zeros(sizes)], pad_dim)


def unpad_tensor(tensor, pad_dim, pad_size):
    """Returns a tensor without its last places along a dim."""
    return tensor if pad_size == 0 else tensor.narrow(pad_dim, 0, tensor.size(pad_dim) - pad_size)
