"""Nested containers as a list of leaves and a spec of the nesting.

Tuples, lists, dicts, named tuples, ordered and default dicts and deques are containers.
Programs register further classes.  All other objects are leaves.
"""
# Creating a namedtuple class takes 0.1 ms, so this module creates none.
from collections import OrderedDict, defaultdict, deque, namedtuple

from .._C import Size

__all__ = ["PyTree", "Context", "FlattenFn", "UnflattenFn", "DumpableContext",
           "ToDumpableContextFn", "FromDumpableContextFn", "PyTreeSpec", "TreeSpec", "LeafSpec",
           "register_pytree_node", "register_dataclass", "tree_flatten", "tree_unflatten",
           "tree_leaves", "tree_structure", "tree_iter", "tree_map", "tree_map_", "tree_map_only",
           "tree_map_only_", "tree_any", "tree_all", "tree_any_only", "tree_all_only",
           "tree_is_leaf", "tree_flatten_with_path", "tree_leaves_with_path",
           "tree_map_with_path", "keystr", "key_get", "SequenceKey", "MappingKey", "GetAttrKey",
           "treespec_dumps", "treespec_loads", "treespec_pprint", "is_namedtuple",
           "is_namedtuple_class", "is_namedtuple_instance", "is_structseq", "is_structseq_class",
           "is_structseq_instance"]

# For annotations.
PyTree = Context = DumpableContext = object
FlattenFn = UnflattenFn = ToDumpableContextFn = FromDumpableContextFn = object


class _Key:
    """A step of a path into a tree; one immutable value."""

    __slots__ = ()

    def __init__(self, value):
        object.__setattr__(self, self.__slots__[0], value)

    def _value(self):
        return getattr(self, self.__slots__[0])

    def __setattr__(self, name, value):
        raise AttributeError(f"cannot assign to field {name!r}")

    def __eq__(self, other):
        return self._value() == other._value() if type(other) is type(self) else NotImplemented

    def __hash__(self):
        return hash((self._value(),))

    def __reduce__(self):
        return type(self), (self._value(),)

    def __repr__(self):
        return f"{type(self).__name__}({self.__slots__[0]}={self._value()!r})"

    def __str__(self):
        return f"[{self._value()!r}]"

    def get(self, parent):
        """Returns the item of `parent` at this key."""
        return parent[self._value()]


class SequenceKey(_Key):
    __slots__ = ("idx",)

    def __init__(self, idx):
        super().__init__(idx)


class MappingKey(_Key):
    __slots__ = ("key",)

    def __init__(self, key):
        super().__init__(key)


class GetAttrKey(_Key):
    __slots__ = ("name",)

    def __init__(self, name):
        super().__init__(name)

    def __str__(self):
        return f".{self.name}"

    def get(self, parent):
        return getattr(parent, self.name)


class NodeDef:
    """A class of containers.

    flatten_fn: obj -> (children, context); unflatten_fn is its inverse;
    flatten_with_keys_fn: obj -> ([(key, child)...], context), or None.  `name`, `dump` and `load`
    are for texts of specs (_pytree_text).
    """

    __slots__ = ("type", "flatten_fn", "unflatten_fn", "flatten_with_keys_fn", "name", "dump",
                 "load")

    def __init__(self, type, flatten_fn, unflatten_fn, flatten_with_keys_fn, name=None, dump=None,
                 load=None):
        self.type, self.flatten_fn, self.unflatten_fn = type, flatten_fn, unflatten_fn
        self.flatten_with_keys_fn = flatten_with_keys_fn
        self.name, self.dump, self.load = name, dump, load


def keystr(path):
    """Returns a path of keys as Python text."""
    return "".join(map(str, path))


def key_get(obj, kp):
    """Returns the part of `obj` at a path of keys."""
    for key in kp:
        obj = key.get(obj)
    return obj


