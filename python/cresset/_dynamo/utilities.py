"""Marks and switches of torch._dynamo and torch.compiler."""
import functools

from .. import _C
from . import capture
from .backends import lookup_backend


def is_compiling():
    """Whether calls are being recorded."""
    return _C._is_recording()


def graph_break(msg=""):
    """Where a compiled function calls this, it runs eagerly; fullgraph=True makes it an error."""
    _C._refuse_recording(f"graph_break() is called{': ' + msg if msg else ''}")


def allow_in_graph(fn):
    """Recordings go through every function; `fn` as it is."""
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise AssertionError("allow_in_graph expects a callable")
    return fn


nonstrict_trace = allow_in_graph


def disallow_in_graph(fn):
    from .eval_frame import disable
    return [disallow_in_graph(f) for f in fn] if isinstance(fn, (list, tuple)) else disable(fn)


forbid_in_graph = disallow_in_graph


def assume_constant_result(fn):
    """What `fn` returns is taken to be the same for every call."""
    fn._dynamo_marked_constant = True
    return fn


def substitute_in_graph(original_fn, **unused):
    """Recordings see what runs, not which function it was."""
    return lambda fn: fn


def skip(fn=None):
    from .eval_frame import disable
    return disable(fn, recursive=False)


def skip_code(code):
    """Frames are not captured one by one."""


def run(fn=None):
    """Existing recordings are used, none are made."""
    if fn is None:
        return run

    @functools.wraps(fn)
    def only_recorded(*args, **kwargs):
        with set_stance("eager_on_recompile"):
            return fn(*args, **kwargs)
    return only_recorded


class set_stance:
    """What compiled functions do; as a plain call it lasts, it is a context manager and a decorator, too.

    "default"             recordings are used and made
    "force_eager"         functions run eagerly
    "eager_on_recompile"  recordings are used; calls that fit none run eagerly
    "fail_on_recompile"   such calls are errors
    "eager_then_compile"  (also "aot_eager_then_compile") the first call of each function is not recorded

    force_backend is what makes recordings meanwhile; it goes with the stance "default" only. """

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if stance not in capture.STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}")
        forced = None if force_backend is None else lookup_backend(force_backend) or capture.OWN_PROGRAMS
        self.stance = stance, forced
        self.before = capture.set_stance(*self.stance)

    def __enter__(self):
        capture.set_stance(*self.stance)

    def __exit__(self, *error):
        capture.set_stance(*self.before)

    def __call__(self, fn):
        capture.set_stance(*self.before)

        @functools.wraps(fn)
        def call(*args, **kwargs):
            before = capture.set_stance(*self.stance)
            try:
                return fn(*args, **kwargs)
            finally:
                capture.set_stance(*before)
        return call
