"""torch.compiler: functions of programs for the compiler."""
from .. import _dynamo, compile  # noqa: A004
from .._dynamo.backends.registry import get_default_backend, set_default_backend
from .._dynamo import (allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, nonstrict_trace,
                       set_stance, substitute_in_graph)
from . import config
from ._guard_filters import (keep_portable_guards_unsafe, keep_tensor_guards_unsafe, skip_all_guards_unsafe,
                             skip_guard_on_all_nn_modules_unsafe, skip_guard_on_globals_unsafe,
                             skip_guard_on_inbuilt_nn_modules_unsafe)

__all__ = ["allow_in_graph", "assume_constant_result", "compile", "config", "cudagraph_mark_step_begin", "disable",
           "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "keep_portable_guards_unsafe",
           "keep_tensor_guards_unsafe", "list_backends", "load_cache_artifacts", "load_compiled_function",
           "nested_compile_region", "nonstrict_trace", "picture", "report", "reset", "save_cache_artifacts",
           "set_default_backend", "set_enable_guard_collectives", "set_stance", "skip_all_guards_unsafe",
           "skip_guard_on_all_nn_modules_unsafe", "skip_guard_on_globals_unsafe",
           "skip_guard_on_inbuilt_nn_modules_unsafe", "substitute_in_graph", "wrap_numpy"]

_guard_collectives = False


def set_enable_guard_collectives(enabled):
    """Stores the setting and returns the earlier one.  Guards of this package never wait for other ranks: a rank
    that records a call needs no other rank."""
    global _guard_collectives
    before, _guard_collectives = _guard_collectives, bool(enabled)
    return before


def save_cache_artifacts():
    """Returns (bytes, CacheInfo) of the compiled kernels that this process used; None where there are none."""
    from ._caches import save
    return save()


def load_cache_artifacts(serialized_artifacts):
    """Puts the kernels of save_cache_artifacts() into this user's cache, and returns their CacheInfo.

    The bytes contain machine code: load only bytes whose origin you trust.
    """
    from ._caches import load
    return load(serialized_artifacts)


def load_compiled_function(file, *, f_globals=None, external_data=None):
    """Returns the function that `compile(f).aot_compile((args, kwargs)).save_compiled_function(path)` wrote.

    file is open for reading bytes.  It contains pickled objects: load only files whose origin you trust.
    """
    from .._dynamo.ahead import load
    return load(file, f_globals, external_data)


def reset():
    """Drops all recordings of compiled functions."""
    _dynamo.reset()


def is_dynamo_compiling():
    """Whether a compiled function runs; False while torch.export traces a call."""
    return is_compiling() and not is_exporting()


def is_exporting():
    """Whether torch.export traces the call."""
    from .._higher_order_ops.checked import tracing
    return tracing() is not None


is_dynamo_compiling._script_special = is_exporting._script_special = is_compiling._script_special


def nested_compile_region(fn=None, *, options=None, max_reuse_entries=8, reuse_hash_fn=None):
    """Marks a function that is called many times, as a decorator.

    Returns the function: calls with equal operators share their kernels, marked or not, so there is no number of
    entries to limit, and no key to compute.  Other `options` than None, a backend for the region, are refused.
    """
    if options is not None:
        raise NotImplementedError("nested_compile_region(): a region has the backend of the function around it; "
                                  "options must be None")
    if fn is None:
        return lambda f: nested_compile_region(f, max_reuse_entries=max_reuse_entries, reuse_hash_fn=reuse_hash_fn)
    if not callable(fn):
        raise TypeError(f"nested_compile_region expects a callable, but got {type(fn)}")
    return fn


def cudagraph_mark_step_begin():
    """Marks a step of a CUDA graph.  Does nothing on the CPU."""


def picture(compiled, path=None):
    """Draws the fused graphs of a compiled function or module as SVG: fusion groups with their
    operators and source lines, calls of library functions, edges with sizes.  The recording
    with the most calls is drawn.  With `path` the picture is written to this file, else
    returned."""
    function = getattr(compiled, "_compiled_forward", compiled)
    entries = [e for e in getattr(function, "_entries", ()) if hasattr(type(e.runner), "listing") and e.calls]
    if not entries:
        raise RuntimeError("there is nothing to draw: the function was not compiled, or not called twice, or runs eagerly")
    from ._picture import draw
    text = draw(max(entries, key=lambda e: e.calls).runner.listing)
    if path is None:
        return text
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def report(compiled):
    """Returns a text about a compiled function or module: recordings, guards, recompilations, times."""
    from .._dynamo.explaining import report
    return report(compiled)


def wrap_numpy(fn):
    """Returns a function of tensors: `fn` is a function of NumPy's arrays, and its calls of NumPy become operators.

    Gradients flow through it, and tensors on a GPU stay there.

    Example::

        >>> import numpy as np
        >>> f = torch.compiler.wrap_numpy(lambda a: np.sum(a * a))
        >>> x = torch.arange(3., requires_grad=True)
        >>> f(x).backward()
        >>> x.grad
        tensor([0., 2., 4.])
    """
    from .._numpy.calls import wrap_numpy as wrap
    return wrap(fn)
