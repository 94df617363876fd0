"""Types for annotations of scripted functions."""
from typing import Any, Dict, List, Optional, Tuple, Union

from ..futures import Future

__all__ = ["Any", "List", "BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Tuple",
           "is_tuple", "is_list", "Dict", "is_dict", "is_optional", "is_union"]


class _BroadcastingList:
    """BroadcastingList2[int] annotates two ints, or one int for both."""

    def __getitem__(self, types):
        return List[types]


BroadcastingList1 = _BroadcastingList()
BroadcastingList2 = BroadcastingList3 = BroadcastingList1


def _has_origin(annotation, kind):
    from typing import get_origin
    return get_origin(annotation) is kind


def is_tuple(annotation):
    return _has_origin(annotation, tuple)


def is_list(annotation):
    return _has_origin(annotation, list)


def is_dict(annotation):
    return _has_origin(annotation, dict)


def is_union(annotation):
    """Returns whether the annotation is Union[...] or X | Y."""
    from types import UnionType
    return _has_origin(annotation, Union) or isinstance(annotation, UnionType)


def is_optional(annotation):
    """Returns whether the annotation is a union of which None is a member."""
    return is_union(annotation) and type(None) in annotation.__args__
