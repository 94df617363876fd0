"""Dicts of dicts and lists as one dict, whose keys are joined by dots."""
from . import _version
from ._traverse import set_element, traverse_state_dict, traverse_state_dict_v_2_3


def flatten_state_dict(state_dict):
    """Returns ({key: leaf}, {key: path})."""
    flat, paths = {}, {}

    def add(path, value):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"duplicated flatten key {name}")
        flat[name], paths[name] = value, path
    (traverse_state_dict_v_2_3 if _version._derived_version == "2_3" else traverse_state_dict)(state_dict, add)
    return flat, paths


def unflatten_state_dict(state_dict, mapping):
    """Returns the dict that flatten_state_dict took apart."""
    nested = {}
    for key, value in state_dict.items():
        set_element(nested, mapping[key], value)
    return nested
