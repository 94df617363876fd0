"""Marks of API stability.  Programs also use them for their passes."""

_BACK_COMPAT_OBJECTS = {}
_MARKED_WITH_COMPATIBILITY = {}


def compatibility(is_backward_compatible):
    """Records whether a function or class is declared stable."""
    def mark(fn):
        _MARKED_WITH_COMPATIBILITY[fn] = None
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS[fn] = None
        return fn
    return mark
