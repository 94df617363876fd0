"""What tensors over ranks do: the calls that are made, and pictures of parts."""
from ._comm_mode import CommDebugMode
from ._visualize_sharding import visualize_sharding

__all__ = ["CommDebugMode", "visualize_sharding"]


def __getattr__(name):
    from ...._absent_names import missing
    raise missing(__name__, name)
