"""Variable, from old programs."""
from .._C import Tensor

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, other):
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """Variable(tensor) returns the tensor, with requires_grad set."""

    def __new__(cls, data=None, requires_grad=False, volatile=None):
        if data is None:
            from .._C import empty
            data = empty(0)
        if volatile is not None:
            from warnings import warn
            warn("volatile was removed and now has no effect. Use `with torch.no_grad():` "
                 "instead.", stacklevel=2)
        return data.detach().requires_grad_(requires_grad)
