"""State that a program reads indirectly, without naming the object that holds it."""
import abc
import contextvars
import datetime as calendar
import functools
import operator
import random
import weakref
from datetime import datetime
from random import random as draw
from time import perf_counter

import cresset as torch

from .harness import program

FAMILY = "process state"
scale = contextvars.ContextVar("scale", default=1)


@program(FAMILY)
def a_context_variable(compile):
    f = compile(lambda x: x * scale.get())
    for k in (1, 2, 1):
        token = scale.set(k)
        yield f(torch.ones(2))
        scale.reset(token)


@program(FAMILY)
def a_weak_reference_dies(compile):
    class Box:
        pass
    b = Box()
    r = weakref.ref(b)
    f = compile(lambda x: x + 1 if r() is None else x - 1)
    yield f(torch.ones(2)), f(torch.ones(2))
    del b
    yield f(torch.ones(2))


@program(FAMILY)
def a_clock_that_is_imported_by_name(compile):
    f = compile(lambda x: x * 0 + perf_counter())
    a, b, c = (f(torch.zeros(1, dtype=torch.float64)) for _ in range(3))
    yield bool(a < b), bool(b < c)


@program(FAMILY)
def the_time_of_day(compile):
    f = compile(lambda x: x * 0 + datetime.now().microsecond + datetime.now().second * 1e6)
    results = {float(f(torch.zeros(1, dtype=torch.float64))) for _ in range(5)}
    yield len(results) > 1


@program(FAMILY)
def the_time_by_a_module(compile):
    f = compile(lambda x: x * 0 + calendar.datetime.now().microsecond)
    yield len({float(f(torch.zeros(1))) for _ in range(5)}) > 1


@program(FAMILY)
def random_numbers_that_are_imported_by_name(compile):
    f = compile(lambda x: x * draw())
    random.seed(3)
    for _ in range(4):
        yield f(torch.ones(2))


@program(FAMILY)
def random_numbers_of_an_object(compile):
    source = random.Random(5)
    f = compile(lambda x: x * source.random())
    for _ in range(4):
        yield f(torch.ones(2))


@program("special methods")
def an_attribute_getter(compile):
    class Box:
        k = 1
    b, get = Box(), operator.attrgetter("k")
    f = compile(lambda x: x * get(b))
    for k in (1, 2, 1):
        Box.k = k
        yield f(torch.ones(2))


@program("special methods")
def an_attribute_by_a_computed_name(compile):
    class Box:
        k1 = 1
    b = Box()
    f = compile(lambda x, n: x * getattr(b, f"k{n}"))
    for k in (1, 2, 1):
        Box.k1 = k
        yield f(torch.ones(2), 1)


@program("class writes")
def a_dispatch_that_is_registered_later(compile):
    @functools.singledispatch
    def weight(o):
        return 1
    f = compile(lambda x, o: x * weight(o))
    yield f(torch.ones(2), "a"), f(torch.ones(2), "a")
    weight.register(str)(lambda o: 5)
    yield f(torch.ones(2), "a")


@program("class writes")
def a_class_that_is_registered_later(compile):
    class Shape(abc.ABC):
        pass

    class Box:
        pass
    b = Box()
    f = compile(lambda x: x + 1 if isinstance(b, Shape) else x - 1)
    yield f(torch.ones(2)), f(torch.ones(2))
    Shape.register(Box)
    yield f(torch.ones(2))


@program("exceptions")
def an_error_after_a_write_is_caught(compile):
    @compile
    def f(x, i):
        try:
            x.mul_(2)
            return x.index_select(0, i) + 1
        except IndexError:
            return x - 1
    for i in (0, 0, 9, 1):
        x = torch.arange(3.)
        yield f(x, torch.tensor([i])), x


@program("exceptions")
def an_error_after_a_draw_is_caught(compile):
    @compile
    def f(x, i):
        try:
            return (x + torch.rand(3)).index_select(0, i)
        except IndexError:
            return x - 1
    for i in (0, 0, 9, 1):
        yield f(torch.arange(3.), torch.tensor([i]))


@program("hooks")
def a_hook_of_a_leaf_that_is_added_later(compile):
    w = torch.ones(2, requires_grad=True)
    f = compile(lambda x: (x * w).sum())
    for k in range(3):
        w.grad = None
        if k == 1:
            w.register_hook(lambda g: g * 10)
        f(torch.ones(2)).backward()
        yield w.grad


@program("hooks")
def a_training_step_with_a_hook_that_is_added_later(compile):
    w = torch.ones(2, requires_grad=True)

    @compile
    def f(x):
        w.grad = None
        loss = (x * w).sum()
        loss.backward()
        return loss.detach()
    for k in range(4):
        if k == 2:
            w.register_hook(lambda g: g * 10)
        yield f(torch.ones(2)), w.grad


@program("recursion")
def a_partial_object_that_changes(compile):
    def scaled(x, k):
        return x * k
    p = functools.partial(scaled, k=2)
    f = compile(lambda x: p(x))
    yield f(torch.ones(2)), f(torch.ones(2))
    p.keywords["k"] = 5
    yield f(torch.ones(2))


@program("containers")
def a_view_of_a_dict(compile):
    d = {"a": 1}
    values = d.values()
    f = compile(lambda x: x * sum(values))
    yield f(torch.ones(2)), f(torch.ones(2))
    d["b"] = 2
    yield f(torch.ones(2))


@program("containers")
def a_chain_of_dicts(compile):
    import collections
    d = collections.ChainMap({}, {"k": 1})
    f = compile(lambda x: x * d["k"])
    yield f(torch.ones(2)), f(torch.ones(2))
    d.maps[0]["k"] = 7
    yield f(torch.ones(2))
