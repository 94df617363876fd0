"""Forward-mode derivatives: pairs of a tensor and its tangent.

`make_dual` returns an alias of the tensor that the tape knows; `unpack_dual` computes the tangent of a
result by differentiating the vector-Jacobian product, which is linear in its vector.
"""
from typing import NamedTuple, Optional

from .._C import Tensor, enable_grad
from .function import _forward_modes
from .graph import get_gradient_edge

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]

_levels = []  # of each active level: [(alias, tangent)]


class UnpackedDualTensor(NamedTuple):
    """The primal and the tangent of a tensor; the tangent is None if it has none."""

    primal: Tensor
    tangent: Optional[Tensor]


def enter_dual_level():
    """Begins a level of forward derivatives and returns its number."""
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.append([])
    _forward_modes.append("dual level")
    return len(_levels) - 1


def exit_dual_level(*, level=None):
    """Ends a level; its tensors have no tangents any more."""
    if not _levels:
        raise RuntimeError("Trying to exit a forward AD level but no level is active.")
    if level is not None and level != len(_levels) - 1:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is "
                           "not supported.")
    _levels.pop()
    _forward_modes.remove("dual level")


def make_dual(tensor, tangent, *, level=None):
    """Returns a tensor with the elements of `tensor` and a tangent."""
    from .._functorch.eager_transforms import _alias, check_tangent
    if not _levels:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to "
                           "enter_dual_level() first.")
    for name, x in (("primal", tensor), ("tangent", tangent)):
        if not (x.is_floating_point() or x.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {x.dtype}")
    check_tangent(tensor, tangent)
    with enable_grad():
        dual = _alias(tensor)
    _levels[-1].append((dual, tangent))
    return dual


def unpack_dual(tensor, *, level=None):
    """Returns the primal and the tangent of a tensor."""
    from .._functorch.eager_transforms import _ended, push_forward, reaches
    if not _levels or not _levels[-1]:
        return UnpackedDualTensor(tensor, None)
    duals, tangents = zip(*_levels[-1])
    own = [x for x in duals if x.is_leaf]
    for dual, tangent in _levels[-1]:
        if dual is tensor:
            return UnpackedDualTensor(_ended(tensor, own), tangent)
    if not tensor.requires_grad or not reaches(tensor.grad_fn, [get_gradient_edge(x).node for x in duals]):
        return UnpackedDualTensor(tensor, None)
    with enable_grad():
        found, vectors = push_forward([tensor], list(duals), list(tangents))
    return UnpackedDualTensor(_ended(tensor, own), _ended(found[0], own + vectors))


class dual_level:
    """A level of forward derivatives for a `with` block."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *exception):
        exit_dual_level()
