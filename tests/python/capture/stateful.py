"""State, hooks, generators, exceptions, weak references, threads, writes, random numbers, dataclasses."""
import collections
import contextlib
import dataclasses
import functools
import gc
import math
import threading
import weakref

import numpy as np

import cresset as torch
import cresset.nn as nn
import cresset.nn.functional as F

from .harness import attempt, program

P = program("stateful")


def T(*size):
    return torch.arange(1., 1 + math.prod(size)).reshape(size) / 4


SCALE = 2.
TABLE = {"a": 1., "b": [2., 3.]}


@P
def closure_over_mutated_global(compile):
    global SCALE
    SCALE = 2.

    @compile
    def f(x):
        return x * SCALE

    for s in (2., 3., 3., 2, True, 2.):
        SCALE = s
        yield f(T(3))


@P
def global_rebound_in_call(compile):
    global SCALE
    SCALE = 1.

    @compile
    def f(x):
        global SCALE
        SCALE = SCALE + 1
        return x * SCALE

    for _ in range(5):
        yield f(T(3))
        yield SCALE


@P
def nested_table_changed_deep(compile):
    t = {"a": {"b": [1., {"c": 2.}]}}

    @compile
    def f(x):
        return x * t["a"]["b"][1]["c"] + t["a"]["b"][0]

    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    t["a"]["b"][1]["c"] = 5.
    yield f(T(2))
    t["a"] = {"b": (7., {"c": 1.})}
    yield f(T(2))
    yield f(T(2))


@P
def nonlocal_counter(compile):
    n = 0

    @compile
    def f(x):
        nonlocal n
        n += 1
        return x + n

    for _ in range(5):
        yield f(T(2))
        yield n


@P
def attribute_written_by_forward_hook(compile):
    m = nn.Linear(3, 2)
    seen = []

    def hook(mod, args, out):
        mod.last = out.detach()
        seen.append(tuple(out.shape))

    m.register_forward_hook(hook)
    f = compile(m)
    for n in (2, 2, 3, 2):
        yield f(T(n, 3))
        yield m.last
        yield seen


@P
def hook_removed_between_calls(compile):
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    h = m[0].register_forward_hook(lambda mod, a, out: out * 2)
    f = compile(m)
    for i in range(5):
        if i == 3:
            h.remove()
        yield f(T(2, 3))


@P
def pre_hook_changes_args(compile):
    m = nn.Linear(3, 2)
    k = {"add": 1.}
    m.register_forward_pre_hook(lambda mod, a: (a[0] + k["add"],))
    f = compile(m)
    for v in (1., 1., 2., 3., 1.):
        k["add"] = v
        yield f(T(2, 3))


@P
def global_module_hook(compile):
    m = nn.Linear(2, 2)
    f = compile(m)
    yield f(T(1, 2))
    yield f(T(1, 2))
    yield f(T(1, 2))
    h = nn.modules.module.register_module_forward_hook(lambda mod, a, o: o + 1)
    yield f(T(1, 2))
    yield f(T(1, 2))
    h.remove()
    yield f(T(1, 2))


@P
def full_backward_hook(compile):
    m = nn.Linear(3, 2)
    got = []

    def note(mod, gi, go):
        got.append((None if gi[0] is None else gi[0].sum().item(), go[0].sum().item()))

    m.register_full_backward_hook(note)
    f = compile(m)
    for _ in range(4):
        x = T(2, 3).requires_grad_()
        f(x).sum().backward()
        yield got
        yield x.grad


@P
def tensor_hook_in_call(compile):
    got = []

    @compile
    def f(x):
        y = x * 2
        y.register_hook(lambda g: got.append(g.sum().item()) or g * 3)
        return (y * y).sum()

    for _ in range(4):
        x = T(3).requires_grad_()
        f(x).backward()
        yield x
        yield got


@P
def tensor_hook_on_input_outside(compile):
    got = []

    @compile
    def f(x):
        return (x * x).sum()

    for i in range(5):
        x = T(3).requires_grad_()
        if i >= 2:
            x.register_hook(lambda g: g * i)
        f(x).backward()
        yield x


@P
def post_accumulate_hook(compile):
    w = nn.Parameter(T(3))
    got = []
    w.register_post_accumulate_grad_hook(lambda p: got.append(p.grad.sum().item()))

    @compile
    def f(x):
        return (x * w).sum()

    for _ in range(4):
        f(T(3)).backward()
        yield got
        yield w.grad


