"""Switches and masks of scaled_dot_product_attention.

There is one implementation here, so the switches are stored and have no effect on results.
"""
import contextlib
import enum

from ...backends import cuda as _cuda

__all__ = ["SDPBackend", "sdpa_kernel", "WARN_FOR_UNFUSED_KERNELS"]

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.Enum):
    """Implementations of attention, by torch's names."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


# The switches of torch.backends.cuda that select an implementation, in torch's order.
_SWITCHES = {SDPBackend.CUDNN_ATTENTION: "cudnn", SDPBackend.FLASH_ATTENTION: "flash",
             SDPBackend.EFFICIENT_ATTENTION: "mem_efficient", SDPBackend.MATH: "math",
             SDPBackend.OVERRIDEABLE: "overrideable"}


def _cur_sdpa_kernel_backends(with_priority=False):
    """Returns the implementations that are switched on."""
    return [kind for kind, name in _SWITCHES.items() if _cuda._attention[name]]


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """Switches on only these implementations inside."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend "
                             f"instances, got {type(backends).__name__}")
    chosen = {backends} if isinstance(backends, SDPBackend) else set(backends)
    before = dict(_cuda._attention)
    _cuda._attention.update({name: kind in chosen for kind, name in _SWITCHES.items()})
    try:
        yield {}
    finally:
        _cuda._attention.update(before)
