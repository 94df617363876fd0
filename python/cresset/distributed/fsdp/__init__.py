"""Sharded parameters: the classes that libraries import to ask whether a module is sharded, and the records of its options.

fully_shard() divides the parameters of modules; the wrapper FullyShardedDataParallel refuses.
"""
from enum import Enum, auto

from ._fully_shard import FSDPModule, UnshardHandle, fully_shard, register_fsdp_forward_method, share_comm_ctx
from ._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from .fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = ["CPUOffloadPolicy", "FSDPModule", "FullyShardedDataParallel", "MixedPrecisionPolicy", "OffloadPolicy", "UnshardHandle",
           "fully_shard", "register_fsdp_forward_method", "share_comm_ctx",
           "BackwardPrefetch", "ShardingStrategy", "StateDictType"]


class ShardingStrategy(Enum):
    """What FullyShardedDataParallel divides: parameters, gradients and states, or a part of these; within a host or not."""

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters are collected in backward: before or after the gradients of the present ones."""

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """What a state dict of sharded parameters has: whole tensors, this rank's flat parts, or ShardedTensors."""

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


def __getattr__(name):
    from ..._absent_names import missing
    raise missing(__name__, name)
