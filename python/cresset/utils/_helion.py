"""Whether Helion, a language for kernels in another package, is there.  This library does not use it."""
import functools
import importlib.util

from ._triton import has_triton


@functools.cache
def has_helion_package():
    """Returns whether the package helion is installed."""
    return importlib.util.find_spec("helion") is not None


@functools.cache
def has_helion():
    """Returns whether Helion is installed and Triton works, which it compiles to."""
    return has_helion_package() and has_triton()
