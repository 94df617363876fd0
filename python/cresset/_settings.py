"""Settings of the process that are in Python."""
from warnings import warn

from . import _C

__all__ = ["set_default_tensor_type", "use_deterministic_algorithms",
           "are_deterministic_algorithms_enabled",
           "is_deterministic_algorithms_warn_only_enabled", "set_float32_matmul_precision",
           "get_float32_matmul_precision", "is_storage", "is_warn_always_enabled",
           "set_warn_always", "get_num_interop_threads", "set_num_interop_threads",
           "get_deterministic_debug_mode", "set_deterministic_debug_mode",
           "is_autocast_cpu_enabled", "set_autocast_cpu_enabled", "get_autocast_cpu_dtype",
           "set_autocast_cpu_dtype", "get_autocast_gpu_dtype", "set_autocast_gpu_dtype", "_assert"]

_state = {"deterministic": False, "warn_only": False, "precision": "highest", "warn": False,
          "interop": 1}
_said = set()  # texts of warn_once


def set_default_tensor_type(t):
    """Sets the default dtype by a tensor type."""
    warn("torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
         "torch.set_default_dtype() and torch.set_default_device() as alternatives.",
         stacklevel=2)
    _C.set_default_dtype(_C._dtype_of_type(t))


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Stores the setting.  Operators are always deterministic.

    Example::

        >>> torch.use_deterministic_algorithms(True)
        >>> torch.are_deterministic_algorithms_enabled()
        True
        >>> torch.use_deterministic_algorithms(False)
    """
    if not isinstance(mode, bool):
        raise TypeError("_set_deterministic_algorithms(): argument 'mode' (position 1) must be bool, not "
                        f"{type(mode).__name__}")
    if not isinstance(warn_only, bool):
        raise TypeError("_set_deterministic_algorithms(): argument 'warn_only' must be bool, not "
                        f"{type(warn_only).__name__}")
    _state.update(deterministic=mode, warn_only=warn_only)


def are_deterministic_algorithms_enabled():
    """The setting of use_deterministic_algorithms.

    Example::

        >>> torch.are_deterministic_algorithms_enabled()
        False
    """
    return _state["deterministic"]


def is_deterministic_algorithms_warn_only_enabled():
    return _state["warn_only"]


def get_deterministic_debug_mode():
    """Returns 0 (off), 1 (warn) or 2 (error)."""
    return 0 if not _state["deterministic"] else 1 if _state["warn_only"] else 2


def set_deterministic_debug_mode(debug_mode):
    """use_deterministic_algorithms by number or name: default, warn, error."""
    modes = {"default": 0, "warn": 1, "error": 2}
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str) and debug_mode not in modes:
        raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, "
                           f"`error`, but got {debug_mode}")
    mode = modes.get(debug_mode, debug_mode)
    if mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected 0, 1, or 2, but got {mode}")
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def set_float32_matmul_precision(precision):
    """Sets how float32 products are computed on CUDA: "highest" in float32, else in TF32."""
    if precision not in ("highest", "high", "medium"):
        warn(f"{precision} is not one of 'highest', 'high', or 'medium'; the current"
             "setFloat32MatmulPrecision call has no effect.", stacklevel=2)
        return
    _state["precision"] = precision
    _C._cuda_allow_tf32(precision != "highest")


def get_float32_matmul_precision():
    return _state["precision"]


def set_warn_always(on):
    """Sets whether warnings that appear once appear always."""
    _state["warn"] = bool(on)
    _C._set_warn_always(on)


def warn_once(text, stacklevel=2):
    """Warns at the first call with this text, or at each after set_warn_always(True)."""
    if text not in _said or _state["warn"]:
        _said.add(text)
        warn(text, stacklevel=stacklevel + 1)


def is_warn_always_enabled():
    return _state["warn"]


def set_num_interop_threads(n):
    """Stores the setting.  Operators always run one after another."""
    if n <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _state["interop"] = n


def get_num_interop_threads():
    return _state["interop"]


def is_storage(obj):
    """Returns whether `obj` is a storage."""
    from .storage import TypedStorage, UntypedStorage
    return isinstance(obj, (UntypedStorage, TypedStorage))


def _assert(condition, message):
    """An assertion that tracing functions recognize.

    Example::

        >>> torch._assert(True, "never")
    """
    if type(condition) is not _C.Tensor and _C._has_torch_function((condition,)):
        from .overrides import handle_torch_function
        return handle_torch_function(_assert, (condition,), condition, message)
    assert condition, message


def _old_autocast(name, device, function):
    """Makes a function of the time when device types were not arguments."""
    new = name.replace(f"_{device}", "")
    kind = {"gpu": "cuda"}.get(device, device)

    def old(*args):
        what = "enabled" if name.endswith("enabled") else "dtype"
        arguments = f", {what}" * len(args)
        warn(f"torch.{name}({what * len(args)}) is deprecated. Please use "
             f"torch.{new}('{kind}'{arguments}) instead.", DeprecationWarning, stacklevel=2)
        return function(kind, *args)
    old.__name__ = old.__qualname__ = name
    return old


for _name in __all__:
    if _name.startswith(("is_autocast_", "get_autocast_", "set_autocast_")):
        _device = "cpu" if "_cpu_" in _name else "gpu"
        globals()[_name] = _old_autocast(_name, _device,
                                         getattr(_C, _name.replace(f"_{_device}", "")))
