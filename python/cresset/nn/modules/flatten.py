"""Joining and splitting dimensions."""
from .module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Joins the dimensions from start_dim to end_dim.

    Shape: input (*, S_start, ..., S_end, *); output (*, S_start ... S_end multiplied, *).

    Example::

        >>> nn.Flatten()(torch.randn(2, 3, 4)).shape
        torch.Size([2, 12])
    """

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input):
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self):
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits one dimension into several.

    Shape: input (*, S, *), where S is the product of unflattened_size; output (*, *unflattened_size, *).

    Example::

        >>> nn.Unflatten(1, (3, 2))(torch.randn(4, 6)).shape
        torch.Size([4, 3, 2])
    """

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim, unflattened_size):
        super().__init__()
        self._require_tuple_int(unflattened_size)
        self.dim = dim
        self.unflattened_size = unflattened_size

    def _require_tuple_int(self, input):
        if not isinstance(input, (tuple, list)):
            raise TypeError("unflattened_size must be a tuple of ints, but found type "
                            f"{type(input).__name__}")
        for i, element in enumerate(input):
            if not isinstance(element, int):
                raise TypeError("unflattened_size must be tuple of ints, but found element of "
                                f"type {type(element).__name__} at pos {i}")

    def forward(self, input):
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self):
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