@P
def generator_consumed_across_calls(compile):
    g = (float(i) for i in range(100))

    @compile
    def f(x):
        return x * next(g)

    for _ in range(5):
        yield f(T(2))


@P
def generator_function_inside(compile):

    def pieces(x):
        for i in range(x.shape[0]):
            r = (yield (x[i] * i))
            if r:
                yield (x[i] * r)

    @compile
    def f(x):
        g = pieces(x)
        a = next(g)
        b = g.send(10)
        return a + b + sum(g)

    for n in (3, 3, 4, 3):
        yield f(T(n))


@P
def compiled_generator_function(compile):

    @compile
    def f(x):
        for i in range(3):
            x = x * 2
            yield x

    for _ in range(4):
        yield list(f(T(2)))


@P
def generator_closed_early(compile):
    log = []

    def pieces(x):
        try:
            while True:
                x = x + 1
                yield x
        finally:
            log.append("closed")

    @compile
    def f(x):
        g = pieces(x)
        y = next(g) + next(g)
        g.close()
        return y

    for _ in range(4):
        yield f(T(2))
        yield log


@P
def context_manager_class(compile):
    log = []

    class C:
        depth = 0

        def __enter__(self):
            C.depth += 1
            log.append("in")
            return self

        def __exit__(self, *a):
            C.depth -= 1
            log.append(a[0].__name__ if a[0] else "out")
            return a[0] is ValueError

    @compile
    def f(x, bad):
        with C() as c:
            y = x * C.depth
            if bad:
                raise ValueError("no")
            y = y + 1
        return y

    for bad in (False, False, True, False, True):
        yield attempt(f, T(2), bad)
        yield log
        yield C.depth


@P
def contextlib_manager(compile):
    state = {"k": 1.}

    @contextlib.contextmanager
    def scaled(k):
        before, state["k"] = (state["k"], k)
        try:
            yield k
        finally:
            state["k"] = before

    @compile
    def f(x):
        with scaled(3.):
            y = x * state["k"]
        return y + state["k"]

    for _ in range(3):
        yield f(T(2))
    with scaled(10.):
        yield f(T(2))
        yield f(T(2))
    yield f(T(2))


@P
def exit_stack(compile):
    log = []

    @compile
    def f(x):
        with contextlib.ExitStack() as s:
            s.callback(log.append, "a")
            s.enter_context(torch.no_grad())
            y = x * 2
        return (y, x * 3)

    for _ in range(4):
        y, z = f(T(2).requires_grad_())
        yield (y, z)
        yield log


@P
def suppress(compile):

    @compile
    def f(x, d):
        with contextlib.suppress(KeyError):
            x = x * 2
            x = x * d["k"]
            x = x * 2
        return x

    for d in ({}, {"k": 3.}, {}, {"k": 3.}, {"k": 4.}):
        yield f(T(2), d)


@P
def exception_across_frame(compile):

    @compile
    def inner(x, n):
        y = x * 2
        if n > 2:
            raise RuntimeError(f"too many: {n}")
        return y

    def outer(x, n):
        try:
            return inner(x, n)
        except RuntimeError as e:
            return (str(e), x - 1)

    for n in (1, 1, 3, 2, 3):
        yield outer(T(2), n)


@P
def exception_with_cause(compile):

    @compile
    def f(x):
        try:
            return x.view(7)
        except RuntimeError as e:
            raise ValueError("bad view") from e

    for n in (7, 7, 3, 3):
        try:
            yield f(T(n))
        except ValueError as e:
            yield (str(e), type(e.__cause__).__name__, str(e.__cause__))


@P
def finally_writes(compile):
    log = []

    @compile
    def f(x, bad):
        try:
            x.add_(1)
            if bad:
                x.view(99)
            return x * 2
        finally:
            log.append(len(log))
            x.mul_(3)

    for bad in (False, False, True, False, True):
        x = T(3)
        yield attempt(f, x, bad)
        yield x
        yield log


@P
def exception_state_in_except(compile):
    import sys

    @compile
    def f(x):
        try:
            {}["q"]
        except KeyError:
            return (x * 2, sys.exc_info()[0].__name__)

    for _ in range(4):
        yield f(T(2))


