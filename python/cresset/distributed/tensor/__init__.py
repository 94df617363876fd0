"""DTensor, the class of distributed tensors, for isinstance(), and the placements.

A torch built without distributed lacks this module.  It exists here because transformers' Trainer
and peft ask whether a tensor is a DTensor before they ask whether torch.distributed is available.
DTensor has no instances, and functions that distribute a tensor are absent.
"""
from ... import _C
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard"]


class DTensor(_C.Tensor):
    """A tensor whose parts are in several processes."""

    def __new__(cls, *args, **kwargs):
        raise RuntimeError("DTensor needs torch.distributed, which is not available")
