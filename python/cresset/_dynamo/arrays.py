"""Compiled functions that are called with NumPy's arrays: the function of tensors is compiled (_numpy/calls.py)."""
from .. import get_default_device
from .._C import Tensor
from .._numpy.calls import are_in, call as call_with_tensors, with_tensors

__all__ = ["are_in", "call", "have_tensors", "stay_numpys"]


def have_tensors(args, kwargs):
    """Whether arguments, or lists, tuples and dicts in them, have a tensor.  Operations of tensors with arrays have
    results and errors that tensors in place of the arrays do not have."""
    return any(isinstance(x, Tensor) or type(x) in (list, tuple) and have_tensors(x, {}) or
               type(x) is dict and have_tensors((), x) for x in (*args, *kwargs.values()))


def stay_numpys(args, kwargs):
    """Whether NumPy serves a call whose operators would not be recorded: it has arrays only, on the host."""
    return get_default_device().type == "cpu" and are_in(args, kwargs) and not have_tensors(args, kwargs)


def call(compiler, args, kwargs):
    """Calls the compiled function of tensors."""
    if compiler.of_tensors is None:
        from .capture import compile_function
        compiler.of_tensors = compile_function(with_tensors, compiler.backend, compiler.backend_name, compiler.fullgraph,
                                               compiler.dynamic, compiler.settings)
        compiler.of_tensors._compiler.given_name, compiler.of_tensors._compiler.limit = compiler.name, compiler.limit
    return call_with_tensors(compiler.of_tensors, compiler.fn, args, kwargs)
