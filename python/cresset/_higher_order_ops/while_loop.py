"""A loop whose condition and body are functions of tensors."""
from .. import Tensor, _C, bool as bool_dtype, where
from ..utils._pytree import tree_flatten, tree_unflatten
from . import checked

__all__ = ["while_loop"]

_NAME = "torch.while_loop"


def _check(cond_fn, body_fn, carried_inputs, leaves):
    if not (callable(cond_fn) and callable(body_fn)):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"carried_inputs must be a tuple or list but got {type(carried_inputs)}")
    for x in leaves:
        if not isinstance(x, (Tensor, int)):
            raise RuntimeError("Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only"
                               f"consists of tensor or int leaves, but got {carried_inputs}.")


def _condition(cond_fn, carried):
    pred = checked.call(_NAME, cond_fn, carried)
    if isinstance(pred, bool) or isinstance(pred, Tensor) and pred.dim() == 0 and pred.dtype == bool_dtype:
        return pred
    raise RuntimeError(f"cond_fn must return a boolean scalar tensor or a boolean but got {pred}")


def _body(body_fn, carried, leaves):
    out, _ = tree_flatten(checked.call(_NAME, body_fn, carried))
    checked.check_same("body_fn_output", out, "carried_inputs", leaves)
    return out


def _any(pred):
    """Returns whether a batch of conditions of any level of vmap has one that holds."""
    while checked.is_batch(pred):
        pred = pred.inner
    return _C._truth(pred.any() if isinstance(pred, Tensor) else pred)


def _next(pred, out, before):
    """Returns the values after a step: an example whose condition does not hold keeps its own."""
    if not checked.is_batch(pred):
        return out
    return [where(pred, x, y) for x, y in zip(out, before)]


def while_loop(cond_fn, body_fn, carried_inputs):
    """Runs carried = body_fn(*carried) while cond_fn(*carried) holds, and returns it.

    carried_inputs is a tuple of trees of tensors and ints.  cond_fn returns a bool or a bool tensor
    without dims, body_fn as many tensors as carried_inputs has, of the same sizes and dtypes.  Neither
    writes its inputs or returns aliases of them.  Gradients flow through all steps.  Inside of vmap the
    loop runs until no example's condition holds.

    Example::

        >>> torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.ones(2)))
        (tensor(3), tensor([8., 8.]))
    """
    leaves, spec = tree_flatten(carried_inputs)
    _check(cond_fn, body_fn, carried_inputs, leaves)
    if checked.tracing() is not None and all(isinstance(x, Tensor) for x in leaves):
        from ..export._control import trace_loop
        return trace_loop(checked.tracing(), _NAME, cond_fn, body_fn, leaves, spec)
    while True:
        carried = tree_unflatten(leaves, spec)
        pred = _condition(cond_fn, carried)
        if not _any(pred):
            return carried
        leaves = _next(pred, _body(body_fn, carried, leaves), leaves)
