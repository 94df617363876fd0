"""Compiled functions that ask whether two objects are one: by `is`, by a comparison without __eq__ and in lookups.
Each is called with objects apart, until it is recorded, and then with one object twice."""
import collections
import functools
import operator

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
