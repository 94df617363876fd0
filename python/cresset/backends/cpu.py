"""The processor."""
from .. import _C

__all__ = ["get_cpu_capability"]


def get_cpu_capability():
    """Returns the instruction set that kernels use: "DEFAULT", "AVX2" or "AVX512"."""
    return _C._build_config()["capability"]
