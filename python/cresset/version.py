"""Versions: of this package, and of the torch whose interface it has."""
__all__ = ["__version__"]

# Programs compare it with torch's versions, and read what follows the plus as a build's name.
__version__ = "2.13.0+cresset.0.1"
debug = False
cuda = None
hip = None
xpu = None
git_version = "unknown"
