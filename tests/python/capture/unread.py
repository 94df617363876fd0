"""Objects that a program can reach, and reads never, sometimes, or only inside functions in C."""
import functools
import itertools
import logging
import operator
import os
import random
import sys
import threading
import time

import cresset as torch
from cresset import nn

from .harness import attempt, program

FAMILY = "unread objects"
logger = logging.getLogger("capture.unread")
counter = itertools.count()
verbose = False
lock = threading.RLock()


@functools.lru_cache(maxsize=None)
def cached(n):
    return n + 1


class Holder:
    def __init__(self, **state):
        self.__dict__.update(state)


def called(compile, f, *args, n=4):
    g = compile(f)
    for _ in range(n):
        yield attempt(g, torch.ones(2), *args)


@program(FAMILY)
def a_logger_of_the_module(compile):
    def f(x):
        if x.dim() > 5:
            logger.warning("many dims")
        return x * 2
    yield from called(compile, f)


@program(FAMILY)
def a_flag_prints_later(compile):
    global verbose
    verbose = False

    @compile
    def f(x):
        if verbose:
            print("verbose", x.shape[0])
        return x + 1
    for on in (False, False, True, True, False, True):
        verbose = on
        yield f(torch.ones(2))


@program(FAMILY)
def a_clock_behind_an_argument(compile):
    @compile
    def f(x, measure):
        if measure:
            return x + (time.perf_counter() > 0)
        return x - 1
    for measure in (False, False, True, True, False):
        yield f(torch.ones(2), measure)


@program(FAMILY)
def modules_that_are_named_alone(compile):
    def f(x):
        if x.shape[0] > 100:
            return x + os.getpid() + sys.getrecursionlimit() + random.random() + cached(1)
        return x * 3
    yield from called(compile, f)


@program(FAMILY)
def a_stream_in_an_attribute(compile):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.stream, self.it, self.local = sys.stderr, iter([1, 2]), threading.local()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            return self.inner(x) * 0 + 1
    m = M()
    c = compile(m)
    for _ in range(4):
        yield c(torch.ones(2)).detach()


@program(FAMILY)
def an_iterator_is_spread(compile):
    held = Holder(its=[itertools.count()])

    def f(x):
        return x + max(next(*held.its), 0)
    yield from called(compile, f)


@program(FAMILY)
def an_iterator_is_spread_over_zip(compile):
    held = Holder(its=[itertools.count(), itertools.count(5)])

    def f(x):
        a, b = next(zip(*held.its))
        return x + a * b
    yield from called(compile, f)


@program(FAMILY)
def an_iterator_in_a_partial(compile):
    step = functools.partial(next, itertools.count())

    def f(x):
        return x + step()
    yield from called(compile, f)


@program(FAMILY)
def an_iterator_in_a_map(compile):
    held = [itertools.count()]

    def f(x):
        return x + sum(map(next, held))
    yield from called(compile, f)


@program(FAMILY)
def an_iterator_by_an_attribute_getter(compile):
    held = Holder(it=itertools.count())
    get = operator.attrgetter("it")

    def f(x):
        return x + get(held).__next__()
    yield from called(compile, f)


@program(FAMILY)
def an_iterator_by_a_computed_name(compile):
    held = Holder(it=itertools.count())

    def f(x, name):
        return x + getattr(held, name).__next__()
    yield from called(compile, f, "it")


@program(FAMILY)
def an_iterator_through_vars(compile):
    held = Holder(it=itertools.count())

    def f(x):
        return x + [v.__next__() for v in vars(held).values()][0]
    yield from called(compile, f)


@program(FAMILY)
def an_iterator_is_chained(compile):
    held = [iter(range(100))]

    def f(x):
        it = itertools.chain.from_iterable(held)
        for n in it:
            return x + n
        return x
    yield from called(compile, f)


@program(FAMILY)
def an_iterator_as_a_special_method(compile):
    class Length:
        __len__ = itertools.count(1).__next__
    size = Length()

    def f(x):
        return x * len(size)
    yield from called(compile, f)


@program(FAMILY)
def a_clock_as_a_special_method(compile):
    class Clock:
        __call__ = itertools.count(3).__next__
    clock = Clock()

    def f(x):
        return x * clock()
    yield from called(compile, f)


@program(FAMILY)
def a_cached_function_as_a_special_method(compile):
    made = []

    class Get:
        @functools.lru_cache(maxsize=None)
        def __getitem__(self, n):
            made.append(n)
            return n + len(made)
    get = Get()

    def f(x, n):
        return x * get[n]
    g = compile(f)
    for n in (1, 1, 2, 1, 3):
        yield g(torch.ones(2), n), list(made)


