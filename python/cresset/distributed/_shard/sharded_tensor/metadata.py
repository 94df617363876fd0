"""The facts of a ShardedTensor."""
from dataclasses import dataclass, field
from typing import Any

import cresset

from ...checkpoint.metadata import TensorProperties

__all__ = ["ShardedTensorMetadata", "TensorProperties"]


@dataclass
class ShardedTensorMetadata:
    """The boxes of all ranks, and the size."""

    shards_metadata: list = field(default_factory=list)
    size: Any = cresset.Size([])
    tensor_properties: TensorProperties = field(default_factory=TensorProperties)
