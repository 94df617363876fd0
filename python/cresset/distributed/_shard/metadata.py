"""A box of a tensor and the rank that has it."""
from dataclasses import dataclass
from typing import Any

__all__ = ["ShardMetadata"]


@dataclass
class ShardMetadata:
    """The place of a box; placement is "rank:0/cpu"."""

    shard_offsets: list
    shard_sizes: list
    placement: Any = None
