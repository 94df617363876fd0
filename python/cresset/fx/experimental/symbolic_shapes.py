"""Questions about sizes.  Sizes are ints here, also those that vary in a recording, so each has an answer."""
from ..._dynamo.exc import ConstraintViolationError

__all__ = ["ConstraintViolationError", "GuardOnDataDependentSymNode", "free_symbols", "free_unbacked_symbols",
           "guard_or_false", "guard_or_true", "statically_known_true", "statically_known_false", "has_free_symbols",
           "has_free_unbacked_symbols", "is_concrete_bool", "is_concrete_int", "is_concrete_float", "ShapeEnv"]


class GuardOnDataDependentSymNode(RuntimeError):
    """A condition depends on elements of a tensor."""


class ShapeEnv:
    """What FakeTensorMode takes as shape_env.  Sizes of fakes are numbers here, so it has no symbols and no guards."""

    def __init__(self, *, should_record_events=None, tracked_fakes=None, **settings):
        self.tracked_fakes, self.guards, self.var_to_range, self.settings = tracked_fakes, [], {}, settings


def guard_or_false(condition):
    """The condition; False where it is not known."""
    return bool(condition)


def guard_or_true(condition):
    """The condition; True where it is not known."""
    return bool(condition)


def statically_known_true(condition):
    """Whether a condition holds for all sizes."""
    return bool(condition)


def statically_known_false(condition):
    """Whether a condition holds for no sizes."""
    return not condition


def free_symbols(value):
    """The symbols in sizes: none."""
    return set()


def free_unbacked_symbols(value):
    """The symbols in sizes that have no value yet: none."""
    return set()


def has_free_symbols(value):
    return False


def has_free_unbacked_symbols(value):
    return False


def is_concrete_bool(value):
    return isinstance(value, bool)


def is_concrete_int(value):
    return isinstance(value, int)


def is_concrete_float(value):
    return isinstance(value, float)
