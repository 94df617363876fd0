"""Marks of what is promised to stay; programs put them on their own passes, too."""

_BACK_COMPAT_OBJECTS = {}
_MARKED_WITH_COMPATIBILITY = {}


def compatibility(is_backward_compatible):
    """Notes whether a function or class is promised to stay as it is."""
    def mark(fn):
        _MARKED_WITH_COMPATIBILITY[fn] = None
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS[fn] = None
        return fn
    return mark
