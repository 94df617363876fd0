"""The former name of torch.distributed.tensor.placement_types."""
from ..tensor.placement_types import Partial, Placement, Replicate, Shard  # noqa: F401
