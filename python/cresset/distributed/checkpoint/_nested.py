"""Dicts of dicts and lists as one dict, whose keys are joined by dots."""
from collections.abc import Mapping

import cresset


def _is_leaf(value):
    """Dicts are taken apart; lists where a dict or a tensor is inside of their lists."""
    if isinstance(value, Mapping):
        return False
    return not isinstance(value, list) or all(_is_leaf(v) and not isinstance(v, cresset.Tensor) for v in value)


def flatten_state_dict(state_dict):
    """Returns ({key: leaf}, {key: path})."""
    flat, paths = {}, {}

    def visit(path, value):
        if not _is_leaf(value):
            pairs = ((str(k), v) for k, v in value.items()) if isinstance(value, Mapping) else enumerate(value)
            for key, part in pairs:
                visit((*path, key), part)
            return
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path
    for key, value in state_dict.items():
        visit((str(key),), value)
    return flat, paths


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


def unflatten_state_dict(state_dict, mapping):
    """Returns the dict that flatten_state_dict took apart."""
    nested = {}
    for key, value in state_dict.items():
        set_element(nested, mapping[key], value)
    return nested
