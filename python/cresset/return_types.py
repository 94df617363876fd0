"""The named tuples that operators with several results return; NAME_out with out=."""
from . import _C


def _type(name):
    """Returns the type of a name, or None."""
    return _C._return_type(name.removesuffix("_out"), name.endswith("_out"))


def _all_names():
    names = {record["name"] for record in _C._records()}
    return sorted(name + end for name in names for end in ("", "_out") if _type(name + end) is not None)


def _all_return_types():
    return list(map(_type, _all_names()))


def __getattr__(name):
    if name == "__all__":  # import *
        return ["all_return_types", "pytree_register_structseq", *_all_names()]
    value = _all_return_types() if name == "all_return_types" else _type(name)
    if value is None:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), "all_return_types", *_all_names()})


def pytree_register_structseq(cls):
    """Makes a named tuple type a node of trees."""
    from .utils._pytree import register_pytree_node
    register_pytree_node(cls, lambda values: (list(values), None), lambda values, _: cls(values))
