"""The records and choices of sharded parameters that libraries make for the class FullyShardedDataParallel."""
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Optional

import cresset

from ...nn.modules.batchnorm import _BatchNorm

__all__ = ["BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig", "LocalOptimStateDictConfig",
           "LocalStateDictConfig", "MixedPrecision", "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig",
           "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings", "StateDictType"]


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


class OptimStateKeyType(Enum):
    """How a state dict of an optimizer names parameters."""

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class MixedPrecision:
    """Dtypes of parameters, of the reduction of gradients, and of buffers."""

    param_dtype: Optional[cresset.dtype] = None
    reduce_dtype: Optional[cresset.dtype] = None
    buffer_dtype: Optional[cresset.dtype] = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (_BatchNorm,)


@dataclass
class CPUOffload:
    """Whether parameters are in host memory while they are not used."""

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """Where the tensors of a state dict are."""

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Whole tensors, at all ranks or at the first one."""

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """This rank's parts."""


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Divided tensors."""

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """The same of an optimizer."""

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors, at all ranks or at the first one."""

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """This rank's parts."""

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Divided tensors."""

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """What a state dict has, and the records for modules and optimizers."""

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
