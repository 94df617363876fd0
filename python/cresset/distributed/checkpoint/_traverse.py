"""Paths to the leaves of dicts of dicts and lists.  A dict's keys are text in paths; a list's are numbers."""
from collections.abc import Mapping

import cresset


def _is_leaf(value):
    """Dicts are taken apart; lists where a dict or a tensor is inside of their lists."""
    if isinstance(value, Mapping):
        return False
    return not isinstance(value, list) or all(_is_leaf(v) and not isinstance(v, cresset.Tensor) for v in value)


def _is_leaf_2_3(value):
    """In torch 2.3 dicts and lists were taken apart where a tensor is inside of them."""
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return all(_is_leaf_2_3(v) and not isinstance(v, cresset.Tensor) for v in parts)


def traverse_state_dict_v_2_3(state_dict, visitor):
    """Calls visitor(path, leaf) for each leaf of a checkpoint of torch 2.3."""
    traverse_state_dict(state_dict, visitor, _is_leaf_2_3)


def traverse_state_dict(state_dict, visitor, is_leaf=_is_leaf):
    """Calls visitor(path, leaf) for each leaf."""
    def visit(path, value):
        if is_leaf(value):
            visitor(path, value)
            return
        for key, part in ((str(k), v) for k, v in value.items()) if isinstance(value, Mapping) else enumerate(value):
            visit((*path, key), part)
    for key, value in state_dict.items():
        visit((str(key),), value)


def set_element(root, path, value):
    """Puts a value at a path; dicts and lists on the way are made."""
    at = root
    for key, after in zip(path, [*path[1:], None]):
        if isinstance(at, list):
            at.extend([None] * (key + 1 - len(at)))
            missing = at[key] is None
        else:
            own = next((k for k in at if str(k) == key), key) if key not in at else key
            missing, key = own not in at, own
        if after is None:
            at[key] = value
        elif missing:
            at[key] = [] if isinstance(after, int) else {}
        at = at[key]


def get_element(root, path, default=None):
    """Returns the value at a path, or a default where there is none."""
    at = root
    for key in path:
        if isinstance(at, list) and isinstance(key, int) and key < len(at):
            at = at[key]
        elif isinstance(at, Mapping) and key in at:
            at = at[key]
        else:
            return default
    return at
