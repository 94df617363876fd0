"""Generators and iterators."""
import functools
import itertools

import cresset as torch

from .harness import attempt, program

FAMILY = "generators"


@program(FAMILY)
def a_generator_argument(compile):
    @compile
    def f(x, g):
        return x * next(g)
    g = (float(i) for i in range(3))
    for _ in range(4):
        yield attempt(f, torch.ones(2), g)


@program(FAMILY)
def a_generator_inside(compile):
    @compile
    def f(x, n):
        def powers():
            y = x
            for _ in range(n):
                y = y * 2
                yield y
        return sum(powers())
    for n in (1, 3, 2, 1):
        yield f(torch.ones(2), n)


@program(FAMILY)
def a_generator_of_the_program_runs_dry(compile):
    numbers = iter([1., 2., 3.])
    f = compile(lambda x: x + next(numbers, -1.))
    for _ in range(5):
        yield f(torch.ones(2))


@program(FAMILY)
def an_endless_counter(compile):
    count = itertools.count(1)
    f = compile(lambda x: x * next(count))
    for _ in range(4):
        yield f(torch.ones(2))


@program(FAMILY)
def a_cycle(compile):
    signs = itertools.cycle([1., -1.])
    f = compile(lambda x: x * next(signs))
    for _ in range(5):
        yield f(torch.ones(2))


@program(FAMILY)
def zip_enumerate_reversed(compile):
    @compile
    def f(x, a, b):
        for i, (p, q) in enumerate(zip(a, reversed(b))):
            x = x * p + q * i
        return x
    for a, b in (([1, 2], [3, 4]), ([2, 1], [3, 4]), ([1, 2, 3], [3, 4, 5])):
        yield f(torch.ones(2), a, b)


@program(FAMILY)
def map_and_filter(compile):
    f = compile(lambda x, items: x + sum(map(abs, filter(lambda v: v % 2, items))))
    for items in ([1, 2, -3], [2, 4], [1, 2, -3]):
        yield f(torch.ones(2), items)


@program(FAMILY)
def a_generator_is_returned(compile):
    f = compile(lambda x: (x * k for k in range(3)))
    for _ in range(3):
        yield list(f(torch.ones(2)))


@program(FAMILY)
def a_compiled_generator_function(compile):
    @compile
    def f(x):
        for k in range(3):
            yield x * k
    for _ in range(3):
        yield list(f(torch.ones(2)))


@program(FAMILY)
def send_to_a_generator(compile):
    def accumulate():
        total = 0
        while True:
            total += yield total
    g = accumulate()
    next(g)
    f = compile(lambda x, n: x * g.send(n))
    for n in (1, 2, 3):
        yield f(torch.ones(2), n)


@program(FAMILY)
def an_iterator_class(compile):
    class Countdown:
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            return self

        def __next__(self):
            if not self.n:
                raise StopIteration
            self.n -= 1
            return self.n

    @compile
    def f(x, it):
        for v in it:
            x = x * 2 + v
        return x
    for n in (3, 2, 3):
        it = Countdown(n)
        yield f(torch.ones(2), it), it.n


@program(FAMILY)
def an_iterator_is_half_used(compile):
    @compile
    def f(x, it):
        return x + next(it)
    it = iter([1, 2, 3, 4])
    yield f(torch.ones(2), it), f(torch.ones(2), it)
    yield list(it)


@program(FAMILY)
def rows_of_a_tensor(compile):
    @compile
    def f(x):
        return torch.stack([row * i for i, row in enumerate(x)])
    for n in (2, 3, 4, 2):
        yield f(torch.ones(n, 2))


@program(FAMILY)
def a_comprehension_reads_a_changing_list(compile):
    ks = [1, 2]
    f = compile(lambda x: [x * k for k in ks])
    yield f(torch.ones(2))
    ks.append(3)
    yield f(torch.ones(2))
    ks[0] = 5
    yield f(torch.ones(2))


@program(FAMILY)
def reduce_and_accumulate(compile):
    f = compile(lambda x, ks: functools.reduce(lambda a, k: a * k + 1, itertools.accumulate(ks), x))
    for ks in ([1, 2], [2, 1], [1, 2, 3]):
        yield f(torch.ones(2), ks)


@program(FAMILY)
def yield_from_inside(compile):
    def inner(x):
        yield x + 1
        return x * 10

    def outer(x):
        last = yield from inner(x)
        yield last
    f = compile(lambda x: list(outer(x)))
    for _ in range(3):
        yield f(torch.ones(2))


@program(FAMILY)
def a_cached_function(compile):
    calls = []

    @functools.lru_cache(maxsize=2)
    def scale(n):
        calls.append(n)
        return n * 2
    f = compile(lambda x, n: x * scale(n))
    for n in (1, 2, 1, 3, 1):
        yield f(torch.ones(2), n), list(calls)
