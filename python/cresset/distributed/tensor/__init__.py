"""Tensors that are divided or repeated over the ranks of a mesh."""
from ...serialization import add_safe_globals as _add_safe_globals
from ..device_mesh import DeviceMesh, init_device_mesh  # noqa: F401
from . import _utils  # noqa: F401
from ._api import _rebuild, DTensor, distribute_module, distribute_tensor, empty, full, ones, rand, randn, zeros
from ._dtensor_spec import DTensorSpec as _DTensorSpec, TensorMeta as _TensorMeta
from .placement_types import Partial, Placement, Replicate, Shard, _StridedShard

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor", "empty", "full", "ones",
           "rand", "randn", "zeros"]

_add_safe_globals([DeviceMesh, _DTensorSpec, _TensorMeta, DTensor, Partial, Replicate, Shard, _StridedShard, _rebuild])


def __getattr__(name):
    from ..._absent_names import missing
    raise missing(__name__, name)
