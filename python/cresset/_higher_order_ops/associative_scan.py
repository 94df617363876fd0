"""Inclusive scans by any associative function, in a logarithmic number of calls."""
from .. import Tensor, cat, movedim, narrow, strided, vmap
from ..utils._pytree import tree_flatten, tree_unflatten
from . import checked
from .scan import dim_of

__all__ = ["associative_scan"]


def _every_second(x, dim, start):
    index = [slice(None)] * x.dim()
    index[dim] = slice(start, None, 2)
    return x[tuple(index)]


def _interleave(even, odd, dim):
    """even[0], odd[0], even[1], odd[1], ... along `dim`."""
    pairs = odd.size(dim)
    shape = [*even.shape]
    shape[dim] = 2 * pairs
    paired = narrow(even, dim, 0, pairs).unsqueeze(dim + 1)
    mixed = cat([paired, odd.unsqueeze(dim + 1)], dim + 1).reshape(shape)
    return cat([mixed, narrow(even, dim, pairs, 1)], dim) if even.size(dim) > pairs else mixed


def _scan(combine, leaves, dim):
    """Pairs are combined and scanned, which gives the odd places; the even ones follow."""
    size = leaves[0].size(dim)
    if size < 2:
        return leaves
    even, odd = ([_every_second(x, dim, start) for x in leaves] for start in (0, 1))
    pairs = size // 2
    done = _scan(combine, combine([narrow(x, dim, 0, pairs) for x in even], odd), dim)
    before, rest = [narrow(x, dim, 0, (size - 1) // 2) for x in done], size - 1 - pairs
    first = [narrow(x, dim, 0, 1) for x in even]
    if rest:
        later = combine(before, [narrow(x, dim, 1, rest) for x in even])
        first = [cat([a, b], dim) for a, b in zip(first, later)]
    return [_interleave(a, b, dim) for a, b in zip(first, done)]


def _check(combine_fn, leaves, dim, reverse, combine_mode):
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(x, Tensor) for x in leaves):
        raise ValueError("xs leaves must be a Tensor")
    if any(x.layout != strided for x in leaves):
        raise ValueError("xs leaves must dense Tensors, consider using `to_dense()`")


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """Returns xs[0], combine_fn(xs[0], xs[1]), ... along `dim`, of a tree of tensors.

    combine_fn takes two slices of xs, trees without the scanned dim, and returns such a tree; it is
    associative.  It is called a logarithmic number of times: with combine_mode="generic" under vmap,
    with "pointwise", where each element of a result depends only on the same elements of the slices,
    on parts of several slices.

    Example::

        >>> from cresset._higher_order_ops import associative_scan
        >>> associative_scan(lambda a, b: a + b, torch.tensor([1., 2., 3.]), 0)
        tensor([1., 3., 6.])
    """
    leaves, spec = tree_flatten(xs)
    _check(combine_fn, leaves, dim, reverse, combine_mode)
    with checked.unrecorded():
        dim = dim_of(leaves, dim, ValueError)
        if any(x.size(dim) != leaves[0].size(dim) for x in leaves):
            raise ValueError("All xs tensors must have the same size along the scanned dimension")
    traced = checked.tracing() is not None
    function = vmap(combine_fn) if combine_mode == "generic" and not traced else combine_fn

    def combine(a, b):
        found, _ = tree_flatten(function(tree_unflatten(a, spec), tree_unflatten(b, spec)))
        if len(found) != len(leaves):
            raise RuntimeError("The number of leaves of the pytree of the output of the operator needs to match the length "
                               f"of the pytree of the input: {len(found)} and {len(leaves)}")
        return found

    leaves = [movedim(x, dim, 0) for x in leaves] if dim else leaves
    turn = (lambda x: x.flip(0)) if reverse else lambda x: x
    leaves = [turn(x) for x in leaves]
    if traced:
        from ..export._control import trace_associative_scan
        found = trace_associative_scan(checked.tracing(), combine, leaves)
    else:
        found = _scan(combine, leaves, 0)
    done = [turn(x) for x in found]
    return tree_unflatten([movedim(x, 0, dim) for x in done] if dim else done, spec)
