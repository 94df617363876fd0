"""Functions that change modules in place, so that their processes work together: each at most once a module."""
from .contract import _get_registry, contract
from .replicate import replicate

__all__ = ["contract", "replicate"]
