"""torch.compiler: functions of programs for the compiler."""
from .. import _dynamo, compile  # noqa: A004
from .._dynamo.backends.registry import get_default_backend, set_default_backend
from .._dynamo import (allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, nonstrict_trace,
                       set_stance, substitute_in_graph)

__all__ = ["allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "get_default_backend",
           "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "nonstrict_trace", "picture", "report", "reset",
           "nested_compile_region", "set_default_backend", "set_stance", "substitute_in_graph", "wrap_numpy"]


def reset():
    """Drops all recordings of compiled functions."""
    _dynamo.reset()


def is_dynamo_compiling():
    return is_compiling()


def is_exporting():
    return False


def nested_compile_region(fn=None):
    """Marks a function that is called many times.  Not needed here: equal fusion groups share a
    kernel."""
    return nested_compile_region if fn is None else fn


def cudagraph_mark_step_begin():
    """Marks a step of a CUDA graph.  Does nothing on the CPU."""


def picture(compiled, path=None):
    """Draws the fused graphs of a compiled function or module as SVG: fusion groups with their
    operators and source lines, calls of library functions, edges with sizes.  The recording
    with the most calls is drawn.  With `path` the picture is written to this file, else
    returned."""
    function = getattr(compiled, "_compiled_forward", compiled)
    entries = [e for e in getattr(function, "_entries", ()) if hasattr(type(e.runner), "picture") and e.calls]
    if not entries:
        raise RuntimeError("there is nothing to draw: the function was not compiled, or not called twice, or runs eagerly")
    text = max(entries, key=lambda e: e.calls).runner.picture
    if path is None:
        return text
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def report(compiled):
    """Returns a text about a compiled function or module: recordings, guards, recompilations, times."""
    from .._dynamo.explaining import report
    return report(compiled)


def wrap_numpy(fn):
    """Wraps a function of NumPy arrays as a function of tensors."""
    def wrapped(*args, **kwargs):
        from .. import Tensor, from_numpy
        out = fn(*(x.numpy() if isinstance(x, Tensor) else x for x in args),
                 **{k: x.numpy() if isinstance(x, Tensor) else x for k, x in kwargs.items()})
        return from_numpy(out) if type(out).__module__ == "numpy" else out
    return wrapped
