"""torch.compiler: what programs say to the compiler."""
from .. import _dynamo, compile  # noqa: A004
from .._dynamo import (allow_in_graph, assume_constant_result, disable, is_compiling, list_backends, nonstrict_trace,
                       set_stance, substitute_in_graph)

__all__ = ["allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
           "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "nonstrict_trace", "reset",
           "set_stance", "substitute_in_graph", "wrap_numpy"]


def reset():
    """Forgets every recording; compiled functions begin anew."""
    _dynamo.reset()


def is_dynamo_compiling():
    return is_compiling()


def is_exporting():
    return False


def cudagraph_mark_step_begin():
    """Marks a step of a CUDA graph; nothing on the CPU."""


def wrap_numpy(fn):
    """A function of NumPy arrays as one of tensors."""
    def wrapped(*args, **kwargs):
        from .. import Tensor, from_numpy
        out = fn(*(x.numpy() if isinstance(x, Tensor) else x for x in args),
                 **{k: x.numpy() if isinstance(x, Tensor) else x for k, x in kwargs.items()})
        return from_numpy(out) if type(out).__module__ == "numpy" else out
    return wrapped
