"""Indexing as a call that transforms see."""
from .. import Tensor, ops
from ..overrides import TorchFunctionMode
from ..utils._pytree import tree_leaves


class TransformGetItemToIndex(TorchFunctionMode):
    """Inside, x[i, j] with tensors as indices calls the operator index.

    Indexing by a tensor of one number reads that number, which vmap cannot do.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is Tensor.__getitem__:
            indices = tree_leaves(args[1])
            if all(isinstance(index, Tensor) for index in indices):
                return ops.aten.index(args[0], indices)
        return func(*args, **(kwargs or {}))
