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


_IS_REFUSED = "is independent of input {}. This is not allowed in strict mode"

# What strict mode says of values without a history: of the function's outputs and of its derivatives.
_WITHOUT_HISTORY = {
    "outputs": "Output {} of the user-provided function does not require gradients. The outputs must be computed in a "
               "differentiable manner from the input when running in strict mode.",
    "grad_inputs": "The gradient with respect to input {} is independent of the inputs of the user-provided function. "
                   "This is not allowed in strict mode.",
    "jacobian": "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
                "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
                "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for "
                "example).",
}
# What it says of missing gradients, by the derivative that they are of.
_MISSING = {
    "first": "The output of the user-provided function " + _IS_REFUSED + ".",
    "first by its vector": "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the "
                           "double backward trick to compute forward mode gradients. This is not allowed in strict mode.",
    "second": "The jacobian of the user-provided function " + _IS_REFUSED + ".",
    "second by its vector": "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. This is not "
                            "allowed in strict mode as it prevents from using the double backward trick to replace forward mode AD.",
}


def _require_history(values, kind):
    """Raises for the first value that is missing or has no history."""
    for i, value in enumerate(values):
        if value is None:
            raise RuntimeError(_MISSING["first"].format(i))
        if not value.requires_grad:
            raise RuntimeError(_WITHOUT_HISTORY[kind].format(i))


def _grad(outputs, inputs, cotangents, create_graph):
    """Gradients, None where an input has none."""
    from . import grad
    kept = [(y, v) for y, v in zip(outputs, cotangents) if y is not None and y.requires_grad]
    if not kept:
        return (None,) * len(inputs)
    return grad([y for y, _ in kept], inputs, [v for _, v in kept], retain_graph=True,
                create_graph=create_graph, allow_unused=True)


def _require_graph(gradient, i, create_graph, derivative):
    """Raises where create_graph promises a history of a gradient that has none."""
    if create_graph and not gradient.requires_grad:
        name = "hessian" if derivative.startswith("second") else "jacobian"
        raise RuntimeError(f"The {name} of the user-provided function {_IS_REFUSED} when create_graph=True.".format(i))


