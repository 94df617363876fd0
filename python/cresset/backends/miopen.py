"""MIOpen: not used.  The switch stores the value that programs set."""
from contextlib import contextmanager

immediate = False


def set_flags(_immediate=None):
    """Sets the given value and returns the earlier one."""
    global immediate
    before = (immediate,)
    immediate = immediate if _immediate is None else _immediate
    return before


@contextmanager
def flags(immediate=False):
    """Sets the switch inside."""
    before = set_flags(immediate)
    try:
        yield
    finally:
        set_flags(*before)
