"""Tensors that are divided or repeated over the ranks of a mesh."""
from . import _utils  # noqa: F401
from ._api import DTensor, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty", "full", "ones",
           "rand", "randn", "zeros"]


def __getattr__(name):
    from ..._absent_names import missing
    raise missing(__name__, name)
