"""State that functions in C reach: arguments that they call, objects that they are bound to, iterators that they advance."""
import abc
import array
import bisect
import builtins
import collections
import contextlib
import contextvars
import copy
import dataclasses
import decimal
import enum
import functools
import heapq
import itertools
import json
import math
import operator
import os
import pickle
import random
import re
import string
import struct
import sys
import threading
import types
import typing
import weakref

import numpy as np

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F
from cresset.nn.utils import parametrize

from .harness import attempt, program

P = program("through_c")


def T(*size):
    return torch.arange(1., 1 + math.prod(size)).reshape(size) / 4


KEPT = []
ADD = KEPT.append
COUNT = itertools.count()
PLACES = {"a": 1., "b": 2.}
FIND = PLACES.get
LOOKUP = PLACES.__getitem__
BOX = types.SimpleNamespace(value=1., inner=types.SimpleNamespace(value=2.))
READ = operator.attrgetter("inner.value")
FACTORS = array.array("d", [1., 2., 3.])
BYTES = bytearray(struct.pack("3d", 1., 2., 3.))
WINDOW = memoryview(BYTES).cast("d")
CONTEXT = contextvars.ContextVar("CONTEXT", default=1.)


@P
def map_of_print(compile):
    @compile
    def f(x):
        list(map(print, ["seen", x.shape[0]]))
        return x + 1

    for n in (2, 2, 2, 3, 2):
        yield f(T(n))


@P
def map_of_next(compile):
    counters = [itertools.count(), itertools.count(10, 5)]

    @compile
    def f(x):
        a, b = map(next, counters)
        return x * a + b

    for _ in range(5):
        yield f(T(3))


@P
def map_of_a_bound_method(compile):
    KEPT.clear()

    @compile
    def f(x):
        list(map(ADD, (x.shape[0], 1.5)))
        return x * len(KEPT)

    for _ in range(5):
        yield f(T(3))
        yield list(KEPT)


@P
def bound_lookup_of_a_global_dict(compile):
    PLACES.update(a=1., b=2.)

    @compile
    def f(x):
        return x * FIND("a") + LOOKUP("b") + sum(map(FIND, ("a", "b")))

    for a in (1., 1., 1., 5., 5., 1.):
        PLACES["a"] = a
        yield f(T(3))
    del PLACES["b"]
    yield attempt(f, T(3))
    PLACES["b"] = 7.
    yield f(T(3))


@P
def bound_lookup_as_default(compile):
    table = {"k": 2.}

    @compile
    def f(x, find=table.get, width=table.__len__):
        return x * find("k") + width()

    for value in (2., 2., 2., 3., 2.):
        table["k"] = value
        yield f(T(3))
    table["other"] = 1
    yield f(T(3))


@P
def count_as_default_factory(compile):
    table = collections.defaultdict(itertools.count(1).__next__)

    @compile
    def f(x, key):
        return x * table[key]

    for key in "aabbac":
        yield f(T(3), key)
        yield dict(table)


@P
def attribute_getter(compile):
    BOX.inner.value = 2.

    @compile
    def f(x):
        return x * READ(BOX) + operator.attrgetter("value")(BOX)

    for value in (2., 2., 2., 4., 2.):
        BOX.inner.value = value
        yield f(T(3))
    BOX.inner = types.SimpleNamespace(value=9.)
    yield f(T(3))


@P
def method_caller(compile):
    class Scale:
        def __init__(self):
            self.by = 2.

        def of(self, x, more=0):
            return x * self.by + more

    scale, call = Scale(), operator.methodcaller("of", T(3), more=1)

    @compile
    def f(x):
        return x + call(scale)

    for by in (2., 2., 2., 3., 2.):
        scale.by = by
        yield f(T(3))


@P
def reduce_with_an_operator(compile):
    parts, how = [1., 2., 3.], [operator.add]

    @compile
    def f(x):
        return x * functools.reduce(how[0], parts, 1.)

    for k in range(6):
        if k == 3:
            how[0] = operator.mul
        if k == 4:
            parts.append(4.)
        yield f(T(3))


@P
def sorted_by_a_function_in_c(compile):
    names = ["bb", "a", "ccc"]
    order = {"bb": 3, "a": 2, "ccc": 1}

    @compile
    def f(x):
        first = sorted(names, key=order.__getitem__)[0]
        longest = max(names, key=len)
        return x * order[first] + len(longest)

    for k in range(6):
        if k == 3:
            order["a"] = 0
        if k == 4:
            names.append("dddd")
            order["dddd"] = -1
        yield f(T(3))


