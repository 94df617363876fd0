"""Operators by torch's overloads: `ops.aten.add.Tensor(x, y)`."""
from ._ops import _OpNamespace, load_library, loaded_libraries


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    namespace = globals()[name] = _OpNamespace(name)
    return namespace