@P
def raised_subclass_with_attributes(compile):

    class E(Exception):

        def __init__(self, t):
            super().__init__("E")
            self.t = t

    @compile
    def f(x):
        y = x * 2
        raise E(y + 1)

    for _ in range(4):
        try:
            f(T(2))
        except E as e:
            yield (e.t, str(e))


@P
def weakref_alive_and_dead(compile):

    class O:
        v = 2.

    o = O()
    r = weakref.ref(o)

    @compile
    def f(x):
        q = r()
        return x * q.v if q is not None else x - 1

    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    del o
    gc.collect()
    yield f(T(2))
    yield f(T(2))


@P
def weak_value_dictionary(compile):
    d = weakref.WeakValueDictionary()

    class O:
        pass

    o = d["a"] = O()

    @compile
    def f(x):
        return x * len(d)

    yield f(T(2))
    yield f(T(2))
    p = d["b"] = O()
    yield f(T(2))
    yield f(T(2))
    del o
    gc.collect()
    yield f(T(2))


@P
def weak_tensor_callbacks(compile):
    log = []

    @compile
    def f(x):
        y = x * 2
        weakref.finalize(y, log.append, "gone")
        z = y + 1
        del y
        log.append("end")
        return z

    for _ in range(4):
        yield f(T(2))
        yield list(log)


@P
def del_method_order(compile):
    log = []

    class D:

        def __init__(self, n):
            self.n = n

        def __del__(self):
            log.append(self.n)

    @compile
    def f(x, n):
        d = D(n)
        y = x * d.n
        d = None
        log.append("after")
        return y

    for n in (1, 2, 2, 3):
        yield f(T(2), n)
        yield list(log)


@P
def memo_by_shape(compile):
    memo = {}
    made = []

    def mask(n):
        if n not in memo:
            made.append(n)
            memo[n] = torch.tril(torch.ones(n, n))
        return memo[n]

    @compile
    def f(x):
        return x @ mask(x.shape[-1])

    for n in (2, 3, 2, 4, 3, 5, 5):
        yield f(T(1, n))
        yield made
        yield sorted(memo)


@P
def memo_on_module(compile):

    class M(nn.Module):

        def __init__(self):
            super().__init__()
            self.cos = None
            self.n = 0

        def forward(self, x):
            if self.cos is None or x.shape[0] > self.n:
                self.n = x.shape[0]
                self.cos = torch.arange(self.n).float().cos()
            return x * self.cos[:x.shape[0]]

    m = M()
    f = compile(m)
    for n in (3, 2, 3, 5, 4, 5, 6):
        yield f(T(n))
        yield m.n
        yield m.cos


@P
def cached_property(compile):

    class C:

        def __init__(self):
            self.made = 0
            self.k = 3.

        @functools.cached_property
        def table(self):
            self.made += 1
            return torch.full((2,), self.k)

    c = C()

    @compile
    def f(x):
        return x * c.table

    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    yield c.made
    c.k = 5.
    del c.__dict__["table"]
    yield f(T(2))
    yield f(T(2))
    yield c.made


@P
def lru_cached_tensor(compile):

    @functools.lru_cache(None)
    def grid(n, s):
        return torch.arange(n) * s

    @compile
    def f(x, s):
        return x + grid(x.shape[0], s)

    for n, s in ((2, 1.), (3, 1.), (2, 2.), (2, 1.), (2, 2.)):
        yield f(T(n), s)
        yield tuple(grid.cache_info())


@P
def threads_in_call(compile):

    @compile
    def f(x):
        out = [None] * 3

        def work(i):
            out[i] = x * i
        ts = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for t in ts:
            t.start()
        for t in ts:
            t.join()
        return out[0] + out[1] + out[2]

    for _ in range(4):
        yield f(T(2))


@P
def thread_local_number(compile):
    local = threading.local()
    local.k = 2.

    @compile
    def f(x):
        return x * getattr(local, "k", 100.)

    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    got = []
    for _ in range(2):
        t = threading.Thread(target=lambda: got.append(f(T(2))))
        t.start()
        t.join()
    yield got
    local.k = 4.
    yield f(T(2))


