"""Functions of torch._dynamo and torch.compiler for use inside programs."""
import contextlib
import functools

from .. import _C
from . import capture
from .backends.inductor import inductor
from .backends.registry import lookup_backend


def is_compiling():
    """Returns whether a compiled function is running, by Python's code.

    Example::

        >>> torch.compiler.is_compiling()
        False
    """
    return _C._is_compiling()


is_compiling._script_special = "is_tracing"  # scripts are not compiled: False where they are read


def graph_break(msg=""):
    """Ends the graph of the compiled function that calls it; an error with fullgraph=True."""
    _C._break_graph(f"graph_break() is called{': ' + msg if msg else ''}")


def skip_frame(msg=""):
    """As graph_break(): the code of a function is not captured in parts, so that none of its frames can be left out."""
    _C._break_graph(f"skip_frame() is called{': ' + msg if msg else ''}")


def step_unsupported(msg=""):
    """As graph_break()."""
    _C._break_graph(f"step_unsupported() is called{': ' + msg if msg else ''}")


class error_on_graph_break:
    """A context manager and a decorator: whether a value that the code of a compiled function needs in the
    middle of a call is an error.  With fullgraph=True branches on values are."""

    def __init__(self, error_on_graph_break):
        self.value, self.before = error_on_graph_break, []

    def __enter__(self):
        self.before.append(_C._defer_breaks_are_errors(self.value))

    def __exit__(self, *error):
        _C._defer_breaks_are_errors(self.before.pop())

    def __call__(self, fn):
        @functools.wraps(fn)
        def call(*args, **kwargs):
            with self:
                return fn(*args, **kwargs)
        return call


def dont_skip_tracing(fn=None):
    """Returns `fn`, because every function is captured; without it a context manager."""
    return contextlib.nullcontext() if fn is None else fn


disable_nested_graph_breaks = dont_skip_tracing


def set_recursion_limit(limit):
    """Checks the number.  No Python code is interpreted here, so that only CPython's limit counts."""
    if limit != -1 and limit < 1:
        raise ValueError("recursion limit must be >= 1, or -1 to reset")


def allow_in_graph(fn):
    """Returns `fn`, because recordings enter every function."""
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
    """Declares that `fn` returns the same value at every call."""
    fn._dynamo_marked_constant = True
    return fn


def substitute_in_graph(original_fn, **unused):
    """Does nothing: recordings contain operators, whatever function calls them."""
    return lambda fn: fn


def patch_dynamo_config(changes=None, value=None, **more):
    """Sets other values of torch._dynamo.config temporarily: a context manager and a decorator."""
    from .config import patch
    return patch(changes, value, **more)


def is_dynamo_disable_recursive(method):
    """Returns whether disable() was applied to `method` and the functions it calls; None if not applied."""
    return getattr(method, "_torchdynamo_disable_recursive", None)


def skip(fn=None):
    from .eval_frame import disable
    return disable(fn, recursive=False)


def skip_code(code):
    """Does nothing: single frames are not captured."""


def run(fn=None):
    """Uses existing recordings and makes no new ones."""
    if fn is None:
        return run

    @functools.wraps(fn)
    def only_recorded(*args, **kwargs):
        with set_stance("eager_on_recompile"):
            return fn(*args, **kwargs)
    return only_recorded


class set_stance:
    """Sets what compiled functions do: as a call permanently, as a context manager or decorator
    temporarily.

        "default"             uses and makes recordings
        "force_eager"         runs functions eagerly
        "eager_on_recompile"  uses recordings; calls that fit none run eagerly
        "fail_on_recompile"   uses recordings; calls that fit none are errors
        "eager_then_compile"  (also "aot_eager_then_compile") does not record the first call of each
                              function

    force_backend is the backend for recordings meanwhile; only with the stance "default".
    """

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        if stance not in capture.STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}")
        forced = None if force_backend is None else lookup_backend(force_backend)
        forced = capture.OWN_PROGRAMS if forced is inductor else forced
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
