"""Derivatives of functions as tensors: Jacobians, Hessians and products with them."""
from .. import _C
from .._C import Tensor

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]


def _as_tuple(x, name, function):
    """Returns (whether x is a tuple, the tuple); all items must be tensors."""
    several = isinstance(x, tuple)
    items = x if several else (x,)
    for i, item in enumerate(items):
        if not isinstance(item, Tensor):
            where = f"value at index {i}" if several else f"given {name}"
            raise TypeError(f"The {name} given to {function} must be either a Tensor or a tuple "
                            f"of Tensors but the {where} has type {type(item)}.")
    return several, items


def _fresh(inputs, create_graph):
    """Returns the inputs for differentiation: views with create_graph, else new leaves."""
    return tuple(x.view_as(x) if create_graph and x.requires_grad else
                 x.detach().requires_grad_() for x in inputs)


def _run(func, inputs, create_graph, name):
    with _C.enable_grad():
        several, inputs = _as_tuple(inputs, "inputs", name)
        fresh = _fresh(inputs, create_graph)
        outputs = func(*fresh)
        is_tuple, outputs = _as_tuple(outputs, "outputs of the user-provided function",
                                     name)
    return several, fresh, is_tuple, outputs


def _refuse_dependence(output, input, derived):
    """Raises for strict mode: an output, or the gradient of an input if `derived`, is independent."""
    if derived:
        raise RuntimeError(
            f"While computing the hessian, found that the jacobian of the user-provided function with respect to input {output} is "
            "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice differentiable "
            "and that the jacobian depends on the inputs (this would be violated by a linear function for example).")
    if input is None:
        raise RuntimeError(f"Output {output} of the user-provided function does not require gradients. The outputs must be "
                           "computed in a differentiable manner from the input when running in strict mode.")
    raise RuntimeError(f"Output {output} of the user-provided function is independent of input {input}. "
                       "This is not allowed in strict mode.")


def _grad(outputs, inputs, cotangents, create_graph, strict, first=0, derived=False):
    """Gradients, zeros where there is none; strict mode refuses those.  `first` is the number of the first output."""
    from . import grad
    kept = [(y, v) for y, v in zip(outputs, cotangents) if y.requires_grad]
    if strict and len(kept) < len(outputs):
        _refuse_dependence(first + next(i for i, y in enumerate(outputs) if not y.requires_grad), None, derived)
    if not kept:
        return tuple(_C.zeros_like(x) for x in inputs)
    found = grad([y for y, _ in kept], inputs, [v for _, v in kept], retain_graph=True,
                 create_graph=create_graph, allow_unused=True)
    if strict and any(g is None for g in found):
        _refuse_dependence(first, next(i for i, g in enumerate(found) if g is None), derived)
    return tuple(_C.zeros_like(x) if g is None else g for g, x in zip(found, inputs))


def _vectors(v, like, name, function, several):
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if {name} a single Tensor with a single element.")
        return (_C.ones_like(like[0]),)
    _, v = _as_tuple(v, "v", function)
    if len(v) != len(like) and not several:
        raise RuntimeError("The given v should contain a single Tensor.")
    if len(v) != len(like):
        raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got "
                           f"{len(v)}.")
    for a, b in zip(v, like):
        if a.shape != b.shape:
            raise RuntimeError(f"v has invalid size: should be {b.shape} but got {a.shape}.")
    return v


def _result(values, several, create_graph):
    values = tuple(x if create_graph else x.detach() for x in values)
    return values if several else values[0]


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """Returns (func(inputs), the product of v with the Jacobian)."""
    several, fresh, is_tuple, outputs = _run(func, inputs, create_graph, "vjp")
    with _C.enable_grad():
        v = _vectors(v, outputs, "the user-provided function returns", "vjp", is_tuple)
        grads = _grad(outputs, fresh, v, create_graph, strict)
    return _result(outputs, is_tuple, create_graph), _result(grads, several, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """Returns (func(inputs), the product of the Jacobian with v), by differentiating vjp by its vector."""
    several, fresh, is_tuple, outputs = _run(func, inputs, create_graph, "jvp")
    with _C.enable_grad():
        v = _vectors(v, fresh, "the input to the user-provided function is", "jvp", several)
        dual = tuple(_C.zeros_like(y, requires_grad=True) for y in outputs)
        grads = _grad(outputs, fresh, dual, True, strict)
        products = _grad(grads, dual, v, create_graph, False)
    return _result(outputs, is_tuple, create_graph), _result(products, is_tuple, create_graph)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False,
             strategy="reverse-mode"):
    """Returns d func / d inputs: for each output and input a tensor of output shape + input
    shape."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
                             'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".')
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError("Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
                                  "only implemented for `vectorize=True`.")
    return _jacobian(func, inputs, create_graph, strict, False)


def _jacobian(func, inputs, create_graph, strict, derived):
    several, fresh, is_tuple, outputs = _run(func, inputs, create_graph, "jacobian")
    table = []
    with _C.enable_grad():
        for k, y in enumerate(outputs):
            rows = []
            for index in range(y.numel()):
                unit = _C.zeros_like(y, requires_grad=False)
                unit.view(-1)[index] = 1
                rows.append(_grad([y], fresh, [unit], create_graph, strict, k, derived))
            table.append(tuple(
                _C.stack([row[j] for row in rows]).reshape(tuple(y.shape) + tuple(x.shape))
                if rows else x.new_zeros(tuple(y.shape) + tuple(x.shape))
                for j, x in enumerate(fresh)))
    table = tuple(_result(row, several, create_graph) for row in table)
    return table if is_tuple else table[0]


def _scalar(func, name):
    def checked(*args):
        out = func(*args)
        _, tensors = _as_tuple(out, "outputs of the user-provided function", name)
        if len(tensors) != 1 or tensors[0].numel() != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {name} should "
                               "contain a single element")
        return tensors[0].squeeze()
    return checked


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False,
            outer_jacobian_strategy="reverse-mode"):
    """Returns the second derivatives of a function whose value is one number."""
    several, items = _as_tuple(inputs, "inputs", "hessian")
    single = _scalar(func, "hessian")

    def gradient(*args):
        args = tuple(x if x.requires_grad else x.detach().requires_grad_() for x in args)
        return _grad([single(*args)], args, [None], True, strict)

    table = _jacobian(gradient, items, create_graph, strict, True)
    return table if several else table[0][0]


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """Returns (func(inputs), the product of v with the Hessian)."""
    several, fresh, _, outputs = _run(_scalar(func, "vhp"), inputs, True, "vhp")
    with _C.enable_grad():
        v = _vectors(v, fresh, "the input to the user-provided function is", "vhp", several)
        first = _grad(outputs, fresh, [None], True, strict)
        second = _grad(first, fresh, v, create_graph, strict, derived=True)
    return _result(outputs, False, create_graph), _result(second, several, create_graph)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """Returns (func(inputs), the product of the Hessian with v)."""
    several, fresh, _, outputs = _run(_scalar(func, "hvp"), inputs, True, "hvp")
    with _C.enable_grad():
        v = _vectors(v, fresh, "the input to the user-provided function is", "hvp", several)
        first = _grad(outputs, fresh, [None], True, strict)
        dual = tuple(_C.zeros_like(x, requires_grad=True) for x in fresh)
        second = _grad(first, fresh, dual, True, strict, derived=True)
        products = _grad(second, dual, v, create_graph, False)
    return _result(outputs, False, create_graph), _result(products, several, create_graph)