@P
def compared_by_cmp_to_key(compile):
    signs = [1]

    def compare(a, b):
        return signs[0] * ((a > b) - (a < b))

    @compile
    def f(x):
        return x * sorted([3., 1., 2.], key=functools.cmp_to_key(compare))[0]

    for sign in (1, 1, 1, -1, -1, 1):
        signs[0] = sign
        yield f(T(3))


class Job:
    weight = 1

    def __init__(self, n):
        self.n = n

    def __lt__(self, other):
        return self.weight * self.n < self.weight * other.n


@P
def heap_of_objects(compile):
    Job.weight = 1
    jobs = [Job(n) for n in (3, 1, 2)]

    @compile
    def f(x):
        heap = list(jobs)
        heapq.heapify(heap)
        return x * heapq.heappop(heap).n + heapq.nlargest(1, heap)[0].n

    for k in range(6):
        if k == 3:
            Job.weight = -1
        if k == 4:
            jobs.append(Job(7))
        yield f(T(3))
    Job.weight = 1


@P
def bisected_by_key(compile):
    steps, rate = [Job(1), Job(4), Job(9)], [1.]

    @compile
    def f(x, at):
        k = bisect.bisect(steps, at, key=lambda job: job.n * rate[0])
        return x * k

    for at, r in ((2, 1.), (2, 1.), (5, 1.), (2, 3.), (2, 1.)):
        rate[0] = r
        yield f(T(3), at)


@P
def accumulated_with_a_function(compile):
    decay = [0.5]

    @compile
    def f(x):
        return x * list(itertools.accumulate([1., 2., 3.], lambda a, b: a * decay[0] + b))[-1]

    for d in (0.5, 0.5, 0.5, 0.25, 0.5):
        decay[0] = d
        yield f(T(3))


@P
def iterated_until_a_sentinel(compile):
    values = [3, 2, 0, 5, 0, 0, 1, 0] * 2
    take = iter(values)

    @compile
    def f(x):
        return x + sum(iter(take.__next__, 0))

    for _ in range(6):
        yield attempt(f, T(3))


@P
def tee_of_one_stream(compile):
    left, right = itertools.tee(itertools.count(1))

    @compile
    def f(x):
        return x * next(left) + next(right)

    for k in range(5):
        if k == 2:
            next(right)
        yield f(T(3))


@P
def islice_and_chain_of_globals(compile):
    parts = [[1., 2.], [3.]]

    @compile
    def f(x):
        for v in itertools.islice(itertools.chain.from_iterable(parts), 2):
            x = x * v
        return x

    for k in range(6):
        if k == 3:
            parts[0].pop()
        if k == 4:
            parts.insert(0, (9.,))
        yield f(T(3))


@P
def array_module_changes(compile):
    FACTORS[0] = 1.

    @compile
    def f(x):
        return x * FACTORS[0] + sum(FACTORS)

    for v in (1., 1., 1., 5., 1.):
        FACTORS[0] = v
        yield f(T(3))


@P
def memory_view_of_bytes(compile):
    BYTES[:] = struct.pack("3d", 1., 2., 3.)

    @compile
    def f(x):
        return x * WINDOW[1] + struct.unpack_from("d", BYTES, 16)[0]

    for v in (2., 2., 2., 6., 2.):
        WINDOW[1] = v
        yield f(T(3))
    BYTES[16:] = struct.pack("d", 8.)
    yield f(T(3))


@P
def tensor_of_a_memory_view(compile):
    raw = bytearray(struct.pack("4f", 1, 2, 3, 4))

    @compile
    def f(x):
        return x + torch.frombuffer(raw, dtype=torch.float32)[:3]

    for k in range(5):
        struct.pack_into("f", raw, 4, float(k))
        yield f(T(3))


@P
def numpy_view_both_ways(compile):
    base = np.arange(6, dtype=np.float32).reshape(2, 3)
    x, row = torch.from_numpy(base), base[1]

    @compile
    def f(x):
        y = x * 2
        x[0].add_(1)
        return y + x

    for k in range(5):
        row += 1
        yield f(x)
        yield base.tolist()


@P
def numpy_of_a_kept_result(compile):
    kept = []

    @compile
    def f(x):
        y = x * 3
        kept.append(y)
        return y + 1

    for _ in range(4):
        z = f(T(3))
        kept[-1].detach().numpy()[0] = -1
        yield z
        yield kept[-1]