@program(FAMILY)
def an_iterator_as_a_hook(compile):
    m = nn.Linear(2, 2)
    seen = itertools.count()
    m.register_forward_pre_hook(functools.partial(lambda it, module, args: (args[0] * 0 + next(it),), seen))
    c = compile(m)
    with torch.no_grad():
        m.weight.fill_(1.)
        m.bias.fill_(0.)
        for _ in range(4):
            yield c(torch.ones(2))


@program(FAMILY)
def an_object_that_is_written_as_text(compile):
    class Text:
        def __init__(self):
            self.n = itertools.count()

        def __repr__(self):
            return f"text {next(self.n)}"
    held = [Text()]

    def f(x):
        return x + len(f"{held}") + int(f"{held}"[-2])
    yield from called(compile, f)


@program(FAMILY)
def a_generator_in_a_tuple_is_unpacked(compile):
    held = ((n for n in range(100)), 1)

    def f(x):
        it, one = held
        for n in it:
            return x + n + one
        return x
    yield from called(compile, f)


@program(FAMILY)
def a_membership_test_advances(compile):
    held = Holder(it=iter(range(100)))

    def f(x):
        return x + (3 in held.it)
    yield from called(compile, f)


@program(FAMILY)
def a_star_takes_all(compile):
    held = Holder(it=iter(range(3)))

    def f(x):
        return x + len([*held.it])
    yield from called(compile, f)


@program(FAMILY)
def a_global_iterator_behind_a_helper(compile):
    global counter
    counter = itertools.count()

    def helper(use):
        return next(counter) if use else 0

    @compile
    def f(x, use):
        return x * 0 + (helper(use) > 0)
    for use in (False, False, True, True, False):
        yield f(torch.ones(2), use)


@program(FAMILY)
def a_lock_is_taken_in_one_branch(compile):
    @compile
    def f(x, shared):
        if shared:
            with lock:
                return x + 1
        return x + 2
    for shared in (False, False, True, True, False):
        yield f(torch.ones(2), shared)


@program(FAMILY)
def a_key_function_draws(compile):
    items = [3, 1, 2]

    def f(x):
        return x + sorted(items, key=lambda n: random.random())[0]
    random.seed(3)
    yield from called(compile, f)


@program(FAMILY)
def a_reduction_calls_a_counter(compile):
    held = Holder(step=itertools.count().__next__)

    def f(x):
        return x + functools.reduce(lambda a, b: a + held.step(), [1, 2, 3])
    yield from called(compile, f)


@program(FAMILY)
def an_iterator_behind_a_property(compile):
    class Source:
        def __init__(self):
            self._it = itertools.count()

        @property
        def next(self):
            return next(self._it)
    source = Source()

    def f(x):
        return x + source.next
    yield from called(compile, f)


@program(FAMILY)
def an_iterator_by_a_c_iterator_protocol(compile):
    class Loop:
        def __init__(self):
            self.it = itertools.count()

        def __iter__(self):
            return self.it
    loop = Loop()

    def f(x):
        for n in loop:
            return x + n
    yield from called(compile, f)


@program(FAMILY)
def an_iterator_is_consumed_by_a_sum(compile):
    held = {"it": iter(range(4))}

    def f(x):
        return x + sum(held["it"])
    yield from called(compile, f)


@program(FAMILY)
def a_stored_clock_is_replaced(compile):
    class Box:
        now = None
    held = Holder(box=Box(), it=itertools.count())

    @compile
    def f(x):
        return x + (held.it.__next__() if held.box.now else 7)
    for now in (None, None, True, True, None):
        held.box.now = now
        yield f(torch.ones(2))


@program(FAMILY)
def a_dict_that_makes_its_items(compile):
    class Makes(dict):
        def __getitem__(self, name):
            return super().__getitem__(name)()
    makes = Makes(gain=lambda: 3., loss=lambda: 2.)

    def f(x, name):
        if x.dim() > 5:
            logger.warning("many dims")
        return x * makes[name]
    yield from called(compile, f, "gain")


@program(FAMILY)
def a_module_is_imported_in_the_first_calls(compile):
    def f(x):
        if "wave" not in sys.modules:
            import wave  # noqa: F401
        return x + 1
    yield from called(compile, f)


@program(FAMILY)
def attributes_through_the_base_class(compile):
    class Settings:
        def __init__(self):
            self.gain, self.log = 2., logger

        def __getattribute__(self, name):
            state = super().__getattribute__("__dict__")
            return state[name] if name in state else super().__getattribute__(name)
    settings = Settings()

    @compile
    def f(x):
        return x * settings.gain
    for gain in (2., 2., 5., 2., 5.):
        settings.gain = gain
        yield f(torch.ones(2))
