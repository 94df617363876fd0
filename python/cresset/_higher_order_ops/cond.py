"""One of two functions, by a predicate."""
import warnings

from .. import SymBool, Tensor, _C
from ..utils._pytree import tree_leaves, tree_unflatten
from . import checked

__all__ = ["cond"]


def _check(pred, true_fn, false_fn, operands):
    if not isinstance(pred, Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not (callable(true_fn) and callable(false_fn)):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)) or not all(isinstance(x, Tensor) for x in tree_leaves(operands)):
        raise RuntimeError("Expect operands to be a tuple of possibly nested dict/list/tuple that only consists of "
                           f"tensor leaves, but got {operands}.")


def _branch(function, operands):
    out = checked.call("torch.cond", function, operands)
    for x in tree_leaves(out):
        if not isinstance(x, (Tensor, int)):
            checked.refuse_value("torch.cond", "torch.cond: unsupported branch return type (constant non-int)",
                                 "Constants returned from branches must be ints.")
    return out


def cond(pred, true_fn, false_fn, operands=()):
    """Returns true_fn(*operands) if `pred` holds, else false_fn(*operands).

    pred is a number or a tensor of one element, whose value is read; operands are a tuple or list of
    trees of tensors.  Branches neither write operands nor return aliases of them.  Inside of vmap, a
    `pred` that differs by example runs both branches, and each example gets its branch's results.

    Example::

        >>> torch.cond(torch.tensor(True), torch.sin, torch.cos, (torch.zeros(2),))
        tensor([0., 0.])
    """
    if isinstance(pred, (bool, int, float)):
        if checked.tracing() is not None:
            warnings.warn("Pred is a Python constant. When used with torch.cond, it specializes on one of the branches. If you want "
                          "torch.cond to preserve two branches, please make the predicate a boolean tensor or a SymBool.",
                          stacklevel=2)
        return (true_fn if pred else false_fn)(*operands)
    if isinstance(pred, SymBool):
        pred = pred.tensor()
    _check(pred, true_fn, false_fn, operands)
    if checked.tracing() is not None:
        from ..export._control import trace_cond
        return trace_cond(checked.tracing(), pred, true_fn, false_fn, operands)
    if not checked.is_batch(pred):
        return _branch(true_fn if _C._truth(pred) else false_fn, operands)
    leaves, spec = checked.select(
        pred.reshape(()).bool(), _branch(true_fn, operands), _branch(false_fn, operands),
        lambda a, b: f"Unmatched output spec from torch.cond branches: true branch tree_spec {a} vs false branch "
                     f"tree_spec {b}.")
    return tree_unflatten(leaves, spec)
