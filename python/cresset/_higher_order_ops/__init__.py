"""Operators that take functions."""
from .associative_scan import associative_scan