@P
def called_from_several_threads(compile):

    @compile
    def f(x, k):
        return (x * k).cumsum(0)

    got = {}

    def work(i):
        for j in range(4):
            got[i, j] = f(T(2 + j), i)

    ts = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in ts:
        t.start()
    for t in ts:
        t.join()
    yield [got[k] for k in sorted(got)]


@P
def writes_to_inputs(compile):

    @compile
    def f(x, y):
        x += y
        y[0] = x.sum()
        x[1:] *= 2
        return x - y

    for _ in range(4):
        x, y = (T(3), T(3))
        yield f(x, y)
        yield (x, y, x._version, y._version)


@P
def writes_to_views_of_inputs(compile):

    @compile
    def f(a, b):
        a.mul_(2)
        b.add_(1)
        return a.sum() + b.sum()

    for i in range(6):
        base = T(3, 4)
        a, b = [(base[0], base[1]), (base[:, 0], base[0]), (base, base[1]),
                (base.t(), base), (base[1], base[1]), (base[0], base[2])][i]
        yield f(a, b)
        yield base


@P
def same_tensor_twice(compile):

    @compile
    def f(a, b):
        a.add_(1)
        return a * b

    x, y = (T(3), T(3))
    yield f(x, y)
    yield f(x, x)
    yield f(x, y)
    yield f(x, x)
    yield (x, y)


@P
def view_returned_aliases_input(compile):

    @compile
    def f(x):
        x.mul_(2)
        return (x[0], x.t(), x)

    for _ in range(4):
        x = T(2, 2)
        a, b, c = f(x)
        a.add_(100)
        yield (x, b, c is x, a._base is x)


@P
def resized_input(compile):

    @compile
    def f(x):
        x.resize_(2, 2)
        return x * 2

    for _ in range(3):
        x = T(4)
        yield f(x)
        yield x


@P
def set_data_in_call(compile):
    w = nn.Parameter(T(3))

    @compile
    def f(x):
        w.data = x * 2
        return (w * x).sum()

    for _ in range(4):
        w.grad = None
        f(T(3)).backward()
        yield w


@P
def rng_interleaved(compile):

    @compile
    def f(x):
        a = torch.rand(3)
        b = F.dropout(x, 0.5)
        c = torch.randn_like(x)
        d = torch.randint(0, 10, (3,))
        return a + b + c + d

    for _ in range(4):
        yield f(T(3))
        yield torch.rand(2)


@P
def rng_seeded_inside(compile):

    @compile
    def f(x):
        torch.manual_seed(3)
        return x + torch.rand(3)

    for _ in range(4):
        yield f(T(3))
        yield torch.rand(1)


@P
def rng_state_saved_inside(compile):

    @compile
    def f(x):
        s = torch.get_rng_state()
        a = torch.rand(3)
        torch.set_rng_state(s)
        return x + a - torch.rand(3)

    for _ in range(4):
        yield f(T(3))
        yield torch.rand(1)


@P
def own_generator(compile):
    g = torch.Generator().manual_seed(1)

    @compile
    def f(x):
        return x + torch.rand(3, generator=g)

    for i in range(5):
        if i == 3:
            g.manual_seed(1)
        yield f(T(3))


@P
def python_random_inside(compile):
    import random

    @compile
    def f(x):
        return x * random.random() + random.choice([1, 2, 3])

    for _ in range(4):
        yield f(T(2))
        yield random.random()


@P
def numpy_generators_inside(compile):
    np.random.seed(0)
    r = np.random.default_rng(0)

    @compile
    def f(x):
        return x * float(np.random.rand()) + float(r.normal())

    for _ in range(4):
        yield f(T(2))


@P
def mutable_default_argument(compile):

    @compile
    def f(x, seen=[]):
        seen.append(x.sum().item())
        return x * len(seen)

    for _ in range(4):
        yield f(T(2))


@P
def defaults_replaced(compile):

    def g(x, k=2., *, j=1.):
        return x * k + j

    f = compile(g)
    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    g.__defaults__ = (3.,)
    yield f(T(2))
    yield f(T(2))
    g.__kwdefaults__ = {"j": 7.}
    yield f(T(2))
    yield f(T(2))


@P
def tensor_default(compile):
    w = torch.ones(2)

    @compile
    def f(x, w=w):
        return x * w

    yield f(T(2))
    yield f(T(2))
    w.add_(1)
    yield f(T(2))
    yield f(T(2), torch.zeros(2))
    yield f(T(2))


