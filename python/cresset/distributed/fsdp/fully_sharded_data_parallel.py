"""The class of wrapped modules with sharded parameters."""
from ...nn.modules.module import Module
from .api import (BackwardPrefetch, CPUOffload, FullOptimStateDictConfig, FullStateDictConfig, LocalOptimStateDictConfig,  # noqa: F401
                  LocalStateDictConfig, MixedPrecision, OptimStateDictConfig, OptimStateKeyType, ShardedOptimStateDictConfig,
                  ShardedStateDictConfig, ShardingStrategy, StateDictConfig, StateDictSettings, StateDictType)

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]


class FullyShardedDataParallel(Module):
    """The class of modules with sharded parameters, for isinstance()."""

    def __init__(self, *args, **kwargs):
        raise NotImplementedError("FullyShardedDataParallel: sharded parameters are not implemented; DistributedDataParallel "
                                  "has whole parameters at every rank")


def __getattr__(name):
    from ..._absent_names import missing
    raise missing(__name__, name)