@P
def context_variable(compile):
    CONTEXT.set(1.)

    @compile
    def f(x):
        return x * CONTEXT.get()

    yield f(T(3))
    for v in (1., 1., 4., 4., 1.):
        token = CONTEXT.set(v)
        yield f(T(3))
        if v == 4.:
            CONTEXT.reset(token)
            yield f(T(3))
    yield contextvars.copy_context().run(lambda: (CONTEXT.set(9.), f(T(3)))[1])
    yield f(T(3))


@P
def decimal_context(compile):
    @compile
    def f(x):
        return x * float(decimal.Decimal(1) / decimal.Decimal(3))

    for digits in (28, 28, 28, 3, 28):
        with decimal.localcontext() as c:
            c.prec = digits
            yield f(T(3))


@P
def environment_through_get(compile):
    get = os.environ.get

    @compile
    def f(x):
        return x * float(get("CRESSET_TEST_SCALE", "2")) + float(os.getenv("CRESSET_TEST_SHIFT", "0"))

    try:
        for scale in ("3", "3", "3", "4", None, "3"):
            if scale is None:
                os.environ.pop("CRESSET_TEST_SCALE", None)
            else:
                os.environ["CRESSET_TEST_SCALE"] = scale
            yield f(T(3))
        os.environ["CRESSET_TEST_SHIFT"] = "5"
        yield f(T(3))
    finally:
        os.environ.pop("CRESSET_TEST_SCALE", None)
        os.environ.pop("CRESSET_TEST_SHIFT", None)


@P
def own_random_source(compile):
    source = random.Random(3)
    draw = source.random

    @compile
    def f(x):
        return x * draw() + source.randint(0, 9)

    for _ in range(5):
        yield f(T(3))
    yield source.random()


@P
def shuffled_in_call(compile):
    source, order = random.Random(5), [0, 1, 2]

    @compile
    def f(x):
        source.shuffle(order)
        return x[order]

    for _ in range(5):
        yield f(T(3))
        yield list(order)


@P
def regular_expression_with_function(compile):
    table = {"a": "1", "b": "2"}

    @compile
    def f(x, text):
        return x * int(re.sub("[ab]", lambda m: table[m.group()], text))

    for k, text in enumerate(["ab", "ab", "ab", "ba", "ab", "ab"]):
        if k == 4:
            table["b"] = "5"
        yield f(T(3), text)


@P
def template_and_format(compile):
    values = {"n": 2}

    class Shown:
        def __format__(self, spec):
            values["n"] += 1
            return f"{values['n']}{spec}"

    shown = Shown()

    @compile
    def f(x):
        a = int(string.Template("$n").substitute(values))
        b = int(f"{shown:0}")
        return x * a + b + int("{n}".format_map(values))

    for _ in range(5):
        yield f(T(3))
        yield values["n"]


@P
def json_and_pickle_of_state(compile):
    state = {"w": [1., 2.]}

    class Point:
        def __init__(self, a):
            self.a = a

        def __reduce__(self):
            return Point, (self.a + 1,)

    globals()["Point"] = Point
    Point.__qualname__ = "Point"
    p = Point(1.)

    @compile
    def f(x):
        w = json.loads(json.dumps(state))["w"]
        return x * w[0] + w[-1] + copy.copy(p).a

    for k in range(6):
        if k == 3:
            state["w"].append(7.)
        if k == 4:
            p.a = 5.
        yield f(T(3))
    yield pickle.loads(pickle.dumps(p)).a


@P
def virtual_subclass_registered(compile):
    class Shape(abc.ABC):
        @classmethod
        def __subclasshook__(cls, other):
            return True if getattr(other, "shaped", False) else NotImplemented

    class Thing:
        pass

    thing = Thing()

    @compile
    def f(x):
        return x * 2 if isinstance(thing, Shape) else x + 100

    yield f(T(3))
    yield f(T(3))
    yield f(T(3))
    Thing.shaped = True
    Shape._abc_caches_clear() if hasattr(Shape, "_abc_caches_clear") else abc.ABC
    yield f(T(3))
    yield f(T(3))


@P
def instance_check_of_metaclass(compile):
    limit = [2]

    class Meta(type):
        def __instancecheck__(cls, x):
            return x > limit[0]

    class Big(metaclass=Meta):
        pass

    @compile
    def f(x, n):
        return x * 10 if isinstance(n, Big) else x

    for n, at in ((1, 2), (3, 2), (3, 2), (3, 5), (3, 2), (1, 0)):
        limit[0] = at
        yield f(T(3), n)


