"""Compiled functions that ask whether two objects are one: by `is`, by comparisons, in lookups and in containers.
Each is called with objects apart, until it is recorded, and then with one object twice."""
import collections
import copy
import dataclasses
import functools
import gc
import itertools
import operator
import types
import weakref

import pytest

import cresset as torch


class Plain:
    value = 2.


KINDS = {"tensor": lambda: torch.ones(2), "list": lambda: [1.], "dict": lambda: {"a": 1.}, "object": Plain, "set": lambda: {1.},
         "module": lambda: torch.nn.Linear(2, 2), "function": lambda: lambda x: x, "tuple": lambda: tuple([1., 2.]),
         "partial": lambda: functools.partial(max, 1), "deque": lambda: collections.deque([1.])}
TESTS = {"is": lambda a, b: a is b, "is not": lambda a, b: a is not b, "any": lambda a, b: any(a is x for x in [b, None]),
         "id": lambda a, b: id(a) == id(b), "operator": lambda a, b: operator.is_(a, b)}
LOOKUPS = {"==": lambda a, b: a == b, "in list": lambda a, b: a in [b], "in dict": lambda a, b: a in {b: 1},
           "get": lambda a, b: {b: 1}.get(a) is not None, "index": lambda a, b: [b, a].index(a) == 0,
           "count": lambda a, b: [b].count(a) > 0, "in set": lambda a, b: a in {b}}


@dataclasses.dataclass
class Data:
    value: object


class Iterable:
    def __init__(self, *values):
        self.values = values

    def __iter__(self):
        return iter(self.values)


class Indexed:
    def __init__(self, *values):
        self.values = values

    def __getitem__(self, i):
        return self.values[i]


class Holding(Iterable):
    def __contains__(self, x):
        return x in self.values


class ByObject:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x is other.x

    def __hash__(self):
        return 1


Pair = collections.namedtuple("Pair", "first second")
HOLDERS = {
    "deque": lambda *v: collections.deque(v), "UserList": lambda *v: collections.UserList(v), "set": lambda *v: {*v},
    "UserDict": lambda *v: collections.UserDict(dict.fromkeys(v)),
    "ChainMap": lambda *v: collections.ChainMap(*({x: 1} for x in v)),
    "values": lambda *v: dict(enumerate(v)).values(), "keys": lambda *v: dict.fromkeys(v).keys(),
    "frozenset": lambda *v: frozenset(v),
    "proxy": lambda *v: types.MappingProxyType(dict.fromkeys(v)), "OrderedDict": lambda *v: collections.OrderedDict.fromkeys(v),
    "Counter": lambda *v: collections.Counter(v), "iterable": Iterable, "indexed": Indexed, "holding": Holding,
    "list": lambda *v: [*v], "dict": lambda *v: dict.fromkeys(v), "WeakSet": lambda *v: weakref.WeakSet(v)}
ANSWERS = {
    "lists": lambda a, b: [a] == [b], "tuples": lambda a, b: (1, a) == (1, b), "values": lambda a, b: {1: a} == {1: b},
    "keys": lambda a, b: {a: 1} == {b: 1}, "sets": lambda a, b: {a} == {b}, "dataclass": lambda a, b: Data(a) == Data(b),
    "namedtuple": lambda a, b: Pair(a, 1) == Pair(b, 1), "nested": lambda a, b: [[a], {1: (a,)}] == [[b], {1: (b,)}],
    "__eq__": lambda a, b: ByObject(a) == ByObject(b), "__eq__ in list": lambda a, b: ByObject(a) in [ByObject(b)],
    "__eq__ in dict": lambda a, b: {ByObject(a): 2}.get(ByObject(b), 3), "subset": lambda a, b: {a} <= {b},
    "difference": lambda a, b: len({a} - {b}), "intersection": lambda a, b: len({a} & {b}),
    "items of a set": lambda a, b: len({a, b}),
    "set()": lambda a, b: len(set([a, b])), "items of a dict": lambda a, b: len({a: 1, b: 2}),
    "fromkeys": lambda a, b: len(dict.fromkeys([a, b])),
    "contains()": lambda a, b: operator.contains([b], a), "eq()": lambda a, b: operator.eq(a, b),
    "map": lambda a, b: any(map(functools.partial(operator.is_, a), [b])),
    "indexOf": lambda a, b: operator.indexOf([b, a], a), "Counter": lambda a, b: len(collections.Counter([a, b])),
    "|": lambda a, b: len({a: 0} | {b: 0}),
    "isdisjoint": lambda a, b: {a}.isdisjoint({b}), "issubset": lambda a, b: {a}.issubset([b]),
    "**": lambda a, b: len({**{a: 1}, **{b: 1}}),
    "setdefault": lambda a, b: {a: 3}.setdefault(b, 5), "copy": lambda a, b: copy.copy({a: 2}).get(b, 9),
    "!=": lambda a, b: a != b,
    "lists !=": lambda a, b: [a] != [b], "slices": lambda a, b: slice(a, 1) == slice(b, 1),
    "methods": lambda a, b: a.__init__ == b.__init__,
    "partial": lambda a, b: functools.partial(max, a).args == functools.partial(max, b).args,
    "groupby": lambda a, b: len(list(itertools.groupby([a, b]))),
    "OrderedDict": lambda a, b: collections.OrderedDict({1: a}) == collections.OrderedDict({1: b}),
    "filter": lambda a, b: len(list(filter(lambda x: x is not a, [a, b])))}


