"""Features of tensors over ranks whose interfaces may change: context parallelism, functions of parts, implicit replication."""
from contextlib import contextmanager

from .. import _dispatch
from ._attention import context_parallel
from ._func_map import local_map
from ._register_sharding import register_sharding

__all__ = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]


@contextmanager
def implicit_replication():
    """Inside, operators take a plain tensor beside a DTensor as one that all ranks have."""
    before, _dispatch.replicates = _dispatch.replicates, True
    try:
        yield
    finally:
        _dispatch.replicates = before


def __getattr__(name):
    from ...._absent_names import missing
    raise missing(__name__, name)
