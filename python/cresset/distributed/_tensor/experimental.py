"""The older name of distributed.tensor.experimental."""
from ..tensor.experimental import context_parallel, implicit_replication, local_map

__all__ = ["context_parallel", "implicit_replication", "local_map"]
