"""The former name of torch.distributed.tensor."""
from ..device_mesh import DeviceMesh, init_device_mesh  # noqa: F401
from ..tensor import *  # noqa: F401, F403
from ..tensor import __all__  # noqa: F401


def __getattr__(name):
    from ..._absent_names import missing
    raise missing(__name__, name)