@P
def module_with_getattr(compile):
    module = types.ModuleType("made_for_test")
    source = {"scale": 2.}
    module.__getattr__ = lambda name: source[name]
    sys.modules["made_for_test"] = module

    @compile
    def f(x):
        import made_for_test
        return x * made_for_test.scale

    try:
        for k in range(7):
            if k == 3:
                source["scale"] = 3.
            if k == 5:
                module.scale = 8.
            yield f(T(3))
    finally:
        del sys.modules["made_for_test"]


@P
def module_replaced_in_table(compile):
    first, second = types.ModuleType("swapped"), types.ModuleType("swapped")
    first.k, second.k = 2., 5.
    sys.modules["swapped"] = first

    @compile
    def f(x):
        from swapped import k
        return x * k

    try:
        for k in range(6):
            if k == 3:
                sys.modules["swapped"] = second
            yield f(T(3))
    finally:
        del sys.modules["swapped"]


@P
def descriptors_with_owner(compile):
    class Scaled:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, x, owner=None):
            if x is None:
                return owner.factor
            return getattr(x, self.name, 1.) * owner.factor

        def __set__(self, x, value):
            setattr(x, self.name, value + 1)

        def __delete__(self, x):
            delattr(x, self.name)

    class Model:
        factor = 2.
        a = Scaled()

    m = Model()

    @compile
    def f(x):
        return x * m.a + Model.a

    yield f(T(3))
    for v in (1., 1., 3., 1.):
        m.a = v
        yield f(T(3))
    Model.factor = 4.
    yield f(T(3))
    del m.a
    yield f(T(3))


@P
def descriptor_written_in_call(compile):
    class Logged:
        log = []

        def __get__(self, x, owner):
            self.log.append("get")
            return x.__dict__.get("v", 1.)

        def __set__(self, x, value):
            self.log.append("set")
            x.__dict__["v"] = value

    class Model:
        v = Logged()

    m = Model()

    @compile
    def f(x):
        m.v = m.v + 1
        return x * m.v

    for _ in range(5):
        yield f(T(3))
        yield list(Logged.log)


@P
def class_made_in_call(compile):
    made = []

    class Base:
        def __init_subclass__(cls, by=1, **more):
            cls.by = by
            made.append(cls.__name__)

    bys = [2]

    @compile
    def f(x):
        class Inner(Base, by=bys[0]):
            k = 3

        return x * Inner.by + Inner.k

    for by in (2, 2, 2, 5, 2):
        bys[0] = by
        yield f(T(3))
        yield len(made)


@P
def class_getitem(compile):
    sizes = {"a": 2.}

    class Table:
        def __class_getitem__(cls, key):
            return sizes[key]

    @compile
    def f(x):
        return x * Table["a"]

    for v in (2., 2., 2., 6., 2.):
        sizes["a"] = v
        yield f(T(3))


@P
def missing_and_contains(compile):
    class Table(dict):
        asked = []

        def __missing__(self, key):
            self.asked.append(key)
            return len(self.asked)

        def __contains__(self, key):
            return key in self.asked

    table = Table(a=1)

    @compile
    def f(x):
        return x * table["b"] + ("b" in table) + table["a"]

    for k in range(5):
        if k == 3:
            table["b"] = 10
        yield f(T(3))


@P
def augmented_by_another_object(compile):
    class Total:
        def __init__(self, n):
            self.n = n

        def __iadd__(self, x):
            return Total(self.n + 1)

        def __rmul__(self, x):
            return x * self.n

    holder = {"total": Total(1)}

    @compile
    def f(x):
        holder["total"] += 1
        return x * holder["total"]

    for _ in range(5):
        yield f(T(3))


@P
def length_hint_and_reversed(compile):
    class Steps:
        def __init__(self):
            self.items = [1., 2., 3.]

        def __reversed__(self):
            return iter(self.items[::-1][:2])

        def __len__(self):
            return len(self.items)

        def __iter__(self):
            return iter(self.items)

    steps = Steps()

    @compile
    def f(x):
        for v in reversed(steps):
            x = x * v
        return x + len(steps) + operator.length_hint(steps)

    for k in range(5):
        if k == 3:
            steps.items.append(4.)
        yield f(T(3))


