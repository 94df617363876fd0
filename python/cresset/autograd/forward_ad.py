"""Forward-mode derivatives: pairs of a tensor and its tangent.

`make_dual` returns an alias of the tensor that the tape knows; `unpack_dual` sends tangents along the
recorded graph to the tensor.
"""
from typing import NamedTuple, Optional

from .. import _C
from .._C import Tensor, enable_grad, is_grad_enabled
from .function import _dual_levels as _levels
from .function import _forward_modes
from .graph import GradientEdge, get_gradient_edge

__all__ = ["UnpackedDualTensor", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual", "dual_level"]


class UnpackedDualTensor(NamedTuple):
    """The primal and the tangent of a tensor; the tangent is None if it has none."""

    primal: Tensor
    tangent: Optional[Tensor]


class _Level:
    """What a dual level knows."""

    def __init__(self):
        self.tangents = {}  # {(node, index of its result): tangent}
        self.aliases = {}  # {id: tensor}, those that make_dual returned and that are leaves
        self.dual = {}  # {node: whether its history leads to a tangent}
        self.bound = {}  # {node: whether its history leads to a leaf that is no alias}


def enter_dual_level():
    """Begins a level of forward derivatives and returns its number."""
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.append(_Level())
    _forward_modes.append("dual level")
    _C._set_forward_mode(True)
    return len(_levels) - 1


def exit_dual_level(*, level=None):
    """Ends a level; its tensors have no tangents any more."""
    if level is not None and level != len(_levels) - 1:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is "
                           "not supported.")
    if not _levels:
        raise RuntimeError("Dual level must be a positive number.")
    _levels.pop()
    _forward_modes.remove("dual level")
    _C._set_forward_mode(bool(_forward_modes))


def make_dual(tensor, tangent, *, level=None):
    """Returns a tensor with the elements of `tensor` and a tangent."""
    from .._functorch.eager_transforms import _alias, check_tangent, writable
    if not _levels:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to "
                           "enter_dual_level() first.")
    for name, x in (("primal", tensor), ("tangent", tangent)):
        if not (x.is_floating_point() or x.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {x.dtype}")
    check_tangent(tensor, tangent)
    at = len(_levels) - 1
    if tangent_of(tangent) is not None:
        raise RuntimeError(f"Setting a forward grad that itself has a forward gradient at the same level{at} is not supported.")
    if tangent_of(tensor) is not None:
        raise RuntimeError("Making a dual Tensor based on a Tensor that already has a forward gradient at the same level "
                           f"{at} is not supported.")
    with enable_grad():
        alias = _alias(tensor)
        dual = writable(alias)
    _levels[-1].tangents[get_gradient_edge(dual)[:2]] = tangent
    if alias.is_leaf:
        _levels[-1].aliases[id(alias)] = alias
    return dual


def add_dual(tensor, tangent):
    """Gives a result of a Function the tangent that its jvp computed."""
    from .._functorch.eager_transforms import check_tangent, ended_by
    level = _levels[-1]
    check_tangent(tensor, tangent)
    level.tangents[get_gradient_edge(tensor)[:2]] = ended_by(tangent, level.aliases, level.bound)


def _nearest(level, edge):
    """The edges with tangents that the history of an edge reaches first."""
    from .._functorch.eager_transforms import leads
    found, seen, stack = [], {edge[0]}, [edge[0]]

    def is_dual(edge):
        return edge in level.tangents or None
    if not leads(edge[0], is_dual, level.dual):
        return found
    while stack:
        for following in stack.pop().next_functions:
            if following in level.tangents:
                found.append(following)
            elif level.dual.get(following[0], True) and following[0] is not None and following[0] not in seen:
                seen.add(following[0])
                stack.append(following[0])
    return list(dict.fromkeys(found))


def tangent_of(tensor, kept=False):
    """The tangent of a tensor by the active level, None without.  With `kept`, the level keeps it."""
    from .._functorch.eager_transforms import ended_by, finish, push_forward
    if not tensor.requires_grad:
        return None
    level, edge = _levels[-1], get_gradient_edge(tensor)[:2]
    if edge in level.tangents:
        return level.tangents[edge]
    nearest = _nearest(level, edge)
    if not nearest:
        return None
    with enable_grad():
        found, vectors = push_forward([tensor], [GradientEdge(*x) for x in nearest],
                                      [level.tangents[x] for x in nearest])
    finish(vectors)
    tangent = ended_by(found[0], level.aliases, level.bound if kept else {})
    if kept:
        level.tangents[edge] = tangent
    return tangent


def unpack_dual(tensor, *, level=None):
    """Returns the primal and the tangent of a tensor."""
    from .._functorch.eager_transforms import ended_by
    if not _levels or not _levels[-1].tangents:
        return UnpackedDualTensor(tensor, None)
    primal, tangent = ended_by(tensor, _levels[-1].aliases, {}), tangent_of(tensor)
    if tangent is not None and not is_grad_enabled():
        primal, tangent = [x.detach() if x.requires_grad else x for x in (primal, tangent)]
    return UnpackedDualTensor(primal, tangent)


class dual_level:
    """A level of forward derivatives for a `with` block."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *exception):
        exit_dual_level()
