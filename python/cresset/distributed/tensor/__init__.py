"""Tensors that are spread over processes: the class that programs compare types with.

A torch that is built without distributed has no such module.  Here it has the class, which has
no instances, and the placements: transformers' Trainer and peft ask whether a tensor is a
DTensor without asking first whether torch.distributed is available.  Functions that would spread
a tensor are absent.
"""
from ... import _C
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard"]


class DTensor(_C.Tensor):
    """A tensor whose parts are in several processes."""

    def __new__(cls, *args, **kwargs):
        raise RuntimeError("a tensor is spread over processes by torch.distributed, which is not "
                           "available")
