"""Sharded parameters: the classes that libraries import to ask whether a module is sharded, and the records of its options.

No module is sharded here: fully_shard() and FullyShardedDataParallel refuse.
"""
from dataclasses import dataclass
from enum import Enum, auto
from typing import Optional

import cresset

from .fully_sharded_data_parallel import FullyShardedDataParallel

__all__ = ["CPUOffloadPolicy", "FSDPModule", "FullyShardedDataParallel", "MixedPrecisionPolicy", "OffloadPolicy", "fully_shard",
           "BackwardPrefetch", "ShardingStrategy", "StateDictType"]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Dtypes of the parameters in forward and backward, of the reduction of gradients, and of outputs."""

    param_dtype: Optional[cresset.dtype] = None
    reduce_dtype: Optional[cresset.dtype] = None
    output_dtype: Optional[cresset.dtype] = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Parameters, gradients and states of optimizers stay on the device."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """They are in host memory, in pinned pages with pin_memory, while they are not used."""

    pin_memory: bool = True


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


class FSDPModule:
    """The class of modules that fully_shard() returns, for isinstance()."""

    def __new__(cls, *args, **kwargs):
        raise AssertionError("FSDPModule should not be instantiated directly")


def fully_shard(module, **options):
    """Is not implemented."""
    raise NotImplementedError("fully_shard(): sharded parameters are not implemented; DistributedDataParallel has whole "
                              "parameters at every rank")
