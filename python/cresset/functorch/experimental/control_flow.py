"""Branches and maps by the names that programs of torch 2.0 to 2.4 import."""
from ..._higher_order_ops import cond, map  # noqa: A004

__all__ = ["cond", "map"]
