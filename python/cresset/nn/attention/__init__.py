"""Switches and masks of scaled_dot_product_attention.

There is one implementation here, so the switches are stored and have no effect on results.
"""
import contextlib
import enum

from ...backends import cuda as _cuda

__all__ = ["SDPBackend", "sdpa_kernel", "WARN_FOR_UNFUSED_KERNELS", "list_flash_attention_impls", "register_flash_attention_impl",
           "current_flash_attention_impl", "restore_flash_attention_impl", "activate_flash_attention_impl"]

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


# --- other implementations of FlashAttention, which a package may register ---

_flash_impls = {"FA3": None, "FA4": None}
_flash_current = None, None  # the name and what its function returned


def list_flash_attention_impls():
    """The names that activate_flash_attention_impl knows."""
    return sorted(_flash_impls)


def register_flash_attention_impl(impl, *, register_fn):
    """Names an implementation: register_fn() puts it in use and returns an object with remove(), or None."""
    _flash_impls[impl] = register_fn


def current_flash_attention_impl():
    """The implementation in use; None: the library's."""
    return _flash_current[0]


def restore_flash_attention_impl():
    """Puts the library's implementation in use again."""
    global _flash_current
    handle, _flash_current = _flash_current[1], (None, None)
    if handle is not None:
        handle.remove()


def activate_flash_attention_impl(impl):
    """Puts a registered implementation in use."""
    global _flash_current
    if impl not in _flash_impls:
        raise ValueError(f"Unknown flash attention impl '{impl}'. Available implementations: {list_flash_attention_impls()}")
    if _flash_impls[impl] is None:
        raise RuntimeError(f"no package registered the implementation '{impl}'")
    restore_flash_attention_impl()
    _flash_current = impl, _flash_impls[impl]()
