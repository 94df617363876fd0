"""The former name of torch.distributed.tensor.placement_types."""
from ..tensor.placement_types import Partial, Placement, Replicate, Shard  # noqa: F401
from ..tensor._dtensor_spec import DTensorSpec, TensorMeta  # noqa: F401
