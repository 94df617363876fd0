"""A function of every slice along the first dim."""
import builtins

from .. import Tensor, stack
from ..utils._pytree import tree_flatten, tree_unflatten
from . import checked

__all__ = ["map"]

_NAME = "torch.ops.higher_order.map_impl"


def _check(f, leaves):
    if not callable(f):
        raise RuntimeError(f"f must be a callable, but got {f}")
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    if any(x.dim() == 0 for x in leaves):
        raise RuntimeError(f"Mapped xs must have a leading dimension. Got xs {leaves}.")
    shapes = [x.shape for x in leaves]
    if shapes[0][0] == 0:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    if any(shape[0] != shapes[0][0] for shape in shapes):
        raise RuntimeError(f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}.")


def _stacked(parts):
    first = parts[0]
    if first is None:
        return None
    if not isinstance(first, Tensor):
        checked.refuse_value(_NAME, "HOP: non torch.Tensor leaf", "Expected all leaves to be of torch.Tensor type.")
    return stack(parts)


def _traced(f, leaves, spec, args):
    from ..export._control import trace_scan
    specs = []

    def step(carry, slices, *args):
        found, spec_out = tree_flatten(f(tree_unflatten(slices, spec), *args))
        specs.append(spec_out)
        return [], found
    _, stacked = trace_scan(checked.tracing(), "map_impl", _NAME, step, [], leaves, args)
    return tree_unflatten(stacked, specs[-1])


def map(f, xs, *args):  # noqa: A001
    """Returns the stacked results of f(x, *args) for the slices x of `xs` along the first dim.

    xs and the results of f are trees of tensors.

    Example::

        >>> from cresset._higher_order_ops import map
        >>> map(lambda x, k: x.sum() * k, torch.ones(2, 3), 10)
        tensor([30., 30.])
    """
    leaves, spec = tree_flatten(xs)
    with checked.unrecorded():
        _check(f, leaves)
    if checked.tracing() is not None:
        return _traced(f, leaves, spec, args)
    rows, spec_out = [], None
    for i in range(leaves[0].size(0)):
        out = checked.call(_NAME, f, (tree_unflatten([x.select(0, i) for x in leaves], spec), *args))
        found, spec_out = tree_flatten(out)
        rows.append(found)
    return tree_unflatten(builtins.list(builtins.map(_stacked, zip(*rows))), spec_out)
