"""Flattening by a spec, which generated code calls for nested arguments."""
from collections import namedtuple

from ..utils import _pytree as pytree

SUPPORTED_NODES = {}
SUPPORTED_NODES_EXACT_MATCH = {}


def _sequence_parts(tree, spec):
    return [tree[i] for i in range(spec.num_children)]


def _dict_parts(tree, spec):
    return [tree[key] for key in spec.context]


def _as_long(tree, spec):
    return len(tree) == spec.num_children


def register_pytree_flatten_spec(cls, flatten_fn_spec, flatten_fn_exact_match_spec=None):
    """Registers flatten_fn_spec(obj, spec), which flattens objects of `cls`."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


register_pytree_flatten_spec(dict, _dict_parts, _as_long)
for _cls in (list, tuple, namedtuple):
    register_pytree_flatten_spec(_cls, _sequence_parts, _as_long)


def tree_flatten_spec(tree, spec):
    """Returns the parts of `tree` at the leaves of `spec`.  A container may have more items."""
    if spec.is_leaf():
        return [tree]
    if spec.type in SUPPORTED_NODES:
        parts = SUPPORTED_NODES[spec.type](tree, spec)
        return [leaf for part, below in zip(parts, spec.children())
                for leaf in tree_flatten_spec(part, below)]
    leaves, real_spec = pytree.tree_flatten(tree)
    if spec != real_spec:
        raise RuntimeError(f"Real spec {real_spec} of object {tree} is different from expected "
                           f"spec {spec}. ")
    return leaves
