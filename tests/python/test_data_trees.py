"""Flattening and rebuilding of nested containers."""
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest
from cresset.utils import _pytree as trees

Point = namedtuple("Point", "x y")
TREE = {"a": [1, (2, None)], "b": Point(3, deque([4], maxlen=2)), "c": OrderedDict(z=5),
        "d": defaultdict(list, q=6), "e": "text"}


def test_a_flattened_tree_is_rebuilt():
    leaves, spec = trees.tree_flatten(TREE)
    assert leaves == [1, 2, None, 3, 4, 5, 6, "text"] and spec.num_leaves == 8
    again = trees.tree_unflatten(leaves, spec)
    assert again == TREE and [type(v) for v in again.values()] == [type(v) for v in TREE.values()]
    assert again["b"].y.maxlen == 2 and again["d"].default_factory is list
    assert trees.tree_structure(again) == spec and hash(trees.tree_structure(again)) == hash(spec)
    assert repr(trees.tree_structure((1, [2]))) == "TreeSpec(tuple, None, [*, TreeSpec(list, None, [*])])"


def test_tree_map_maps_every_leaf():
    assert trees.tree_map(lambda x, y: x + y, [1, (2,)], [10, (20,)]) == [11, (22,)]
    assert trees.tree_map(lambda x, y: x * y, {"a": 1, "b": 2}, {"b": 3, "a": 5}) == {
        "a": 5, "b": 6}
    assert trees.tree_map_only(int, lambda x: -x, [1, "a", 2.0]) == [-1, "a", 2.0]
    assert trees.tree_map(str, [(1, 2), 3], is_leaf=lambda x: isinstance(x, tuple)) == [
        "(1, 2)", "3"]
    assert trees.tree_any(bool, [0, (0, 1)]) and not trees.tree_all(bool, [0, 1])
    assert trees.tree_all_only(int, bool, ["", 1]) and not trees.tree_any_only(int, bool, ["a", 0])


def test_paths_of_leaves():
    pairs, _ = trees.tree_flatten_with_path({"a": [1, Point(2, 3)]})
    assert [(trees.keystr(path), leaf) for path, leaf in pairs] == [
        ("['a'][0]", 1), ("['a'][1].x", 2), ("['a'][1].y", 3)]
    assert trees.tree_map_with_path(lambda path, x: (len(path), x), [1, [2]]) == [
        (1, 1), [(2, 2)]]


def test_a_container_class_is_registered_once():
    class Box:
        def __init__(self, value):
            self.value = value

    def register():
        trees.register_pytree_node(Box, lambda b: ([b.value], None), lambda c, _: Box(*c))

    register()
    assert trees.tree_map(lambda x: x + 1, [Box(1)])[0].value == 2
    with pytest.raises(ValueError, match="is already registered as pytree node"):
        register()


def test_wrong_trees_are_refused():
    with pytest.raises(ValueError, match="has length 1 but the spec refers to a pytree that"):
        trees.tree_unflatten([1], trees.tree_structure([1, 2]))
    with pytest.raises(ValueError, match="Type mismatch; expected <class 'list'>"):
        trees.tree_map(lambda a, b: a, [1], (1,))
    with pytest.raises(ValueError, match="Node arity mismatch; expected 1, but got 2."):
        trees.tree_map(lambda a, b: a, [1], [1, 2])
