"""Old names of amp.autocast("cuda") and related functions."""
import functools
import warnings

from ... import _C
from ...amp import autocast_mode as _amp

__all__ = ["autocast", "custom_fwd", "custom_bwd"]


def _deprecated(name):
    old = f"torch.cuda.amp.{name}(args...)"
    new = (f"torch.amp.{name}(args..., device_type='cuda')" if name.startswith("custom")
           else f"torch.amp.{name}('cuda', args...)")
    warnings.warn(f"`{old}` is deprecated. Please use `{new}` instead.", FutureWarning,
                  stacklevel=3)


class autocast(_amp.autocast):
    """See torch.autocast."""

    def __init__(self, enabled=True, dtype=_C.float16, cache_enabled=True):
        _deprecated("autocast")
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd=None, *, cast_inputs=None):
    """See torch.amp.custom_fwd."""
    _deprecated("custom_fwd")
    return functools.partial(_amp.custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd):
    """See torch.amp.custom_bwd."""
    _deprecated("custom_bwd")
    return _amp.custom_bwd(bwd, device_type="cuda")
