"""Lists and dicts as arguments of nodes.  They are immutable, because a graph cannot notice
changes inside them."""
from ..utils._pytree import SUPPORTED_NODES, NodeDef

__all__ = ["immutable_list", "immutable_dict"]

_HELP = """If you are attempting to modify the kwargs or args of a torch.fx.Node object,
instead create a new copy of it and assign the copy to the node:

    new_args = ...  # copy and mutate args
    node.args = new_args"""


def _refuse(self, *args, **kwargs):
    raise TypeError(f"{type(self).__name__!r} object does not support mutation. {_HELP}")


def _frozen(*names):
    """Gives a class methods `names` that raise."""
    def decorate(cls):
        for name in names:
            setattr(cls, name, _refuse)
        return cls
    return decorate


@_frozen("__delitem__", "__iadd__", "__imul__", "__setitem__", "append", "clear", "extend",
         "insert", "pop", "remove", "reverse", "sort")
class immutable_list(list):
    """A list that cannot be changed."""

    def __hash__(self):
        return hash(tuple(self))

    def __reduce__(self):
        return type(self), (tuple(self),)


@_frozen("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault",
         "update")
class immutable_dict(dict):
    """A dict that cannot be changed."""

    def __hash__(self):
        return hash(frozenset(self.items()))

    def __reduce__(self):
        return type(self), (tuple(self.items()),)


def _register(cls, like, rebuild):
    """Registers `cls` as a container like `like`, built by `rebuild`."""
    known = SUPPORTED_NODES[like]
    SUPPORTED_NODES[cls] = NodeDef(cls, known.flatten_fn, rebuild, known.flatten_with_keys_fn)


_register(immutable_list, list, lambda children, _: immutable_list(children))
_register(immutable_dict, dict, lambda children, keys: immutable_dict(zip(keys, children)))
