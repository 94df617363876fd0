"""Functions for signals."""
from . import windows

__all__ = ["windows"]