@P
def single_dispatch_method(compile):
    class Op:
        @functools.singledispatchmethod
        def of(self, n):
            return 1

    op = Op()

    @compile
    def f(x, n):
        return x * op.of(n)

    for k in range(7):
        if k == 3:
            Op.__dict__["of"].register(int, lambda self, n: 5)
        if k == 5:
            Op.__dict__["of"].register(bool, lambda self, n: 7)
        yield f(T(3), (2, True, 1.5)[k % 3])


@P
def partial_method_changes(compile):
    class Op:
        scale = 2.

        def run(self, x, by):
            return x * by * self.scale

        twice = functools.partialmethod(run, by=2)

    op = Op()

    @compile
    def f(x):
        return op.twice(x)

    yield f(T(3))
    yield f(T(3))
    yield f(T(3))
    op.scale = 3.
    yield f(T(3))
    Op.twice = functools.partialmethod(Op.run, by=7)
    yield f(T(3))


@P
def cached_property_invalidated(compile):
    class Model:
        base = 2.

        @functools.cached_property
        def double(self):
            return self.base * 2

    m = Model()

    @compile
    def f(x):
        return x * m.double

    yield f(T(3))
    m.base = 5.
    yield f(T(3))
    yield f(T(3))
    del m.double
    yield f(T(3))
    yield f(T(3))
    m.__dict__["double"] = 1.
    yield f(T(3))


@P
def total_ordering_and_enum(compile):
    @functools.total_ordering
    class Level(enum.Enum):
        LOW = 1
        HIGH = 2

        def __lt__(self, other):
            return self.value < other.value

        @property
        def gain(self):
            return gains[self.name]

    gains = {"LOW": 1., "HIGH": 3.}

    @compile
    def f(x, level):
        return x * level.gain if level >= Level.HIGH else x + level.gain

    for k, level in enumerate([Level.LOW, Level.HIGH, Level.LOW, Level.HIGH, Level.LOW, Level.HIGH]):
        if k == 4:
            gains["HIGH"] = 9.
        yield f(T(3), level)


@P
def dataclass_order_and_factory(compile):
    serial = itertools.count()

    @dataclasses.dataclass(order=True)
    class Item:
        rank: int
        tag: int = dataclasses.field(default_factory=serial.__next__, compare=False)
        x: typing.Any = dataclasses.field(default=None, compare=False)

    @compile
    def f(x, ranks):
        items = sorted(Item(r, x=x * r) for r in ranks)
        first = dataclasses.replace(items[0], rank=9)
        return items[-1].x + first.tag

    for ranks in ((1, 2), (1, 2), (2, 1), (1, 2), (3, 1)):
        yield f(T(3), ranks)


@P
def exit_stack_of_callbacks(compile):
    log = []

    @contextlib.contextmanager
    def step(name):
        log.append("in " + name)
        try:
            yield len(log)
        finally:
            log.append("out " + name)

    @compile
    def f(x, fails):
        with contextlib.ExitStack() as stack:
            a = stack.enter_context(step("a"))
            stack.callback(log.append, "callback")
            stack.push(lambda kind, value, trace: kind is ValueError)
            x = x * a
            if fails:
                raise ValueError("inside")
            return x + stack.enter_context(step("b"))
        return x - 1

    for fails in (False, False, True, False, True):
        yield f(T(3), fails)
        yield list(log)


@P
def chained_exceptions(compile):
    state = {"n": 0}

    class Odd(ValueError):
        def __init__(self, n):
            super().__init__(f"odd {n}")
            self.n = n

    @compile
    def f(x):
        state["n"] += 1
        try:
            try:
                if state["n"] % 2:
                    raise Odd(state["n"])
                return x * state["n"]
            except Odd as e:
                e.add_note("seen")
                raise KeyError(e.n) from e
        except KeyError as e:
            return x - e.args[0] - len(e.__cause__.__notes__)

    for _ in range(5):
        yield f(T(3))
    yield state["n"]


@P
def generator_with_send_and_throw(compile):
    def running():
        total, n = 0., 0
        while True:
            try:
                x = yield total
                total, n = total + x, n + 1
            except KeyError:
                total = 0.

    mean = running()
    next(mean)

    @compile
    def f(x, reset):
        if reset:
            mean.throw(KeyError)
        return mean.send(x) * 2

    for k in range(6):
        yield f(T(3), k == 3)