@P
def property_with_effect(compile):

    class C:
        n = 0

        @property
        def k(self):
            self.n += 1
            return self.n

    c = C()

    @compile
    def f(x):
        return x * c.k + c.k

    for _ in range(5):
        yield f(T(2))
        yield c.n


@P
def property_redefined(compile):

    class C:

        @property
        def k(self):
            return 2.

    c = C()

    @compile
    def f(x):
        return x * c.k

    yield f(T(2))
    yield f(T(2))
    yield f(T(2))
    C.k = property(lambda self: 3.)
    yield f(T(2))
    C.k = 4.
    yield f(T(2))
    c.k = 5.
    yield f(T(2))


@dataclasses.dataclass
class Pair:
    a: object
    b: float = 1.
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.tags.append("made")


@P
def dataclass_arguments(compile):

    @compile
    def f(p):
        p.tags.append("called")
        return p.a * p.b

    for b in (1., 1., 2., 2., 3.):
        p = Pair(T(2), b)
        yield f(p)
        yield p.tags


@P
def dataclass_returned(compile):

    @compile
    def f(x):
        return Pair(x * 2, float(x.shape[0]))

    for n in (2, 2, 3, 4):
        p = f(T(n))
        yield (p.a, p.b, p.tags, type(p.b).__name__)


@P
def dataclass_replace(compile):

    @compile
    def f(p):
        return dataclasses.replace(p, b=p.b + 1).b * p.a

    for b in (1., 1., 2., 3.):
        yield f(Pair(T(2), b))


@P
def frozen_dataclass_keys(compile):

    @dataclasses.dataclass(frozen=True)
    class K:
        n: int
        s: str

    table = {K(2, "a"): 2., K(3, "a"): 3.}

    @compile
    def f(x):
        return x * table.get(K(x.shape[0], "a"), 9.)

    for n in (2, 3, 4, 2, 3):
        yield f(T(n))
    table[K(4, "a")] = 5.
    yield f(T(4))
    yield f(T(4))


@P
def named_tuple_state(compile):
    S = collections.namedtuple("S", "h c n")

    @compile
    def f(x, s):
        return S(s.h + x, s.c * 2, s.n + 1)

    s = S(torch.zeros(2), torch.ones(2), 0)
    for _ in range(5):
        s = f(T(2), s)
        yield s
        yield (type(s).__name__, type(s.n).__name__)


@P
def partial_objects(compile):

    def g(x, a, b=1.):
        return x * a + b

    p = functools.partial(g, a=2.)
    f = compile(p)
    yield f(T(2))
    yield f(T(2), b=3.)
    yield f(T(2))
    yield f(T(2), b=4.)
    p.keywords["a"] = 5.
    yield f(T(2))
    yield f(T(2))


@P
def partial_method(compile):

    class C:
        k = 2.

        def m(self, x, p):
            return x * self.k ** p
        sq = functools.partialmethod(m, p=2)

    c = C()

    @compile
    def f(x):
        return c.sq(x)

    yield f(T(2))
    yield f(T(2))
    c.k = 3.
    yield f(T(2))
    yield f(T(2))


@P
def single_dispatch(compile):

    @functools.singledispatch
    def g(a, x):
        return x

    @g.register
    def _(a: int, x):
        return x * a

    @g.register
    def _(a: str, x):
        return x - len(a)

    @compile
    def f(a, x):
        return g(a, x)

    for a in (2, "abc", 2.5, 3, "x"):
        yield f(a, T(2))
    g.register(float)(lambda a, x: x + a)
    yield f(2.5, T(2))
    yield f(2.5, T(2))


@P
def default_dtype(compile):

    @compile
    def f(x):
        return (torch.ones(2) + x, torch.tensor([1.5]), torch.arange(3) / 2)

    for d in (torch.float32, torch.float32, torch.float64, torch.float32, torch.float64):
        before = torch.get_default_dtype()
        torch.set_default_dtype(d)
        try:
            yield f(T(1))
        finally:
            torch.set_default_dtype(before)


@P
def default_dtype_set_inside(compile):

    @compile
    def f(x):
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        y = torch.ones(2)
        torch.set_default_dtype(before)
        return (y, torch.ones(2), x)

    for _ in range(4):
        yield f(T(1))
