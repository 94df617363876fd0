"""Inclusive scans by any associative function, in a logarithmic number of calls."""
from .. import Tensor, cat, narrow
from ..utils._pytree import tree_flatten, tree_unflatten

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


def associative_scan(combine_fn, xs, dim, reverse=False, combine_mode="pointwise"):
    """Returns xs[0], combine_fn(xs[0], xs[1]), ... along `dim`, of a tree of tensors.

    combine_fn takes and returns trees like xs; it is called on parts of several elements.
    """
    leaves, spec = tree_flatten(xs)
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise ValueError(f"Dim must be an int, but got {type(dim)}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    if not all(isinstance(x, Tensor) for x in leaves):
        raise ValueError(f"xs leaves must be a Tensor, but got {leaves}")
    dim = range(leaves[0].dim())[dim]
    if any(x.size(dim) != leaves[0].size(dim) for x in leaves):
        raise ValueError("All xs tensors must have the same size along the scanned dimension")

    def combine(a, b):
        found, made = tree_flatten(combine_fn(tree_unflatten(a, spec), tree_unflatten(b, spec)))
        if made != spec:
            raise RuntimeError(f"combine_fn returned a tree {made}, and xs is {spec}")
        return found

    turn = (lambda x: x.flip(dim)) if reverse else lambda x: x
    return tree_unflatten([turn(x) for x in _scan(combine, [turn(x) for x in leaves], dim)], spec)