@P
def delegated_generator(compile):
    weights = [1., 2., 3.]

    def inner(x):
        for w in weights:
            yield x * w
        return len(weights)

    def outer(x):
        n = yield from inner(x)
        yield x + n

    @compile
    def f(x):
        return sum(outer(x))

    for k in range(5):
        if k == 3:
            weights.append(10.)
        yield f(T(3))


@P
def bounded_deque(compile):
    recent = collections.deque(maxlen=3)

    @compile
    def f(x):
        recent.append(x.sum() if len(recent) < 2 else x.mean())
        return torch.stack(list(recent)).sum() + recent.maxlen

    for n in (2, 3, 4, 5, 2, 3):
        yield f(T(n))


@P
def counted_in_a_chain_of_maps(compile):
    counts, base = collections.Counter("aab"), {"a": 1.}
    chain = collections.ChainMap({}, base)

    @compile
    def f(x):
        counts.update("b")
        return x * counts["b"] + chain["a"] + counts.most_common(1)[0][1]

    for k in range(6):
        if k == 3:
            chain["a"] = 5.
        if k == 4:
            base["a"] = 7.
            del chain["a"]
        yield f(T(3))


@P
def ordered_dict_moved(compile):
    order = collections.OrderedDict(a=2., b=3.)

    @compile
    def f(x):
        for name, v in order.items():
            x = x * v + (name == "a")
        return x

    for k in range(6):
        if k == 3:
            order.move_to_end("a")
        if k == 5:
            order.move_to_end("a", last=False)
        yield f(T(3))


@P
def weak_proxy_and_finalizer(compile):
    class Owner:
        gain = 2.

    log, owner = [], Owner()
    proxy = weakref.proxy(owner)
    weakref.finalize(owner, log.append, "gone")

    @compile
    def f(x):
        return x * proxy.gain + len(log)

    yield f(T(3))
    yield f(T(3))
    yield f(T(3))
    owner.gain = 4.
    yield f(T(3))
    del owner
    yield attempt(f, T(3))[0]
    yield log


@P
def bound_method_made_by_hand(compile):
    class Model:
        gain = 2.

    def run(self, x):
        return x * self.gain

    m = Model()
    m.run = types.MethodType(run, m)
    other = Model()

    @compile
    def f(x):
        return m.run(x)

    yield f(T(3))
    yield f(T(3))
    yield f(T(3))
    m.gain = 3.
    yield f(T(3))
    other.gain = 9.
    m.run = types.MethodType(run, other)
    yield f(T(3))


@P
def builtin_hidden_by_a_global(compile):
    space = {"torch": torch}
    exec("def f(x):\n    return x * max(2, 3) + len([1, 2])\n", space)
    f = compile(space["f"])
    yield f(T(3))
    yield f(T(3))
    yield f(T(3))
    space["max"] = min
    yield f(T(3))
    space["__builtins__"] = {"len": lambda x: 50, "max": max}
    yield f(T(3))
    del space["max"]
    yield f(T(3))


@P
def builtin_replaced(compile):
    @compile
    def f(x):
        return x * abs(-3)

    yield f(T(3))
    yield f(T(3))
    yield f(T(3))
    before = builtins.abs
    try:
        builtins.abs = lambda x: 7
        yield f(T(3))
    finally:
        builtins.abs = before
    yield f(T(3))


@P
def defaults_of_a_helper_replaced(compile):
    def helper(x, by=2., *, more=1.):
        return x * by + more

    @compile
    def f(x):
        return helper(x)

    yield f(T(3))
    yield f(T(3))
    yield f(T(3))
    helper.__defaults__ = (5.,)
    yield f(T(3))
    helper.__kwdefaults__ = {"more": 9.}
    yield f(T(3))
    helper.__code__ = (lambda x, by, *, more: x - by - more).__code__
    yield f(T(3))


@P
def user_dict_and_list(compile):
    class Names(collections.UserDict):
        def __getitem__(self, key):
            return super().__getitem__(key) * 2

    class Values(collections.UserList):
        pass

    names, values = Names(a=1.), Values([1., 2.])

    @compile
    def f(x):
        return x * names["a"] + sum(values)

    for k in range(6):
        if k == 3:
            names["a"] = 4.
        if k == 4:
            values.append(5.)
        yield f(T(3))


@P
def lock_and_semaphore(compile):
    lock, room = threading.RLock(), threading.Semaphore(3)

    @compile
    def f(x):
        with lock:
            free = room.acquire(blocking=False)
            return x * 2 if free else x + 100

    for _ in range(5):
        yield f(T(3))


