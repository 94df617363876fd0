"""Marks and switches of torch._dynamo and torch.compiler."""
import contextlib

from .. import _C, Tensor


def is_compiling():
    """Whether calls are being recorded."""
    return _C._is_recording()


def graph_break(msg=""):
    """Where a compiled function calls this, it runs eagerly; fullgraph=True makes it an error."""
    _C._refuse_recording(f"graph_break() is called{': ' + msg if msg else ''}")


def allow_in_graph(fn):
    """Recordings go through every function; `fn` as it is."""
    return [allow_in_graph(f) for f in fn] if isinstance(fn, (list, tuple)) else fn


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
    return _only_cached(fn)


def _only_cached(fn):
    def call(*args, **kwargs):
        with set_stance("eager_on_recompile"):
            return fn(*args, **kwargs)
    return call


def _dims(index):
    return list(index) if isinstance(index, (list, tuple)) else [index]


def mark_dynamic(t, index, *, hint_override=None, min=None, max=None, specialize_on=None):
    """The size of t along `index` is a symbol in recordings from their first on."""
    if not isinstance(t, Tensor):
        raise TypeError(f"mark_dynamic() takes a Tensor, not {type(t).__name__}")
    marks = t.__dict__.setdefault("_dynamo_dynamic_indices", set())
    marks.update(range(t.dim())[i] for i in _dims(index))


def maybe_mark_dynamic(t, index):
    mark_dynamic(t, index)


def mark_static(t, index=None):
    """The size of t along `index` (every one: None) is never a symbol."""
    if not isinstance(t, Tensor):
        return
    marks = t.__dict__.setdefault("_dynamo_static_indices", set())
    marks.update(range(t.dim()) if index is None else (range(t.dim())[i] for i in _dims(index)))


def mark_static_address(t, guard=True):
    """Tensors are found by their places anyway."""


_stance = ["default"]


@contextlib.contextmanager
def _set_stance(stance):
    before = _stance[0]
    _stance[0] = stance
    _C._compiled_off(stance == "force_eager")
    try:
        yield
    finally:
        _stance[0] = before
        _C._compiled_off(-(stance == "force_eager"))


def set_stance(stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
    """What compiled functions do: "default", "force_eager", "eager_on_recompile" or "fail_on_recompile".

    A context manager; as a plain call it lasts. """
    if stance not in ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile"):
        raise RuntimeError(f"invalid torch.compile stance {stance!r}")
    return _set_stance(stance)


def stance():
    return _stance[0]
