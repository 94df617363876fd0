"""The version of torch that this package follows, and its own."""
from .torch_version import TorchVersion

__all__ = ["__version__"]

cresset = "0.1.0"  # this package's own
# Programs compare it with torch's versions and treat the part after the plus as a build name.
__version__ = TorchVersion("2.13.0+cresset." + cresset)
debug = False
cuda = None
hip = None
rocm = None
xpu = None
git_version = "unknown"