SUPPORTED_NODES = {}


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None,
                         to_dumpable_context=None, from_dumpable_context=None,
                         flatten_with_keys_fn=None):
    """Makes `cls` a container: flatten_fn(obj) -> (children, context), and its inverse."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be "
                         "None or registered.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn,
                                   serialized_type_name, to_dumpable_context, from_dumpable_context)


def _register_pytree_node(cls, flatten_fn, unflatten_fn, to_str_fn=None, maybe_from_str_fn=None,
                          **kwargs):
    """register_pytree_node under its earlier name."""
    import warnings
    warnings.warn("`torch.utils._pytree._register_pytree_node` is deprecated. Please use "
                  "`torch.utils._pytree.register_pytree_node` instead.", FutureWarning, stacklevel=2)
    register_pytree_node(cls, flatten_fn, unflatten_fn, **kwargs)


def _deregister_pytree_node(cls):
    """Makes objects of `cls` leaves again."""
    del SUPPORTED_NODES[cls]


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Makes a dataclass a container of its fields, except those that are named to be dropped."""
    from dataclasses import fields, is_dataclass
    dropped = set(drop_field_names or ())
    if field_names is None and not is_dataclass(cls):
        raise ValueError(f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a dataclass.")
    if field_names is None:
        names = [f.name for f in fields(cls) if f.init and f.name not in dropped]
    else:
        names = list(field_names)
        known = {f.name for f in fields(cls) if f.init}
        if set(names) | dropped != known:
            raise ValueError(f"Field names of {cls} that are neither given nor dropped, or unknown: "
                             f"{sorted((set(names) | dropped) ^ known)}")

    def flatten(obj):
        there = [name for name in names if getattr(obj, name) is not None]
        absent = [name for name in names if getattr(obj, name) is None]
        return [getattr(obj, name) for name in there], [there, absent]

    def unflatten(values, context):
        return cls(**dict(zip(context[0], values)), **dict.fromkeys(context[1]))

    def flatten_with_keys(obj):
        values, context = flatten(obj)
        return [(GetAttrKey(name), value) for name, value in zip(context[0], values)], context

    register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys,
                         serialized_type_name=serialized_type_name)


# --- Python's containers ---

def _list_flatten(d):
    return d, None


def _list_unflatten(values, context):
    return list(values)


def _list_flatten_with_keys(d):
    return [(SequenceKey(i), value) for i, value in enumerate(d)], None


def _tuple_flatten(d):
    return list(d), None


def _tuple_unflatten(values, context):
    return tuple(values)


def _dict_flatten(d):
    return list(d.values()), list(d)


def _dict_unflatten(values, context):
    return dict(zip(context, values))


def _dict_flatten_with_keys(d):
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _ordereddict_unflatten(values, context):
    return OrderedDict(zip(context, values))


def _defaultdict_flatten(d):
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_unflatten(values, context):
    return defaultdict(context[0], zip(context[1], values))


def _defaultdict_flatten_with_keys(d):
    return _dict_flatten_with_keys(d)[0], [d.default_factory, list(d)]


def _deque_flatten(d):
    return list(d), d.maxlen


def _deque_unflatten(values, context):
    return deque(values, maxlen=context)


def _deque_flatten_with_keys(d):
    return _list_flatten_with_keys(d)[0], d.maxlen


def _namedtuple_flatten(d):
    return list(d), type(d)


def _namedtuple_unflatten(values, context):
    return context(*values)


def _namedtuple_flatten_with_keys(d):
    return [(GetAttrKey(name), value) for name, value in zip(d._fields, d)], type(d)


_odict_flatten = _ordereddict_flatten = _dict_flatten
_odict_unflatten = _ordereddict_unflatten
_ordereddict_flatten_with_keys = _dict_flatten_with_keys
_tuple_flatten_with_keys = _list_flatten_with_keys


def _add(cls, flatten, unflatten, with_keys):
    module = cls.__module__
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten, unflatten, with_keys, f"{module}.{cls.__name__}")


_add(tuple, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys)
_add(list, _list_flatten, _list_unflatten, _list_flatten_with_keys)
_add(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys)
_add(OrderedDict, _dict_flatten, _ordereddict_unflatten, _dict_flatten_with_keys)
_add(defaultdict, _defaultdict_flatten, _defaultdict_unflatten, _defaultdict_flatten_with_keys)
_add(deque, _deque_flatten, _deque_unflatten, _deque_flatten_with_keys)
_add(namedtuple, _namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys)
_BUILTIN = frozenset(SUPPORTED_NODES)
_DICTS = frozenset((dict, OrderedDict, defaultdict))
SUPPORTED_NODES[Size] = NodeDef(Size, _tuple_flatten, _tuple_unflatten, _tuple_flatten_with_keys, "torch.Size")


def is_namedtuple_class(cls):
    """Whether `cls` was made by namedtuple, or is derived from such a class."""
    return (isinstance(cls, type) and issubclass(cls, tuple)
            and isinstance(getattr(cls, "_fields", None), tuple)
            and all(type(field) is str for field in cls._fields)
            and callable(getattr(cls, "_make", None)) and callable(getattr(cls, "_asdict", None)))


