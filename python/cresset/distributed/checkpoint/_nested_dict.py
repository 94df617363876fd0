"""Dicts of dicts and lists as one dict, whose keys are joined by dots."""
from ._traverse import set_element, traverse_state_dict


def flatten_state_dict(state_dict):
    """Returns ({key: leaf}, {key: path})."""
    flat, paths = {}, {}

    def add(path, value):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path
    traverse_state_dict(state_dict, add)
    return flat, paths


def unflatten_state_dict(state_dict, mapping):
    """Returns the dict that flatten_state_dict took apart."""
    nested = {}
    for key, value in state_dict.items():
        set_element(nested, mapping[key], value)
    return nested
