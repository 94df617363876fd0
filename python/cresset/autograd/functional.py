"""Derivatives of functions as tensors: Jacobians, Hessians and products with them."""
from .. import _C
from .._C import Tensor

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]


def _as_tuple(x, name, function):
    """Returns (whether x is a tuple, the tuple); all items must be tensors."""
    several = isinstance(x, (tuple, list))
    items = tuple(x) if several else (x,)
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


def _grad(outputs, inputs, cotangents, create_graph, strict, what):
    from . import grad
    kept = [(y, v) for y, v in zip(outputs, cotangents) if y.requires_grad]
    if strict and len(kept) < len(outputs):
        raise RuntimeError("The output of the user-provided function is independent of the "
                           f"inputs. This is not allowed in strict mode ({what}).")
    if not kept:
        return tuple(_C.zeros_like(x) for x in inputs)
    found = grad([y for y, _ in kept], inputs, [v for _, v in kept], retain_graph=True,
                 create_graph=create_graph, allow_unused=True)
    if strict and any(g is None for g in found):
        raise RuntimeError("The output of the user-provided function is independent of an input. "
                           f"This is not allowed in strict mode ({what}).")
    return tuple(_C.zeros_like(x) if g is None else g for g, x in zip(found, inputs))


def _vectors(v, like, name):
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector v can only be None if the {name} is a single Tensor "
                               "with a single element.")
        return (_C.ones_like(like[0]),)
    _, v = _as_tuple(v, "v", name)
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
        v = _vectors(v, outputs, "function")
        grads = _grad(outputs, fresh, v, create_graph, strict, "vjp")
    return _result(outputs, is_tuple, create_graph), _result(grads, several, create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """Returns (func(inputs), the product of the Jacobian with v), by differentiating vjp by its vector."""
    several, fresh, is_tuple, outputs = _run(func, inputs, create_graph, "jvp")
    with _C.enable_grad():
        v = _vectors(v, fresh, "input to the user-provided function")
        dual = tuple(_C.zeros_like(y, requires_grad=True) for y in outputs)
        grads = _grad(outputs, fresh, dual, True, strict, "jvp")
        products = _grad(grads, dual, v, create_graph, False, "jvp")
    return _result(outputs, is_tuple, create_graph), _result(products, is_tuple, create_graph)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False,
             strategy="reverse-mode"):
    """Returns d func / d inputs: for each output and input a tensor of output shape + input
    shape."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise AssertionError("Expected strategy to be either 'forward-mode' or 'reverse-mode'. "
                             f"Found {strategy}.")
    several, fresh, is_tuple, outputs = _run(func, inputs, create_graph, "jacobian")
    table = []
    with _C.enable_grad():
        for y in outputs:
            rows = []
            for index in range(y.numel()):
                unit = _C.zeros_like(y, requires_grad=False)
                unit.view(-1)[index] = 1
                rows.append(_grad([y], fresh, [unit], create_graph, strict, "jacobian"))
            table.append(tuple(
                _C.stack([row[j] for row in rows]).reshape(tuple(y.shape) + tuple(x.shape))
                if rows else x.new_zeros(tuple(y.shape) + tuple(x.shape))
                for j, x in enumerate(fresh)))
    table = tuple(_result(row, several, create_graph) for row in table)
    return table if is_tuple else table[0]


def _scalar(func):
    def checked(*args):
        out = func(*args)
        _, tensors = _as_tuple(out, "outputs of the user-provided function", "hessian")
        if len(tensors) != 1 or tensors[0].numel() != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should "
                               "contain a single element")
        return tensors[0].squeeze()
    return checked


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False,
            outer_jacobian_strategy="reverse-mode"):
    """Returns the second derivatives of a function whose value is one number."""
    several, items = _as_tuple(inputs, "inputs", "hessian")
    single = _scalar(func)

    def gradient(*args):
        args = tuple(x if x.requires_grad else x.detach().requires_grad_() for x in args)
        return _grad([single(*args)], args, [None], True, strict, "hessian")

    table = jacobian(gradient, items, create_graph=create_graph, strict=strict)
    return table if several else table[0][0]


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """Returns (func(inputs), the product of v with the Hessian)."""
    several, fresh, _, outputs = _run(_scalar(func), inputs, True, "vhp")
    with _C.enable_grad():
        v = _vectors(v, fresh, "input to the user-provided function")
        first = _grad(outputs, fresh, [None], True, strict, "vhp")
        second = _grad(first, fresh, v, create_graph, strict, "vhp")
    return _result(outputs, False, create_graph), _result(second, several, create_graph)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """Returns (func(inputs), the product of the Hessian with v)."""
    several, fresh, _, outputs = _run(_scalar(func), inputs, True, "hvp")
    with _C.enable_grad():
        v = _vectors(v, fresh, "input to the user-provided function")
        first = _grad(outputs, fresh, [None], True, strict, "hvp")
        dual = tuple(_C.zeros_like(x, requires_grad=True) for x in fresh)
        second = _grad(first, fresh, dual, True, strict, "hvp")
        products = _grad(second, dual, v, create_graph, False, "hvp")
    return _result(outputs, False, create_graph), _result(products, several, create_graph)
