"""NNPACK: not used.  The switch stores the value that programs set."""
from contextlib import contextmanager

__all__ = ["is_available", "flags", "set_flags"]

_enabled = True


def is_available():
    return False


def set_flags(_enabled):
    """Sets the switch and returns its earlier value."""
    before = (globals()["_enabled"],)
    globals()["_enabled"] = _enabled
    return before


@contextmanager
def flags(enabled=False):
    """Sets the switch inside."""
    before = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(*before)
