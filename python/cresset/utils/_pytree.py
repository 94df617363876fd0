"""Nested containers as a list of leaves and a spec of the nesting.

Tuples, lists, dicts, named tuples, ordered and default dicts and deques are containers.
Programs register further classes.  All other objects are leaves.
"""
# Creating a namedtuple class takes 0.1 ms, so this module creates none.
from collections import OrderedDict, defaultdict, deque, namedtuple

__all__ = ["PyTree", "TreeSpec", "LeafSpec", "register_pytree_node", "tree_flatten",
           "tree_unflatten", "tree_leaves", "tree_structure", "tree_iter", "tree_map",
           "tree_map_", "tree_map_only", "tree_map_only_", "tree_any", "tree_all",
           "tree_any_only", "tree_all_only", "tree_flatten_with_path", "tree_map_with_path",
           "keystr", "SequenceKey", "MappingKey", "GetAttrKey"]

PyTree = object


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
    """A class of containers: obj -> (children, context), the inverse, and the keys of the
    children."""

    __slots__ = ("type", "flatten_fn", "unflatten_fn", "keys_fn")

    def __init__(self, type, flatten_fn, unflatten_fn, keys_fn):
        self.type, self.flatten_fn, self.unflatten_fn, self.keys_fn = type, flatten_fn, unflatten_fn, keys_fn


def keystr(path):
    """Returns a path of keys as Python text."""
    return "".join(map(str, path))


def _sequence_keys(tree):
    return [SequenceKey(i) for i in range(len(tree))]


def _mapping_keys(tree):
    return [MappingKey(key) for key in tree]


def _flatten_mapping(tree):
    return list(tree.values()), list(tree)


SUPPORTED_NODES = {}


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None,
                         to_dumpable_context=None, from_dumpable_context=None,
                         flatten_with_keys_fn=None):
    """Makes `cls` a container: flatten_fn(obj) -> (children, context), and its inverse."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    keys_fn = None
    if flatten_with_keys_fn is not None:
        keys_fn = lambda tree: [key for key, _ in flatten_with_keys_fn(tree)[0]]
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, keys_fn)


def _add(cls, flatten, unflatten, keys):
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten, unflatten, keys)


_add(tuple, lambda t: (list(t), None), lambda c, _: tuple(c), _sequence_keys)
_add(list, lambda t: (t, None), lambda c, _: list(c), _sequence_keys)
_add(dict, _flatten_mapping, lambda c, keys: dict(zip(keys, c)), _mapping_keys)
_add(OrderedDict, _flatten_mapping, lambda c, keys: OrderedDict(zip(keys, c)), _mapping_keys)
_add(defaultdict, lambda t: (list(t.values()), [t.default_factory, list(t)]),
     lambda c, context: defaultdict(context[0], zip(context[1], c)), _mapping_keys)
_add(deque, lambda t: (list(t), t.maxlen), lambda c, maxlen: deque(c, maxlen=maxlen),
     _sequence_keys)
_add(namedtuple, lambda t: (list(t), type(t)), lambda c, cls: cls(*c),
     lambda t: [GetAttrKey(name) for name in t._fields])


def _node_type(tree):
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return cls
    if cls.__bases__ == (tuple,) and hasattr(cls, "_fields"):
        return namedtuple
    if cls.__bases__ == (tuple,) and hasattr(cls, "n_sequence_fields"):  # torch.return_types
        _add(cls, lambda t: (list(t), None), lambda children, _: cls(children), _sequence_keys)
        return cls
    return None


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

    def __repr__(self):
        if self.type is None:
            return "*"
        children = ", ".join(map(repr, self.children_specs))
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
        if _node_type(tree) is not self.type:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, context = SUPPORTED_NODES[self.type].flatten_fn(tree)
        if self.type in (dict, OrderedDict) and context != self.context:
            if set(context) != set(self.context):
                raise ValueError(f"Node keys mismatch; expected {self.context}, got {context}.")
            children = [tree[key] for key in self.context]
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got "
                             f"{len(children)}.")
        for spec, child in zip(self.children_specs, children):
            spec._collect(child, out)


class LeafSpec(TreeSpec):
    """The spec of one leaf."""

    __slots__ = ()

    def __init__(self):
        super().__init__(None, None, [])


_LEAF = LeafSpec()


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
    """Returns the tree with these leaves and spec; the inverse of tree_flatten."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError("tree_unflatten(leaves, treespec): Expected `treespec` to be instance of "
                        f"TreeSpec but got item of type {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_leaves(tree, is_leaf=None):
    """The leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


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
    if node.keys_fn is None:
        raise ValueError("Did not find a flatten_with_keys_fn for type: "
                         f"{kind}. Please pass a flatten_with_keys_fn argument to "
                         "register_pytree_node.")
    for key, child in zip(node.keys_fn(tree), node.flatten_fn(tree)[0]):
        yield from _paths(child, (*path, key), is_leaf)


def tree_flatten_with_path(tree, is_leaf=None):
    """([(path, leaf), ...], spec)."""
    return list(_paths(tree, (), is_leaf)), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """Returns the tree with func(path, leaf, ...) instead of every leaf."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return spec.unflatten(func(*pair, *rest) for pair, *rest in zip(pairs, *others))
