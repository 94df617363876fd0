"""The graph's nodes."""
from .._C import Node

__all__ = ["Node", "get_gradient_edge", "GradientEdge"]


class GradientEdge(tuple):
    """A node and the number of one of its inputs."""

    __slots__ = ()

    def __new__(cls, node, output_nr):
        return super().__new__(cls, (node, output_nr))

    node = property(lambda self: self[0])
    output_nr = property(lambda self: self[1])


def get_gradient_edge(tensor):
    """Where the gradient of `tensor` arrives."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does "
                           "not require gradients.")
    if tensor.grad_fn is not None:
        return GradientEdge(tensor.grad_fn, tensor.output_nr)
    # A leaf's node shows itself in any view of the leaf.
    return GradientEdge(tensor.view_as(tensor).grad_fn.next_functions[0][0], 0)
