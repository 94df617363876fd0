"""Versions of this package and of the torch version that it follows."""
from .torch_version import TorchVersion

__all__ = ["__version__"]

# Programs compare it with torch's versions and treat the part after the plus as a build name.
__version__ = TorchVersion("2.13.0+cresset")
debug = False
cuda = None
hip = None
rocm = None
xpu = None
git_version = "unknown"
