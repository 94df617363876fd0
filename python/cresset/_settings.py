"""Settings of the process that need no C: what programs ask for and read back."""
from . import _C

__all__ = ["set_default_tensor_type", "use_deterministic_algorithms",
           "are_deterministic_algorithms_enabled",
           "is_deterministic_algorithms_warn_only_enabled", "set_float32_matmul_precision",
           "get_float32_matmul_precision", "is_storage", "is_warn_always_enabled",
           "set_warn_always", "get_num_interop_threads", "set_num_interop_threads"]

_state = {"deterministic": False, "warn_only": False, "precision": "highest", "warn": False,
          "interop": 1}


def set_default_tensor_type(t):
    """The old way to set the default dtype."""
    _C.set_default_dtype(_C._dtype_of_type(t))


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Operators are deterministic whatever is set; programs may ask what they set."""
    _state.update(deterministic=bool(mode), warn_only=bool(warn_only))


def are_deterministic_algorithms_enabled():
    return _state["deterministic"]


def is_deterministic_algorithms_warn_only_enabled():
    return _state["warn_only"]


def set_float32_matmul_precision(precision):
    """Products of float32 are computed in float32 whatever is set."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"precision must be 'highest', 'high' or 'medium', not {precision!r}")
    _state["precision"] = precision


def get_float32_matmul_precision():
    return _state["precision"]


def set_warn_always(on):
    """Warnings are left to Python's filters whatever is set."""
    _state["warn"] = bool(on)


def is_warn_always_enabled():
    return _state["warn"]


def set_num_interop_threads(n):
    """Operators run one after another whatever is set."""
    if n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _state["interop"] = n


def get_num_interop_threads():
    return _state["interop"]


def is_storage(obj):
    """Whether it is a storage."""
    from .storage import TypedStorage, UntypedStorage
    return isinstance(obj, (UntypedStorage, TypedStorage))
