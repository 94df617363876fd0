"""Operators that take functions: branches, loops, scans and maps of tensors."""
from .associative_scan import associative_scan
from .cond import cond
from .foreach_map import foreach_map
from .map import map  # noqa: A004
from .scan import scan
from .while_loop import while_loop

__all__ = ["associative_scan", "cond", "foreach_map", "map", "scan", "while_loop"]