@P
def thread_local_subclass(compile):
    class Local(threading.local):
        gain = 2.

        def __init__(self):
            self.shift = 1.

    local = Local()

    @compile
    def f(x):
        return x * local.gain + local.shift

    yield f(T(3))
    yield f(T(3))
    yield f(T(3))
    local.gain = 3.
    yield f(T(3))
    found = []

    def other():
        local.shift = 50.
        found.append(f(T(3)))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    yield found
    yield f(T(3))


@P
def exponential_mean_of_weights(compile):
    torch.manual_seed(0)
    model, mean = nn.Linear(3, 2), nn.Linear(3, 2)
    mean.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    @compile
    def f(x, decay):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for p, q in zip(model.parameters(), mean.parameters()):
                q.mul_(decay).add_(p, alpha=1 - decay)
        return loss.detach()

    for k in range(6):
        yield f(T(2 + k % 2, 3), 0.9 if k < 4 else 0.5)
        yield mean.state_dict()


@P
def schedule_with_closure(compile):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    warm = [1.]
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: warm[0] / (n + 1))

    @compile
    def f(x):
        def closure():
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            return loss
        loss = optimizer.step(closure)
        rate.step()
        return loss.detach()

    for k in range(6):
        if k == 4:
            warm[0] = 0.1
        yield f(T(2, 3))
        yield rate.get_last_lr()
    yield list(model.parameters())


@P
def parametrized_weight(compile):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.by = 2.

        def forward(self, w):
            return w * self.by

    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    scaled = Scaled()
    parametrize.register_parametrization(model, "weight", scaled)
    f = compile(lambda x: model(x))
    yield f(T(2, 3))
    yield f(T(2, 3))
    yield f(T(2, 3))
    scaled.by = 3.
    yield f(T(2, 3))
    with parametrize.cached():
        yield f(T(2, 3))
        yield f(T(2, 3))
    parametrize.remove_parametrizations(model, "weight")
    yield f(T(2, 3))


@P
def hooks_that_replace_themselves(compile):
    torch.manual_seed(0)
    model, handles = nn.Linear(3, 2), []

    def first(module, args, out):
        handles.pop().remove()
        handles.append(module.register_forward_hook(second))
        return out + 10

    def second(module, args, out):
        handles.pop().remove()
        handles.append(module.register_forward_hook(first))
        return out * 2

    handles.append(model.register_forward_hook(first))
    f = compile(model)
    for _ in range(6):
        yield f(T(2, 3))


@P
def function_with_state(compile):
    class Count(torch.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx, x, by):
            Count.calls += 1
            ctx.by = by + Count.calls
            ctx.save_for_backward(x)
            return x * ctx.by

        @staticmethod
        def backward(ctx, g):
            Count.calls += 10
            return g * ctx.by + ctx.saved_tensors[0] * 0, None

    f = compile(lambda x: Count.apply(x, 2.).sum())
    for _ in range(5):
        x = T(3).requires_grad_()
        f(x).backward()
        yield x.grad
        yield Count.calls


@P
def checkpoint_with_dropout_and_counter(compile):
    from cresset.utils.checkpoint import checkpoint
    torch.manual_seed(0)
    model, calls = nn.Linear(3, 3), []

    def block(x):
        calls.append(1)
        return F.dropout(model(x), 0.5).relu()

    f = compile(lambda x: checkpoint(block, x, use_reentrant=False).sum())
    for n in (2, 2, 3, 2):
        x = T(n, 3).requires_grad_()
        model.zero_grad()
        f(x).backward()
        yield x.grad
        yield model.weight.grad
        yield len(calls)


@P
def transforms_inside(compile):
    scale = [2.]

    @compile
    def f(x):
        g = torch.func.vmap(lambda v: (v * scale[0]).sin().sum())(x)
        value, slope = torch.func.jvp(lambda v: v.exp() * scale[0], (x,), (torch.ones_like(x),))
        return g, value + slope, torch.func.jacrev(lambda v: v ** 2 * scale[0])(x[0])

    for s in (2., 2., 2., 3., 2.):
        scale[0] = s
        yield f(T(2, 3) / 8)


@P
def sparse_and_complex(compile):
    @compile
    def f(x, z):
        s = x.to_sparse()
        return torch.sparse.mm(s, x.t()), (z * 1j).conj() + z.real, torch.view_as_real(z * z).sum()

    for k in range(4):
        x = T(3, 2) * (T(3, 2) > k / 4)
        yield f(x, torch.complex(T(3), T(3) - k))


