"""A loop over slices that carries a state and stacks an output of every step."""
from .. import Tensor, flip, movedim, stack
from ..utils._pytree import tree_flatten, tree_unflatten
from . import checked

__all__ = ["scan"]

_NAME = "torch.ops.higher_order.scan"
_TOO_FEW = "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"


def _check(combine_fn, init, xs, dim, reverse):
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not isinstance(dim, int):
        raise RuntimeError(f"Dim must be an int, but got {type(dim)}")
    if not isinstance(reverse, bool):
        raise RuntimeError(f"Reverse must be a bool, but got {type(reverse)}")
    if not init:
        raise RuntimeError("scan() operator requires init leaves.")
    for kind, leaves in (("init", init), ("xs", xs)):
        for x in leaves:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"All {kind} leaves must be a Tensor but got {x}")


def dim_of(xs, dim, error):
    """Returns the index of a dim that every leaf has, counted from the first leaf's end if negative."""
    n = xs[0].dim()
    if not -max(n, 1) <= dim < max(n, 1):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-max(n, 1)}, {max(n, 1) - 1}], "
                         f"but got {dim})")
    dim += n if dim < 0 else 0
    if any(x.dim() <= dim or x.size(dim) == 0 for x in xs):
        raise error(_TOO_FEW)
    return dim


def _steps(combine_fn, carry, spec_init, leaves, spec_xs):
    """Returns the last carry and the outputs of every step."""
    outputs, spec_out = [], None
    for i in range(leaves[0].size(0)):
        step = tree_unflatten([x.select(0, i) for x in leaves], spec_xs)
        found, out, spec_out = _parts(checked.call(_NAME, combine_fn, (tree_unflatten(carry, spec_init), step)))
        checked.check_same("init", carry, "carry", found)
        carry = found
        outputs.append(out)
    return carry, outputs, spec_out


def _parts(result):
    """The leaves of a step's carry and of its output, and the output's tree."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise RuntimeError(f"combine_fn must return a carry and an output, but got {type(result)}")
    return tree_flatten(result[0])[0], *tree_flatten(result[1])


def _traced(combine_fn, carry, spec_init, leaves, spec_xs):
    from ..export._control import trace_scan
    specs = []

    def step(carry, slices):
        found, out, spec_out = _parts(combine_fn(tree_unflatten(carry, spec_init), tree_unflatten(slices, spec_xs)))
        if len(found) != len(carry):
            checked.check_same("init", carry, "carry", found)
        specs.append(spec_out)
        return found, out
    carry, stacked = trace_scan(checked.tracing(), "scan", _NAME, step, carry, leaves)
    return carry, stacked, specs[-1]


def scan(combine_fn, init, xs, *, dim=0, reverse=False):
    """Runs carry, out = combine_fn(carry, x) for the slices x of `xs` along `dim`, first to last.

    Returns the last carry and a tree of the outputs, stacked along `dim`.  init and xs are trees of
    tensors; a carry has the sizes and dtypes of init.  With reverse=True the slices are taken last to
    first, and each output is at its slice's place.

    Example::

        >>> from cresset._higher_order_ops import scan
        >>> scan(lambda c, x: (c + x, c * x), torch.tensor(0.), torch.tensor([1., 2., 3.]))
        (tensor(6.), tensor([0., 2., 9.]))
    """
    carry, spec_init = tree_flatten(init)
    leaves, spec_xs = tree_flatten(xs)
    if not leaves:
        return init, []
    _check(combine_fn, carry, leaves, dim, reverse)
    with checked.unrecorded():
        dim = dim_of(leaves, dim, RuntimeError)
        if any(x.size(dim) != leaves[0].size(dim) for x in leaves):
            raise RuntimeError(f"All xs leaves must have one size along the scanned dim, but got {[x.size(dim) for x in leaves]}")
    leaves = [movedim(x, dim, 0) for x in leaves] if dim else leaves
    if reverse:
        leaves = [flip(x, [0]) for x in leaves]
    if checked.tracing() is not None:
        carry, stacked, spec_out = _traced(combine_fn, carry, spec_init, leaves, spec_xs)
        stacked = [_in_place(x.flip(0) if reverse else x, dim) for x in stacked]
    else:
        carry, outputs, spec_out = _steps(combine_fn, carry, spec_init, leaves, spec_xs)
        stacked = [_stacked(parts, dim, reverse) for parts in zip(*outputs)]
    return tree_unflatten(carry, spec_init), tree_unflatten(stacked, spec_out)


def _stacked(parts, dim, reverse):
    if not isinstance(parts[0], Tensor):
        return parts[0]
    return _in_place(stack(parts[::-1] if reverse else parts), dim)


def _in_place(stacked, dim):
    return movedim(stacked, 0, dim) if 0 < dim < stacked.dim() else stacked
