"""Flattening and rebuilding of nested containers."""
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass

import pytest
import versions
from cresset.overrides import TorchFunctionMode
from cresset.utils import _pytree as trees

import cresset as torch

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
    assert repr(trees.tree_structure((1, [2]))) == "TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*])])"


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
    with pytest.raises(ValueError, match="Node type mismatch; expected <class 'list'>"):
        trees.tree_map(lambda a, b: a, [1], (1,))
    with pytest.raises(ValueError, match="Node arity mismatch; expected 1, but got 2."):
        trees.tree_map(lambda a, b: a, [1], [1, 2])


@pytest.mark.parametrize("first", [dict, OrderedDict, lambda x: defaultdict(int, x)])
@pytest.mark.parametrize("second", [dict, OrderedDict, lambda x: defaultdict(str, x)])
def test_dicts_of_all_kinds_match_by_their_keys(first, second):
    a, b = first({"x": 1, "y": 2}), second({"y": 10, "x": 20})
    out = trees.tree_map(lambda u, v: (u, v), a, b)
    assert type(out) is type(a) and out == {"x": (1, 20), "y": (2, 10)}
    with pytest.raises(ValueError, match=r"Node keys mismatch; missing key\(s\): {'y'}; extra key\(s\): {'z'}\.$"):
        trees.tree_map(lambda u, v: u, a, second({"x": 1, "z": 2}))
    with pytest.raises(ValueError, match="Node arity mismatch; expected 2, but got 1."):
        trees.tree_map(lambda u, v: u, a, second({"x": 1}))


def test_other_nodes_match_by_type_and_context():
    left, right = namedtuple("P", "x"), namedtuple("Q", "x")
    assert trees.tree_map(lambda u, v: u + v, deque([1]), deque([2], 5)) == deque([3])
    with pytest.raises(ValueError, match="Node context mismatch for node type <function namedtuple.*; expected .*P'>, but got .*Q'>"):
        trees.tree_map(lambda u, v: u, left(1), right(1))
    with pytest.raises(ValueError, match="Node type mismatch; expected <class 'dict'>, but got <class 'int'>"):
        trees.tree_map(lambda u, v: u, {"a": 1}, 3)


# --- names that libraries use, and specs as text ---

Pair = namedtuple("Pair", "first second")


def test_specs_are_the_text_that_torch_writes():
    tree = {"a": [1, (2, 3)], "b": OrderedDict(x=1), "c": deque([1], maxlen=3),
            "d": defaultdict(list, {"q": 1})}
    spec = trees.tree_structure(tree)
    leaf = '{"type": null, "context": null, "children_spec": []}'
    text = trees.treespec_dumps(spec)
    assert text == (
        '[1, {"type": "builtins.dict", "context": "[\\"a\\", \\"b\\", \\"c\\", \\"d\\"]", '
        '"children_spec": [{"type": "builtins.list", "context": "null", "children_spec": ['
        f'{leaf}, {{"type": "builtins.tuple", "context": "null", "children_spec": [{leaf}, {leaf}]'
        '}]}, {"type": "collections.OrderedDict", "context": "[\\"x\\"]", "children_spec": ['
        f'{leaf}]}}, {{"type": "collections.deque", "context": "3", "children_spec": [{leaf}]}}, '
        '{"type": "collections.defaultdict", "context": {"default_factory_module": "builtins", '
        '"default_factory_name": "list", "dict_context": ["q"]}, "children_spec": ['
        f'{leaf}]}}]}}]')
    assert trees.treespec_loads(text) == spec
    assert versions.ordered_dicts(trees.treespec_pprint(spec)) == (
        "{'a': [*, (*, *)], 'b': OrderedDict([('x', *)]), 'c': deque([*], maxlen=3), "
        "'d': defaultdict(<class 'list'>, {'q': *})}")


def test_named_tuples_need_a_name_in_text():
    spec = trees.tree_structure(Pair(1, [2]))
    with pytest.raises(NotImplementedError, match="namedtuple class .*Pair"):
        trees.treespec_dumps(spec)
    trees._register_namedtuple(Pair, serialized_type_name="here.Pair")
    text = trees.treespec_dumps(spec)
    assert '"collections.namedtuple", "context": "here.Pair"' in text
    assert trees.treespec_loads(text) == spec


@pytest.mark.parametrize("call, kind, message", [
    (lambda: trees.treespec_dumps(3), TypeError, "Expected `treespec` to be an instance"),
    (lambda: trees.treespec_dumps(trees.tree_structure(1), 9), ValueError, "Unknown protocol 9"),
    (lambda: trees.treespec_loads('[7, {}]'), ValueError, "Unknown protocol 7"),
    (lambda: trees.treespec_loads('[1, {"type": "q.w", "context": "null", "children_spec": []}]'),
     NotImplementedError, "Deserializing q.w"),
    (lambda: trees.treespec_dumps(trees.tree_structure({Pair: 1})), TypeError,
     "Unable to serialize context")])
def test_refused_texts(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_dataclasses_become_containers():
    @dataclass
    class Point:
        x: object
        y: object = None

    trees.register_dataclass(Point)
    leaves, spec = trees.tree_flatten(Point([1, 2], 3))
    assert leaves == [1, 2, 3] and spec.unflatten([4, 5, 6]) == Point([4, 5], 6)
    assert [(trees.keystr(path), x) for path, x in trees.tree_leaves_with_path(Point([7]))] == [
        (".x[0]", 7)]
    trees._deregister_pytree_node(Point)
    assert trees.tree_is_leaf(Point(1))


def test_parts_of_containers():
    assert trees._dict_flatten_with_keys({"a": 1}) == ([(trees.MappingKey("a"), 1)], ["a"])
    assert trees._dict_unflatten(*trees._dict_flatten({"a": 1})) == {"a": 1}
    assert trees.key_get([1, {"a": 5}], (trees.SequenceKey(1), trees.MappingKey("a"))) == 5
    assert trees.arg_tree_leaves(1, [2], a=(3,)) == [1, 2, 3]
    results = torch.ones(2).max(0)
    assert trees.is_structseq(results) and not trees.is_namedtuple(results)
    assert trees.is_namedtuple(Pair) and trees.is_namedtuple_instance(Pair(1, 2))
    assert trees._get_node_type(Pair(1, 2)) is namedtuple and trees._get_node_type(3) is int
    with pytest.warns(FutureWarning, match="register_pytree_node"):
        trees._register_pytree_node(Other, lambda x: ([x.value], None), lambda c, _: Other(*c))
    assert trees.tree_map(lambda x: x + 1, Other(1)).value == 2
    trees._deregister_pytree_node(Other)


class Other:
    def __init__(self, value):
        self.value = value


def test_indexing_by_tensors_becomes_an_operator():
    from cresset._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
    x, seen = torch.arange(6).view(2, 3), []

    class Seen(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Seen(), TransformGetItemToIndex():
        assert x[torch.tensor(1), torch.tensor(2)].item() == 5 and x[1].tolist() == [3, 4, 5]
    assert seen.count(torch.Tensor.__getitem__) == 1 and torch.ops.aten.index in seen