def calls(f, make):
    """Results for objects apart and for one object, mixed."""
    a, b, c = make(), make(), make()
    return [f(torch.zeros(1), *pair).item() for pair in ((a, b), (a, c), (b, c), (a, a), (b, b), (a, b), (c, c), (c, a))]


def cases():
    for kind, make in KINDS.items():
        for name, test in TESTS.items():
            yield pytest.param(make, test, id=f"{kind}-{name}")
        for name, test in LOOKUPS.items():
            if kind in ("object", "module", "function", "tensor") and (kind, name) != ("tensor", "=="):
                if kind != "tensor" or name in ("in dict", "get", "in set"):
                    yield pytest.param(make, test, id=f"{kind}-{name}")


@pytest.mark.parametrize("make, test", list(cases()))
def test_one_object_or_two(make, test):
    def f(x, a, b):
        return x + (1 if test(a, b) else 2)
    compiled = torch.compile(f)
    assert calls(compiled, make) == calls(f, make)


def kinds_of_one_class():
    return pytest.mark.parametrize("make", [Plain, lambda: torch.nn.Linear(2, 2)], ids=["object", "module"])


@kinds_of_one_class()
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
def test_answers(make, answer):
    def f(x, a, b):
        return x + answer(a, b)
    compiled = torch.compile(f)
    assert calls(compiled, make) == calls(f, make)


@kinds_of_one_class()
@pytest.mark.parametrize("hold", HOLDERS.values(), ids=list(HOLDERS))
@pytest.mark.parametrize("when", ["before", "during", "from arguments"])
def test_containers(make, hold, when):
    a, b, c = make(), make(), make()
    held = hold(a, b)

    def f(x, m, n):
        return x + (2 if m in (held if when == "before" else hold(a, b) if when == "during" else hold(n, b)) else 5)
    arguments = [(torch.zeros(1), m, n) for m, n in ((a, a), (b, a), (c, a), (a, c), (c, c), (b, c)) for _ in range(3)] * 2
    assert sequence(torch.compile(f), *arguments) == sequence(f, *arguments)


@pytest.mark.parametrize("twice, places", [
    (lambda x: {"a": x, "b": x}, lambda out: (out["a"], out["b"])), (lambda x: (x, [x]), lambda out: (out[0], out[1][0])),
    (lambda x: [{1: x}, x], lambda out: (out[0][1], out[1]))])
def test_a_result_with_one_list_in_two_places(twice, places):
    f = torch.compile(lambda x: twice([x + 1]))
    for _ in range(4):
        first, second = places(f(torch.ones(1)))
        assert first is second and first[0].tolist() == [2.]


class Activated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.act = torch.nn.Linear(3, 3), functools.partial(torch.nn.functional.gelu, approximate="tanh")

    def forward(self, x):
        return self.act(self.linear(x))


def test_modules_of_one_class_share_a_recording():
    f = torch.compile(lambda m, x: m(x).relu())
    x, modules = torch.randn(2, 3), [Activated() for _ in range(6)]
    made = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for m in modules * 2:
        assert torch.equal(f(m, x), m(x).relu())
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == made + 1
    modules[0].act.keywords["approximate"] = "none"
    assert torch.equal(f(modules[0], x), modules[0](x).relu()) and torch.equal(f(modules[1], x), modules[1](x).relu())
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == made + 2


def test_a_recording_does_not_keep_a_module():
    f, x, m = torch.compile(lambda m, x: m(x).relu()), torch.randn(2, 3), torch.nn.Linear(3, 3)
    for _ in range(4):
        f(m, x)
    gone = weakref.ref(m)
    del m
    gc.collect()
    assert gone() is None


def sequence(f, *arguments):
    return [f(*x).tolist() for x in arguments]


def test_a_tensor_and_an_attribute():
    held, t = Plain(), torch.ones(2)
    held.value = torch.ones(2)
    f = torch.compile(lambda x: x + (1 if x is held.value else 2))
    assert sequence(f, (t,), (t,), (held.value,), (t,)) == [[3., 3.], [3., 3.], [2., 2.], [3., 3.]]
    held.value = t
    assert sequence(f, (t,)) == [[2., 2.]]


def test_parameters_that_are_tied_later():
    m = torch.nn.Module()
    m.a = torch.nn.Parameter(torch.ones(2))
    m.b = torch.nn.Parameter(torch.ones(2))
    f = torch.compile(lambda x: x * (3 if m.a is m.b else 4))
    x = torch.ones(2)
    assert sequence(f, (x,), (x,)) == [[4., 4.]] * 2
    m.b = m.a
    assert sequence(f, (x,), (x,)) == [[3., 3.]] * 2


def test_values_by_tensor():
    t, u = torch.ones(2), torch.ones(2)
    values = {t: 5.}
    f = torch.compile(lambda x: x * values.get(x, 1.))
    assert sequence(f, (u,), (u,), (t,), (u,), (t,)) == [[1., 1.], [1., 1.], [5., 5.], [1., 1.], [5., 5.]]
    values[u] = 7.
    assert sequence(f, (u,), (t,), (u,)) == [[7., 7.], [5., 5.], [7., 7.]]


def test_such_calls_are_recorded():
    made = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    f = torch.compile(lambda x, y: x + (1 if x is y else 2))
    t, u = torch.ones(2), torch.ones(2)
    assert sequence(f, *[(t, u)] * 4, *[(t, t)] * 4) == [[3., 3.]] * 4 + [[2., 2.]] * 4
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == made + 2
