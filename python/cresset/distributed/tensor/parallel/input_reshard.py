"""input_reshard: a module keeps for backward a part of each tensor that all ranks have."""
import cresset

from ....autograd.graph import saved_tensors_hooks
from .._api import DTensor
from ..placement_types import Replicate, Shard, dim_of

__all__ = ["input_reshard"]


def _keep(mesh, dim, x):
    if isinstance(x, DTensor):
        return x.redistribute(mesh, [Shard(dim)]) if all(p.is_replicate() for p in x.placements) else x
    if x.numel() < mesh.size():
        return x
    return DTensor.from_local(x, mesh).redistribute(mesh, [Shard(dim)]).to_local()


def _restore(mesh, dim, size, x):
    if isinstance(x, DTensor):
        divided = len(x.placements) == 1 and dim_of(x.placements[0]) is not None
        return x.redistribute(mesh, [Replicate()]) if divided else x
    if size.numel() < mesh.size():
        return x
    whole = DTensor.from_local(x, mesh, [Shard(dim)], shape=size, stride=cresset.empty(size, device="meta").stride())
    return whole.redistribute(mesh, [Replicate()]).to_local()


def input_reshard(module, tp_device_mesh, input_reshard_dim=None):
    """Makes a module save parts along a dim of what its backward needs, and collect them in backward.  Every rank must have the
    same tensors inside, as before a module of tensor parallelism.  None as dim: nothing is divided."""
    if input_reshard_dim is None:
        return module
    open_ones = []

    def pack(x):
        return x.shape, _keep(tp_device_mesh, input_reshard_dim, x)

    def unpack(kept):
        return _restore(tp_device_mesh, input_reshard_dim, *kept)

    def enter(*_):
        open_ones.append(saved_tensors_hooks(pack, unpack))
        open_ones[-1].__enter__()

    def leave(*_):
        if open_ones:  # none where an earlier hook raised
            open_ones.pop().__exit__(None, None, None)
    module.register_forward_pre_hook(enter)
    module.register_forward_hook(leave, always_call=True)  # also after an error
    return module
