"""The former name of torch.distributed.device_mesh."""
from ..device_mesh import _mesh_resources, DeviceMesh, init_device_mesh  # noqa: F401
