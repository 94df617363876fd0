"""CyclingIterator, by its own module."""
from . import CyclingIterator  # noqa: F401

__all__ = ["CyclingIterator"]
