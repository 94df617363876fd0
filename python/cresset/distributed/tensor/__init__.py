"""DTensor, the class of distributed tensors, for isinstance(), and the placements.

transformers and peft import them wherever torch.distributed is available, and ask whether a tensor is a DTensor.  DTensor has
no instances here: distribute_tensor() refuses.
"""
from ... import _C
from . import _utils  # noqa: F401
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_tensor"]


class DTensor(_C.Tensor):
    """A tensor whose parts are in several processes."""

    def __new__(cls, *args, **kwargs):
        raise NotImplementedError("DTensor: tensors that are distributed over a mesh are not implemented")


def distribute_tensor(tensor, device_mesh=None, placements=None, *, src_data_rank=0):
    """Is not implemented."""
    raise NotImplementedError("distribute_tensor(): tensors that are distributed over a mesh are not implemented")
