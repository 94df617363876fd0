"""register_sharding: a program's own strategies of an operator."""
from ...._ops import OpOverload
from .. import _dispatch

__all__ = ["register_sharding"]


def register_sharding(op):
    """Decorates a function that gets the arguments of `op`, an operator or a list of them, with a DTensorSpec for each DTensor.  It
    returns pairs of lists: placements of the results and of the arguments (None where one is no tensor) on one dimension of a mesh
    with which every rank may call the operator on its parts.  The cheapest is taken, in place of those that the table gives."""
    every = op if isinstance(op, (list, tuple)) else [op]
    for one in every:
        if not isinstance(one, OpOverload):
            raise TypeError(f"register_sharding: an operator is an overload, as torch.ops.aten.add.Tensor, not {one!r}")

    def register(function):
        for one in every:
            _dispatch.strategies[one] = function
        _dispatch.forget_plans()
        return function
    return register