def _filled(gradients, like, create_graph, strict, derivative):
    """The gradients with zeros for those that are missing, which strict mode refuses."""
    for i, gradient in enumerate(gradients if strict else ()):
        if gradient is None:
            raise RuntimeError(_MISSING[derivative].format(i))
        _require_graph(gradient, i, create_graph, derivative)
    return tuple(_C.zeros_like(x) if g is None else g for g, x in zip(gradients, like))


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
        if strict:
            _require_history(outputs, "outputs")
        v = _vectors(v, outputs, "the user-provided function returns", "vjp", is_tuple)
        grads = _filled(_grad(outputs, fresh, v, create_graph), fresh, create_graph, strict, "first")
    return _result(outputs, is_tuple, create_graph), _result(grads, several, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """Returns (func(inputs), the product of the Jacobian with v), by differentiating vjp by its vector."""
    several, items = _as_tuple(inputs, "inputs", "jvp")
    v = _vectors(v, items, "the input to the user-provided function is", "jvp", several)
    _, fresh, is_tuple, outputs = _run(func, inputs, create_graph, "jvp")
    with _C.enable_grad():
        if strict:
            _require_history(outputs, "outputs")
        dual = tuple(_C.zeros_like(y, requires_grad=True) for y in outputs)
        grads = _grad(outputs, fresh, dual, True)
        if strict:
            _require_history(grads, "grad_inputs")
        products = _filled(_grad(grads, dual, v, create_graph), outputs, create_graph, strict, "first by its vector")
    return _result(outputs, is_tuple, create_graph), _result(products, is_tuple, create_graph)


def _check_strategy(strategy, hint, strict, vectorize):
    """Raises for strategies that do not exist or do not go with the other arguments."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".' + hint)
    if strategy == "forward-mode" and strict:
        raise RuntimeError('torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported together '
                           '(yet). Please either set `strict=False` or `strategy="reverse-mode"`.')
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError("Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
                                  "only implemented for `vectorize=True`.")


def _refuse_vectorized(strict, vectorize):
    if strict and vectorize:
        raise RuntimeError("torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
                           "Please either set `strict=False` or `vectorize=False`.")


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False,
             strategy="reverse-mode"):
    """Returns d func / d inputs: for each output and input a tensor of output shape + input
    shape."""
    hint = (' Hint: If your function has more outputs than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to '
            'use "reverse-mode".')
    _check_strategy(strategy, hint, strict, vectorize)
    return _jacobian(func, inputs, create_graph, strict, vectorize)


def _jacobian_row(y, k, index, fresh, create_graph, strict):
    """The gradients of element `index` of output k."""
    unit = _C.zeros_like(y, requires_grad=False)
    unit.view(-1)[index] = 1
    found = _grad([y], fresh, [unit], create_graph)
    for i, gradient in enumerate(found if strict else ()):
        if gradient is None:
            raise RuntimeError(f"Output {k} of the user-provided function {_IS_REFUSED}.".format(i))
        _require_graph(gradient, k, create_graph, "first")  # torch names the output here
    return _filled(found, fresh, create_graph, False, "first")


def _jacobian(func, inputs, create_graph, strict, vectorize):
    several, fresh, is_tuple, outputs = _run(func, inputs, create_graph, "jacobian")
    if strict:
        _require_history(outputs, "outputs")
    _refuse_vectorized(strict, vectorize)
    table = []
    with _C.enable_grad():
        for k, y in enumerate(outputs):
            rows = [_jacobian_row(y, k, index, fresh, create_graph, strict) for index in range(y.numel())]
            table.append(tuple(
                _C.stack([row[j] for row in rows]).reshape(tuple(y.shape) + tuple(x.shape))
                if rows else x.new_zeros(tuple(y.shape) + tuple(x.shape))
                for j, x in enumerate(fresh)))
    table = tuple(_result(row, several, create_graph) for row in table)
    return table if is_tuple else table[0]


def _scalar(func, name, strict):
    """`func` with a check that it returns one tensor of one element."""
    def checked(*args):
        out = func(*args)
        several, tensors = _as_tuple(out, "outputs of the user-provided function", name)
        if strict:
            _require_history(tensors, "outputs")
        if several:
            raise RuntimeError(f"The function given to {name} should return a single Tensor")
        if out.numel() != 1:
            raise RuntimeError(f"The Tensor returned by the function given to {name} should "
                               "contain a single element")
        return out.squeeze()
    return checked


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False,
            outer_jacobian_strategy="reverse-mode"):
    """Returns the second derivatives of a function whose value is one number."""
    several, items = _as_tuple(inputs, "inputs", "hessian")
    _check_strategy(outer_jacobian_strategy, "", strict, vectorize)
    single = _scalar(func, "hessian", strict)

    def gradient(*args):
        args = tuple(x if x.requires_grad else x.detach().requires_grad_() for x in args)
        grads = _filled(_grad([single(*args)], args, [None], True), args, True, False, "first")
        if strict:
            _require_history(grads, "jacobian")
        return grads

    table = _jacobian(gradient, items, create_graph, strict, vectorize)
    return table if several else table[0][0]


def _start_second(func, inputs, v, name, strict):
    """What vhp and hvp begin with: (several, inputs, outputs, v, the gradients)."""
    several, items = _as_tuple(inputs, "inputs", name)
    v = _vectors(v, items, "the input to the user-provided function is", name, several)
    _, fresh, _, outputs = _run(_scalar(func, name, strict), inputs, True, name)
    first = _grad(outputs, fresh, [None], True)
    if strict:
        _require_history(first, "jacobian")
    return several, fresh, outputs, v, first


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """Returns (func(inputs), the product of v with the Hessian)."""
    with _C.enable_grad():
        several, fresh, outputs, v, first = _start_second(func, inputs, v, "vhp", strict)
        second = _filled(_grad(first, fresh, v, create_graph), fresh, create_graph, strict, "second")
    return _result(outputs, False, create_graph), _result(second, several, create_graph)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """Returns (func(inputs), the product of the Hessian with v)."""
    with _C.enable_grad():
        several, fresh, outputs, v, first = _start_second(func, inputs, v, "hvp", strict)
        dual = tuple(_C.zeros_like(x, requires_grad=True) for x in fresh)
        second = _grad(first, fresh, dual, True)
        products = _filled(_grad(second, dual, v, create_graph), fresh, create_graph, strict, "second by its vector")
    return _result(outputs, False, create_graph), _result(products, several, create_graph)
