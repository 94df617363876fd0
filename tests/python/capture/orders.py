"""Orders of dicts and sets."""
import collections

import cresset as torch
from cresset import nn

from .harness import program

FAMILY = "dict orders"
options = {}


def chain(x, values):
    for v in values:
        x = x * 2 + v
    return x


@program(FAMILY)
def values_of_an_argument(compile):
    f = compile(lambda x, d: chain(x, d.values()))
    for d in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 2}):
        yield f(torch.ones(2), d)


@program(FAMILY)
def items_of_a_global(compile):
    @compile
    def f(x):
        return chain(x, (len(k) * v for k, v in options.items()))
    for pairs in ((("a", 1), ("bb", 2)), (("bb", 2), ("a", 1))):
        options.clear()
        options.update(pairs)
        yield f(torch.ones(2))


@program(FAMILY)
def the_first_key(compile):
    f = compile(lambda x, d: x + d[next(iter(d))])
    for d in ({"a": 1, "b": 2}, {"b": 2, "a": 1}):
        yield f(torch.ones(2), d)


@program(FAMILY)
def tensors_in_another_order(compile):
    f = compile(lambda d: chain(torch.zeros(2), d.values()))
    a, b = torch.ones(2), torch.full((2,), 3.)
    for d in ({"a": a, "b": b}, {"b": b, "a": a}, {"a": b, "b": a}):
        yield f(d)


@program(FAMILY)
def an_ordered_dict_is_moved(compile):
    d = collections.OrderedDict(a=1, b=2, c=3)
    f = compile(lambda x: chain(x, d.values()))
    yield f(torch.ones(2))
    d.move_to_end("a")
    yield f(torch.ones(2))
    d.move_to_end("b", last=False)
    yield f(torch.ones(2)), list(d)


@program(FAMILY)
def layers_in_another_order(compile):
    torch.manual_seed(0)
    m = nn.Sequential(collections.OrderedDict(a=nn.Linear(2, 2), b=nn.Tanh(), c=nn.Linear(2, 2)))
    f = compile(m)
    x = torch.ones(1, 2)
    yield f(x), f(x)
    m._modules["a"] = m._modules.pop("a")
    yield f(x), f(x)


@program(FAMILY)
def a_keyword_dict_in_another_order(compile):
    f = compile(lambda x, **kw: chain(x, kw.values()))
    x = torch.ones(2)
    yield f(x, a=1, b=2), f(x, b=2, a=1), f(x, a=1, b=2)


@program(FAMILY)
def a_dict_is_reversed(compile):
    f = compile(lambda x, d: chain(x, reversed(d.values())))
    for d in ({"a": 1, "b": 2}, {"b": 2, "a": 1}):
        yield f(torch.ones(2), d)


@program(FAMILY)
def a_key_is_deleted_and_set_again(compile):
    d = {"a": 1, "b": 2}
    f = compile(lambda x: chain(x, d.values()))
    yield f(torch.ones(2))
    d["a"] = d.pop("a")
    yield f(torch.ones(2))


@program(FAMILY)
def attributes_in_another_order(compile):
    class Box:
        pass

    def box(*names):
        b = Box()
        for name in names:
            setattr(b, name, len(name))
        return b
    f = compile(lambda x, b: chain(x, vars(b).values()))
    for b in (box("a", "bb"), box("bb", "a")):
        yield f(torch.ones(2), b)


@program(FAMILY)
def a_set_of_numbers(compile):
    f = compile(lambda x, s: chain(x, s))
    for s in ({8, 0}, {0, 8}, {8, 0}):
        yield f(torch.ones(2), s)


@program(FAMILY)
def a_dict_of_dicts(compile):
    f = compile(lambda x, d: chain(x, (v for inner in d.values() for v in inner.values())))
    for d in ({"p": {"a": 1, "b": 2}}, {"p": {"b": 2, "a": 1}}):
        yield f(torch.ones(2), d)


@program(FAMILY)
def popitem_takes_the_last(compile):
    @compile
    def f(x, d):
        k, v = d.popitem()
        return x * v + len(k)
    for d in ({"a": 1, "bb": 2}, {"bb": 2, "a": 1}):
        yield f(torch.ones(2), d), d


@program(FAMILY)
def equal_keys_of_other_types(compile):
    f = compile(lambda x, d: x + (10 if type(next(iter(d))) is bool else 20))
    for d in ({1: 2}, {True: 2}, {1.0: 2}, {1: 2}):
        yield f(torch.ones(2), d)
