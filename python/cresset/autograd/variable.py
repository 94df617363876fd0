"""Variable, from the time when tensors had no gradients of their own."""
from .._C import Tensor

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """Calling it gives the tensor back, with requires_grad set."""

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        if data is None:
            from .._C import empty
            data = empty(0)
        if volatile is not None:
            from warnings import warn
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` "
                 "instead.", stacklevel=2)
        return data.detach().requires_grad_(requires_grad)
