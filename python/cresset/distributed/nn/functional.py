"""Calls between ranks with derivatives."""
from .._functions import (all_gather, all_reduce, all_to_all, all_to_all_single, broadcast, gather, reduce,  # noqa: F401
                          reduce_scatter, scatter)
