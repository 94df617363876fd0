"""Policies of fully_shard: dtypes, and where parameters are while they are not used."""
from dataclasses import dataclass
from typing import Optional

import cresset

__all__ = ["CPUOffloadPolicy", "MixedPrecisionPolicy", "OffloadPolicy"]


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