@P
def loader_inside(compile):
    data = torch.utils.data.TensorDataset(T(6, 2), T(6))
    order = torch.Generator()
    order.manual_seed(3)
    loader = torch.utils.data.DataLoader(data, batch_size=2, shuffle=True, generator=order)
    seen = []

    @compile
    def f(w):
        total = 0.
        for x, y in loader:
            seen.append(y[0].item())
            total = total + ((x * w).sum(1) - y).square().mean()
        return total

    for _ in range(4):
        yield f(T(2))
        yield list(seen)


@P
def compiled_inside_of_compiled(compile):
    gain = [2.]

    @compile
    def inner(x):
        return x * gain[0]

    @compile
    def middle(x, n):
        for _ in range(n):
            x = inner(x) + 1
        return x

    @compile
    def outer(x, n):
        return middle(x, n) - inner(x)

    for n, g in ((1, 2.), (1, 2.), (2, 2.), (2, 3.), (1, 2.)):
        gain[0] = g
        yield outer(T(3), n)


@P
def patched_methods_of_classes(compile):
    class Base:
        def gain(self):
            return 2.

    class Derived(Base):
        pass

    d = Derived()

    @compile
    def f(x):
        return x * d.gain()

    yield f(T(3))
    yield f(T(3))
    yield f(T(3))
    Derived.gain = lambda self: 3.
    yield f(T(3))
    d.gain = lambda: 4.
    yield f(T(3))
    del d.gain
    del Derived.gain
    yield f(T(3))
    Derived.__bases__ = (type("Other", (Base,), {"gain": lambda self: 8.}),)
    yield f(T(3))


@P
def size_from_a_float(compile):
    ratios = [0.5]

    @compile
    def f(x):
        n = int(x.shape[0] * ratios[0])
        m = math.ceil(x.shape[0] / 3)
        return x[:n].sum() + x[m:].mean() + round(x.shape[0] * 0.3)

    for n, r in ((4, .5), (4, .5), (5, .5), (6, .5), (7, .5), (6, .25), (8, .5)):
        ratios[0] = r
        yield f(T(n))


@P
def strings_joined_over_a_generator(compile):
    log = []

    def words(n):
        for k in range(n):
            log.append(k)
            yield str(k + len(log))

    @compile
    def f(x):
        return x * int("".join(words(2)))

    for _ in range(5):
        yield f(T(3))
    yield log


@P
def unpacked_by_keys(compile):
    class Options:
        def __init__(self):
            self.asked = 0

        def keys(self):
            self.asked += 1
            return ["by"]

        def __getitem__(self, key):
            return 2. + self.asked

    options = Options()

    def scaled(x, by):
        return x * by

    f = compile(lambda x: scaled(x, **options))
    for _ in range(5):
        yield f(T(3))
    yield options.asked


@P
def filtered_and_zipped_by_c(compile):
    flags, names = [True, False, True], ["a", "b", "c"]
    values = {"a": 1., "b": 2., "c": 3.}

    @compile
    def f(x):
        chosen = itertools.compress(names, flags)
        return x * sum(map(values.get, chosen)) + sum(1 for _ in filter(None, flags)) + sum(itertools.starmap(pow, [(2, 2)]))

    for k in range(6):
        if k == 3:
            flags[1] = True
        if k == 4:
            values["b"] = 20.
        yield f(T(3))


@P
def attributes_by_map_of_getattr(compile):
    class Model:
        a, b = 1., 2.

    m, names = Model(), ["a", "b"]

    @compile
    def f(x):
        return x * sum(map(getattr, [m, m], names)) + sum(map(functools.partial(getattr, m), names))

    for k in range(6):
        if k == 3:
            m.a = 5.
        if k == 4:
            names[1] = "a"
        yield f(T(3))


@P
def identity_and_hash_by_c(compile):
    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return hash(self.n)

        def __eq__(self, other):
            return self.n == other.n

    keys = [Key(1), Key(2)]
    table = {keys[0]: 2., keys[1]: 3.}

    @compile
    def f(x, n):
        return x * table.get(Key(n), 100.) + len(set(map(id, keys))) + len({Key(1), Key(n)})

    for k, n in enumerate((1, 2, 3, 1, 2, 1)):
        if k == 4:
            keys[1].n = 7
        yield f(T(3), n)
