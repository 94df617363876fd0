"""The former name of torch.distributed.tensor."""
import sys

from ..device_mesh import DeviceMesh, init_device_mesh  # noqa: F401
from ..tensor import *  # noqa: F401, F403
from ..tensor import __all__, _utils, experimental  # noqa: F401
from ..tensor.experimental import _attention, _func_map, _register_sharding

for _module in (_utils, experimental, _attention, _func_map, _register_sharding):
    sys.modules[_module.__name__.replace(".tensor.", "._tensor.")] = _module


def __getattr__(name):
    from ..._absent_names import missing
    raise missing(__name__, name)
