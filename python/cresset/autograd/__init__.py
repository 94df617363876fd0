"""Automatic differentiation: backward, grad, custom Functions, gradient checks."""
import sys

from .. import _C
from .._C import Tensor
from . import function, grad_mode, graph
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .function import Function, NestedIOFunction
from .grad_mode import (enable_grad, enforce_grad_layout_policy, inference_mode, no_grad, set_grad_enabled,
                        set_multithreading_enabled)
from .variable import Variable
from .._profiler_kinds import DeviceType, ProfilerActivity  # noqa: F401

__all__ = ["backward", "grad", "Function", "Variable", "no_grad", "enable_grad",
           "set_grad_enabled", "inference_mode", "detect_anomaly", "set_detect_anomaly",
           "gradcheck", "gradgradcheck", "functional", "graph", "grad_mode", "NestedIOFunction",
           "enforce_grad_layout_policy", "set_multithreading_enabled", "variable"]

is_grad_enabled = _C.is_grad_enabled
_profiler_enabled, _disable_profiler = _C._profile_enabled, _C._profile_stop


def _as_tuple(x, what="tensors"):
    if x is None or isinstance(x, (Tensor, graph.GradientEdge)):
        return (x,)
    if hasattr(x, "__iter__"):
        return tuple(x)
    raise TypeError(f"{what} must be a Tensor or an iterable of Tensors, not {type(x).__name__}")


def _grads_for(outputs, grads):
    if grads is None:
        return (None,) * len(outputs)
    grads = _as_tuple(grads, "gradients")
    for grad in grads:
        if grad is not None and not isinstance(grad, Tensor):
            raise TypeError("gradients can be either Tensors or None, but got "
                            + type(grad).__name__)
    return grads[:len(outputs)]  # torch ignores further gradients, too


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False,
             grad_variables=None, inputs=None):
    """Adds the gradients of `tensors` to the `.grad` of the leaves (or of `inputs` only)."""
    if grad_variables is not None:
        import warnings
        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.",
                      FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError("`grad_tensors` and `grad_variables` (deprecated) arguments both "
                               "passed to `backward()`. Please only use `grad_tensors`.")
        grad_tensors = grad_variables
    if inputs is not None:
        inputs = _as_tuple(inputs, "inputs")
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    tensors = _as_tuple(tensors)
    if retain_graph is None:
        retain_graph = create_graph
    _C._run_backward(tensors, _grads_for(tensors, grad_tensors), retain_graph, create_graph,
                     inputs, True, True)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False,
         only_inputs=True, allow_unused=None, is_grads_batched=False, materialize_grads=False):
    """Returns the gradients of `outputs` with respect to `inputs`, as a tuple.

    `grad` of the tensors stays as it is.  `grad_outputs` are the factors of outputs with several elements;
    with `create_graph=True` the gradients can be differentiated; an input that no output depends on raises,
    or has the gradient None with `allow_unused=True` and zeros with `materialize_grads=True`.

    Shape:
        gradients have the sizes of `inputs`, grad_outputs those of `outputs`

    Example::

        >>> x = torch.tensor([2., 3.], requires_grad=True)
        >>> g, = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
        >>> torch.autograd.grad(g.sum(), x)
        (tensor([12., 18.]),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when "
                         "materialize_grads=True, but got: allow_unused=False.")
    outputs, inputs = _as_tuple(outputs, "outputs"), _as_tuple(inputs, "inputs")
    if not only_inputs:
        import warnings
        warnings.warn("only_inputs argument is deprecated and is ignored now (defaults to True). "
                      "To accumulate gradient for other parts of the graph, please use "
                      "torch.autograd.backward.", FutureWarning, stacklevel=2)
    if retain_graph is None:
        retain_graph = create_graph
    grads = _grads_for(outputs, grad_outputs)
    unused = bool(allow_unused) or materialize_grads
    if is_grads_batched:
        return _batched(outputs, inputs, grads, create_graph, unused, materialize_grads)
    result = _C._run_backward(outputs, grads, retain_graph, create_graph, inputs, False, unused)
    if materialize_grads:
        result = _materialize(result, inputs)
    return result


def _materialize(result, inputs):
    if any(r is None and isinstance(x, graph.GradientEdge) for r, x in zip(result, inputs)):
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    if any(r is None and not (x.is_floating_point() or x.is_complex())
           for r, x in zip(result, inputs)):
        raise RuntimeError("the gradients of integral inputs cannot be materialized")
    return tuple(_C.zeros_like(x) if r is None else r
                 for r, x in zip(result, inputs))


def _batched(outputs, inputs, grads, create_graph, unused, materialize):
    """Runs one backward for each row of the cotangents and stacks the results."""
    sizes = {g.shape[0] for g in grads if g is not None}
    if len(sizes) != 1:
        raise RuntimeError("is_grads_batched needs grad_outputs with one common first size, "
                           f"but the sizes are {sorted(sizes)}")
    rows = []
    for i in range(sizes.pop()):
        row = tuple(None if g is None else g[i] for g in grads)
        rows.append(_C._run_backward(outputs, row, True, create_graph, inputs, False, unused))
    if not rows:
        return tuple(x.new_zeros((0, *x.shape)) for x in inputs)
    result = tuple(None if column[0] is None else _C.stack(list(column)) for column in zip(*rows))
    return _materialize(result, inputs) if materialize else result


class _Package(type(_C)):
    """Importing the submodule gradcheck leaves `gradcheck` the function."""

    def __setattr__(self, name, value):
        if name == "gradcheck" and isinstance(value, type(_C)):
            value = value.gradcheck
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name):
    from importlib import import_module
    if name in ("gradcheck", "gradgradcheck"):
        module = import_module(f"{__name__}.gradcheck")
        globals()["gradcheck"], globals()["gradgradcheck"] = module.gradcheck, module.gradgradcheck
        return globals()[name]
    if name in ("forward_ad", "functional", "profiler", "profiler_util"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