def is_namedtuple_instance(obj):
    """Whether obj's class was made by namedtuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj):
    """Whether `obj` is a class made by namedtuple, or an object of one."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls):
    """Whether `cls` is a class of named results made in C, as torch.return_types.max."""
    return (isinstance(cls, type) and cls.__bases__ == (tuple,)
            and all(isinstance(getattr(cls, name, None), int)
                    for name in ("n_sequence_fields", "n_fields", "n_unnamed_fields")))


def is_structseq_instance(obj):
    """Whether obj's class is one of named results."""
    return is_structseq_class(type(obj))


def is_structseq(obj):
    """Whether `obj` is a class of named results, or an object of one."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _node_type(tree):
    """The registered class of a container; None for a leaf."""
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return cls
    if cls.__bases__ == (tuple,) and hasattr(cls, "_fields"):
        return namedtuple
    if is_structseq_class(cls):
        _add(cls, _tuple_flatten, lambda children, _: cls(children), _list_flatten_with_keys)
        return cls
    return None


def _get_node_type(tree):
    """The registered class of a container; a leaf's own class."""
    return _node_type(tree) or type(tree)


def tree_is_leaf(tree, is_leaf=None):
    """Whether the whole tree is one leaf."""
    return (is_leaf is not None and is_leaf(tree)) or _node_type(tree) is None


_is_leaf = tree_is_leaf


class TreeSpec:
    """The nesting of a tree: the container, its context, its children's specs."""

    __slots__ = ("type", "context", "children_specs", "num_nodes", "num_leaves",
                 "num_children")

    def __init__(self, type, context, children_specs):
        self.type = type
        self.context = context
        self.children_specs = children_specs
        self.num_nodes = 1 + sum(c.num_nodes for c in children_specs)
        self.num_leaves = sum(c.num_leaves for c in children_specs) if type is not None else 1
        self.num_children = len(children_specs)

    def children(self):
        """The specs of the children."""
        return list(self.children_specs)

    def child(self, index):
        """The spec of one child."""
        return self.children_specs[index]

    def is_leaf(self):
        """Whether this is the spec of one leaf."""
        return self.type is None

    def _identity(self):
        return self.type, self.context, self.children_specs

    def __eq__(self, other):
        return isinstance(other, TreeSpec) and self._identity() == other._identity()

    def __hash__(self):
        return hash((self.type, repr(self.context), tuple(self.children_specs)))

    def __repr__(self, indent=0):
        if self.type is None:
            return "*"
        children = (",\n" + " " * (indent + 2)).join(child.__repr__(indent + 2) for child in self.children_specs)
        return f"TreeSpec({self.type.__name__}, {self.context}, [{children}])"

    def unflatten(self, leaves):
        """Returns the tree with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but "
                             f"the spec refers to a pytree that holds {self.num_leaves} items "
                             f"({self}).")
        return self._build(iter(leaves))

    def _build(self, leaves):
        if self.type is None:
            return next(leaves)
        children = [child._build(leaves) for child in self.children_specs]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree):
        """Returns the parts of `tree` at the leaves of this spec."""
        out = []
        self._collect(tree, out)
        return out

    def _collect(self, tree, out):
        if self.type is None:
            out.append(tree)
            return
        kind = _get_node_type(tree)
        dicts = self.type in _DICTS and kind in _DICTS  # which match each other
        if kind is not self.type and not dicts:
            raise ValueError(f"{'Node type' if self.type in _BUILTIN else 'Type'} mismatch; expected {self.type!r}, "
                             f"but got {kind!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        if dicts:
            children = self._in_order(tree)
        elif context != self.context and kind is not deque:
            what = f"node type {kind!r}; expected {self.context!r}, but got {context!r}" if kind in _BUILTIN else \
                f"custom node type {kind!r}"
            raise ValueError(f"Node context mismatch for {what}.")
        for spec, child in zip(self.children_specs, children):
            spec._collect(child, out)

    def _in_order(self, items):
        """The values of a dict in the order of this spec's keys."""
        wanted = self.context[1] if self.type is defaultdict else self.context
        missing, extra = set(wanted) - set(items), set(items) - set(wanted)
        if missing or extra:
            raise ValueError("Node keys mismatch" + (f"; missing key(s): {missing}" if missing else "") +
                             (f"; extra key(s): {extra}" if extra else "") + ".")
        return [items[key] for key in wanted]


class LeafSpec(TreeSpec):
    """The spec of one leaf."""

    __slots__ = ()

    def __init__(self):
        super().__init__(None, None, [])


