"""oneDNN: convolutions and products of some dtypes use it where it is found.  Tensors never have its layout."""
from contextlib import contextmanager

from .. import _C

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2
enabled, deterministic, allow_tf32 = True, False, False


def is_available():
    """Whether oneDNN is found."""
    return _C._has_dnnl()


def is_acl_available():
    """Whether oneDNN uses Arm's Compute Library."""
    return False


class verbose:
    """`with verbose(VERBOSE_ON):` makes oneDNN print a line for each kernel."""

    def __init__(self, level):
        self.level = level

    def __enter__(self):
        if self.level != VERBOSE_OFF:
            _C._set_dnnl_verbose(self.level)
        return self

    def __exit__(self, *exception):
        _C._set_dnnl_verbose(VERBOSE_OFF)
        return False


def set_flags(_enabled=None, _deterministic=None, _allow_tf32=None, _fp32_precision=None):
    """Stores the given values and returns the earlier ones."""
    given = {"enabled": _enabled, "deterministic": _deterministic, "allow_tf32": _allow_tf32}
    before = tuple(globals()[name] for name in given)
    globals().update({name: value for name, value in given.items() if value is not None})
    return before


@contextmanager
def flags(enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none"):
    """Sets the switches inside."""
    before = set_flags(enabled, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
