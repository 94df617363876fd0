"""The switch of uninitialized memory."""
import sys
import types


class _Deterministic(types.ModuleType):
    """New tensors without values are filled with NaN or the largest number while algorithms are deterministic: stored,
    because memory of empty() has no values that a program may read."""

    fill_uninitialized_memory = True


sys.modules[__name__].__class__ = _Deterministic
