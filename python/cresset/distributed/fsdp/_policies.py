"""Policies of fully_shard: dtypes, and where parameters are while they are not used."""
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Optional

import cresset

__all__ = ["AllGather", "CPUOffloadPolicy", "Comm", "MixedPrecisionPolicy", "OffloadPolicy", "ReduceScatter"]


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


class Comm(ABC):
    """A call of a program that fully_shard makes in place of its own, and the memory of the call's tensors."""

    @abstractmethod
    def allocate(self, size, *, dtype, device):
        """Returns a tensor for the call."""


class AllGather(Comm):
    """Collects the parts of all ranks."""

    @abstractmethod
    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        """Fills output_tensor; returns a work, or None if it is complete."""


class ReduceScatter(Comm):
    """Reduces gradients, and gives each rank a part."""

    @abstractmethod
    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        """Fills output_tensor; returns a work, or None if it is complete."""
