"""Forward-mode derivatives: pairs of a tensor and its tangent.

`make_dual` returns an alias of the tensor that the tape knows; `unpack_dual` computes the tangent of a
result by differentiating the vector-Jacobian product, which is linear in its vector.
"""
from typing import NamedTuple, Optional

from .. import _C
from .._C import Tensor, enable_grad
from .function import _dual_levels as _levels
from .function import _forward_modes
from .graph import get_gradient_edge

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]


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
    _C._set_duals(True)
    return len(_levels) - 1


def exit_dual_level(*, level=None):
    """Ends a level; its tensors have no tangents any more."""
    if level is not None and level != len(_levels) - 1:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is "
                           "not supported.")
    if not _levels:
        raise RuntimeError("Dual level must be a positive number.")
    _levels.pop()
    _C._set_duals(False)
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
    _levels[-1].append((get_gradient_edge(dual), tangent, False))
    _C._mark_dual(dual)
    return dual


def add_dual(tensor, tangent):
    """Gives a result of a Function the tangent that its jvp computed."""
    from .._functorch.eager_transforms import check_tangent
    check_tangent(tensor, tangent)
    _levels[-1].append((get_gradient_edge(tensor), tangent, True))


def _own():
    """The aliases of the level's tensors that are leaves."""
    nodes = [edge.node for edge, _, _ in _levels[-1]]
    return [node.variable for node in nodes if hasattr(node, "variable")]


def tangent_of(tensor):
    """The tangent of a tensor by the active level, None without."""
    from .._functorch.eager_transforms import _ended, push_forward, reaches
    if not tensor.requires_grad:
        return None
    edge = get_gradient_edge(tensor)
    for known, tangent, computed in _levels[-1]:
        if known == edge:
            return _ended(tangent, _own()) if computed else tangent
    edges, tangents, _ = zip(*_levels[-1])
    if not reaches(edge.node, [known.node for known in edges]):
        return None
    with enable_grad():
        found, vectors = push_forward([tensor], list(edges), list(tangents))
    return _ended(found[0], _own() + vectors)


def unpack_dual(tensor, *, level=None):
    """Returns the primal and the tangent of a tensor."""
    from .._functorch.eager_transforms import _ended
    if not _levels or not _levels[-1]:
        return UnpackedDualTensor(tensor, None)
    primal, tangent = _ended(tensor, _own()), tangent_of(tensor)
    if tangent is not None and not _C.is_grad_enabled():
        primal, tangent = [x.detach() if x.requires_grad else x for x in (primal, tangent)]
    return UnpackedDualTensor(primal, tangent)


class dual_level:
    """A level of forward derivatives for a `with` block."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *exception):
        exit_dual_level()
