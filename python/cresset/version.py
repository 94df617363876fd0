"""The version of torch that this package follows, and its own."""
from .torch_version import TorchVersion

__all__ = ["__version__", "debug", "cuda", "git_version", "hip", "rocm", "xpu"]

cresset = "0.1.0"  # this package's own
# Programs compare it with torch's versions and treat the part after the plus as a build name.
__version__ = TorchVersion("2.13.0+cresset." + cresset)
debug = False
hip = None
rocm = None
xpu = None
git_version = "unknown"


def __getattr__(name):
    """`cuda` is the version of CUDA that the driver has, and None without a device."""
    if name != "cuda":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _C
    if not _C._cuda_count():
        return None
    version = _C._cuda_driver_version()
    return f"{version // 1000}.{version % 1000 // 10}"


def __dir__():
    return [*globals(), "cuda"]
