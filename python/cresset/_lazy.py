"""cresset.lazy(): calls wait until the program needs a value (docs/lazy.md)."""
from collections import namedtuple
from functools import update_wrapper

from . import _C

Flush = namedtuple("Flush", "calls needed file line source")
Flush.__doc__ = """One run of deferred calls: how many, the value that was needed, and the line that needed it."""


def _has_history(x):
    if isinstance(x, _C.TensorBase):
        return _C._can_go_back(x)  # asks no handler of a subclass
    if isinstance(x, dict):
        return any(map(_has_history, x.values()))
    return isinstance(x, (list, tuple)) and any(map(_has_history, x))


class lazy:
    """Defers calls of operators in its block, in this thread.

    Results have their sizes and dtype at once, and their elements when the program needs one, or at the
    end of the block.  With `watch=True`, `flushes` lists each run of deferred calls.

        with cresset.lazy(watch=True) as region:
            y = model(x)
            if y.sum() > 0:
                y = y * 2
        print(*region.flushes, sep="\\n")
    """

    def __init__(self, watch=False):
        self.watch, self.flushes = watch, []

    def __call__(self, function):
        """Decorates a function: its calls are deferred, and run when it returns.  Results that have a history
        wait for the backward pass, which continues with them."""
        def deferred(*args, **kwargs):
            _C._defer(True)
            out = waits = None
            try:
                out = function(*args, **kwargs)
                waits = _has_history(out)
            finally:
                _C._defer(False)
            if not waits and not _C._defer_in_region():
                _C._defer_flush("the end of a function")
            return out
        return update_wrapper(deferred, function) if hasattr(function, "__name__") else deferred

    def __enter__(self):
        if self.watch:
            _C._defer_watch(True)
        _C._defer(True)
        return self

    def __exit__(self, kind, error, trace):
        _C._defer(False)
        try:
            if not _C._defer_in_region():
                _C._defer_flush("the end of cresset.lazy()")
        except Exception:
            if kind is None:
                raise
        finally:
            if self.watch:
                self.flushes = [Flush(*f) for f in _C._defer_watch(False)]
