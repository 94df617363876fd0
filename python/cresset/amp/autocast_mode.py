"""Autocast: chosen operators compute in a lower precision.

The operator table states which operators.  The conversion is in C; this module has the
switches.
"""
import functools
import warnings

from .. import _C

__all__ = ["autocast", "custom_fwd", "custom_bwd", "is_autocast_available"]

_DTYPES = {"cpu": (_C.bfloat16, _C.float16), "cuda": (_C.float16, _C.bfloat16)}


def is_autocast_available(device_type):
    """Returns whether autocast supports a device type."""
    return _C.device(device_type).type in _DTYPES


def _usable(device_type, dtype):
    """Returns whether autocast can be on; warns with the reason when it cannot."""
    if device_type == "cuda":
        from .. import cuda
        if not cuda.is_available():
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.",
                          stacklevel=3)
            return False
    if device_type == "cpu" and dtype not in _DTYPES["cpu"]:
        warnings.warn("In CPU autocast, but the target dtype is not supported. Disabling "
                      "autocast.\nCPU Autocast only supports dtypes of torch.bfloat16, "
                      "torch.float16 currently.", stacklevel=3)
        return False
    return True


class autocast:
    """Inside, or in the decorated function, operators use the precision that the table states.

    device_type: "cpu" or "cuda"; dtype: the lower precision (bfloat16 on CPUs); enabled: False
    disables autocast inside; cache_enabled: True converts weights only once.

    Example::

        >>> with torch.autocast("cpu"):
        ...     y = torch.ones(2, 3) @ torch.ones(3, 2)
        ...
        >>> y.dtype
        torch.bfloat16
    """

    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if not isinstance(device_type, str):
            raise ValueError("Expected `device_type` of type `str`, got: "
                             f"`{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type "
                               f"'{device_type}'")
        self.device = device_type
        self.fast_dtype = _C.get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = (_C.is_autocast_cache_enabled() if cache_enabled is None
                               else cache_enabled)
        self._enabled = bool(enabled) and _usable(device_type, self.fast_dtype)

    # In C: an interrupt at the begin or end of a method in Python would leave autocast on.
    __enter__, __exit__ = _C._enter_autocast, _C._exit_autocast

    @property
    def _state(self):
        return self.device, self._enabled, self.fast_dtype, self._cache_enabled

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
        return inside


def _cast(value, device_type, dtype):
    if isinstance(value, _C.Tensor):
        fits = (value.is_floating_point() and value.device.type == device_type
                and value.dtype is not _C.float64)
        return value.to(dtype) if fits else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype)
                for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        made = [_cast(v, device_type, dtype) for v in value]
        return made if isinstance(value, list) else tuple(made)
    return value


def custom_fwd(fwd=None, *, device_type, cast_inputs=None):
    """Decorates the forward of a custom Function: runs it with the caller's autocast, or, with
    cast_inputs, without autocast on inputs converted to that dtype."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(*args, **kwargs):
        args[0]._dtype = _C.get_autocast_dtype(device_type)
        on = _C.is_autocast_enabled(device_type)
        args[0]._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*_cast(args, device_type, cast_inputs),
                       **_cast(kwargs, device_type, cast_inputs))
    return decorated


def custom_bwd(bwd=None, *, device_type):
    """Decorates the backward of a custom Function: runs it with the autocast state of forward."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(*args, **kwargs):
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)
    return decorated
