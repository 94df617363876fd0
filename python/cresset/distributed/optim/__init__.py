"""Optimizers that communicate."""
from .apply_optimizer_in_backward import _apply_optimizer_in_backward, _get_in_backward_optimizers
from .named_optimizer import _NamedOptimizer  # noqa: F401
from .optimizer import DistributedOptimizer
from .post_localSGD_optimizer import PostLocalSGDOptimizer
from .zero_redundancy_optimizer import ZeroRedundancyOptimizer

__all__ = ["DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer"]


def __getattr__(name):
    from ..._absent_names import missing
    raise missing(__name__, name)
