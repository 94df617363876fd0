"""How a tensor is divided into boxes of ranks: in chunks of one dim, or by a list of boxes."""
from ..metadata import ShardMetadata
from .api import _infer_sharding_spec_from_shards_metadata, DevicePlacementSpec, EnumerableShardingSpec, PlacementSpec, ShardingSpec
from .chunk_sharding_spec import ChunkShardingSpec

__all__ = ["ChunkShardingSpec", "DevicePlacementSpec", "EnumerableShardingSpec", "PlacementSpec", "ShardingSpec", "ShardMetadata"]
