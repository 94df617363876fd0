"""The calls of C functions that lead here."""
from . import get_cpp_backtrace

__all__ = ["get_cpp_backtrace"]