_LEAF = LeafSpec()
PyTreeSpec = TreeSpec


def _flatten(tree, leaves, is_leaf):
    kind = None if is_leaf is not None and is_leaf(tree) else _node_type(tree)
    if kind is None:
        leaves.append(tree)
        return _LEAF
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(c, leaves, is_leaf) for c in children])


def tree_flatten(tree, is_leaf=None):
    """Returns (leaves, spec); `is_leaf(part)` makes a part a leaf."""
    leaves = []
    spec = _flatten(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves, treespec):
    """Returns the tree with these leaves and spec; the inverse of tree_flatten.

    Example::

        >>> leaves, spec = torch.utils._pytree.tree_flatten({"a": 1, "b": (2, 3)})
        >>> torch.utils._pytree.tree_unflatten([x * 10 for x in leaves], spec)
        {'a': 10, 'b': (20, 30)}
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError("tree_unflatten(leaves, treespec): Expected `treespec` to be instance of "
                        f"TreeSpec but got item of type {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_leaves(tree, is_leaf=None):
    """The leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def arg_tree_leaves(*args, **kwargs):
    """The leaves of all arguments, in order."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_leaves(tree)]


def tree_iter(tree, is_leaf=None):
    """Iterates over the leaves."""
    yield from tree_leaves(tree, is_leaf)


def tree_structure(tree, is_leaf=None):
    """Returns the spec."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func, tree, *rests, is_leaf=None):
    """Returns the tree with func(leaf, ...) instead of every leaf."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *(spec.flatten_up_to(r) for r in rests)))


def tree_map_(func, tree, *rests, is_leaf=None):
    """Calls func on every leaf.  Returns the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _only(kind, func, other):
    test = kind if callable(kind) and not isinstance(kind, type) else (
        lambda x: isinstance(x, kind))
    return lambda x: func(x) if test(x) else other(x)


def tree_map_only(type_or_pred, func, tree, is_leaf=None):
    """tree_map for leaves of one class, or for which a predicate holds."""
    return tree_map(_only(type_or_pred, func, lambda x: x), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_pred, func, tree, is_leaf=None):
    """tree_map_ for leaves of one class, or for which a predicate holds."""
    return tree_map_(_only(type_or_pred, func, lambda x: x), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    """Returns whether pred holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    """Returns whether pred holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_pred, pred, tree, is_leaf=None):
    """Returns whether pred holds for all leaves of one class."""
    return tree_all(_only(type_or_pred, pred, lambda x: True), tree, is_leaf)


def tree_any_only(type_or_pred, pred, tree, is_leaf=None):
    """Returns whether pred holds for some leaf of one class."""
    return tree_any(_only(type_or_pred, pred, lambda x: False), tree, is_leaf)


def _paths(tree, path, is_leaf):
    kind = None if is_leaf is not None and is_leaf(tree) else _node_type(tree)
    if kind is None:
        yield path, tree
        return
    node = SUPPORTED_NODES[kind]
    if node.flatten_with_keys_fn is None:
        raise ValueError("Did not find a flatten_with_keys_fn for type: "
                         f"{kind}. Please pass a flatten_with_keys_fn argument to "
                         "register_pytree_node.")
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _paths(child, (*path, key), is_leaf)


def tree_flatten_with_path(tree, is_leaf=None):
    """([(path, leaf), ...], spec)."""
    return list(_paths(tree, (), is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    """[(path, leaf), ...]."""
    return list(_paths(tree, (), is_leaf))


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """Returns the tree with func(path, leaf, ...) instead of every leaf."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return spec.unflatten(func(*pair, *rest) for pair, *rest in zip(pairs, *others))


# --- specs as text ---

def treespec_dumps(treespec, protocol=None):
    """Returns a spec as JSON."""
    from ._pytree_text import dumps
    return dumps(treespec, protocol)


def treespec_loads(serialized):
    """Returns the spec of a text that treespec_dumps made."""
    from ._pytree_text import loads
    return loads(serialized)


def treespec_pprint(treespec):
    """Returns the tree of a spec as text, with an asterisk for each leaf."""
    from ._pytree_text import Asterisk
    return repr(tree_unflatten([Asterisk()] * treespec.num_leaves, treespec))


def _register_namedtuple(cls, *, serialized_type_name):
    """Gives a class that namedtuple made a name in texts of specs."""
    from ._pytree_text import NAMEDTUPLES
    NAMEDTUPLES[cls] = serialized_type_name
