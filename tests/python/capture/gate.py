"""State that changes between calls in ways that no instruction of the compiled function shows."""
import builtins
import collections
import copy
import functools
import importlib
import io
import itertools
import operator
import os
import random
import sys
import tempfile
import threading
import time
import types
import weakref

import cresset as torch

from .harness import attempt, program

FAMILY = "gate"
table = {"k": 1}
number = 1


def follow(compile, f, *changes, start=3):
    g = compile(f)
    for change in (*[lambda: None] * start, *changes, lambda: None):
        attempt(change)
        yield attempt(g, torch.ones(2))


def now(holder):
    """The holder, or that attribute of `shared`."""
    return getattr(shared, holder, holder) if isinstance(holder, str) else holder


def put(holder, name, *values):
    return [lambda value=value: setattr(now(holder), name, value) for value in values]


def put_item(holder, key, *values):
    return [lambda value=value: operator.setitem(now(holder), now(key), value) for value in values]


class Box:
    pass


def boxed(**state):
    b = Box()
    b.__dict__.update(state)
    return b


def cell_of(f, name):
    return f.__closure__[f.__code__.co_freevars.index(name)]


@program(FAMILY)
def a_global_dict_that_c_changes(compile):
    table["k"] = 1
    yield from follow(compile, lambda x: x * table["k"], functools.partial(operator.setitem, table, "k", 2),
                      functools.partial(table.update, k=3), functools.partial(dict.__setitem__, table, "k", 4),
                      functools.partial(table.pop, "k"), functools.partial(table.setdefault, "k", 5))


@program(FAMILY)
def a_global_that_the_module_dict_changes(compile):
    def change(k):
        globals()["number"] = k
    change(1)
    yield from follow(compile, lambda x: x * number, *[functools.partial(change, k) for k in (2, 3)],
                      lambda: sys.modules[__name__].__dict__.__setitem__("number", 4), lambda: setattr(sys.modules[__name__], "number", 5))


@program(FAMILY)
def a_cell_by_its_contents(compile):
    k = 1

    def f(x):
        return x * k
    cell = cell_of(f, "k")
    yield from follow(compile, f, *[functools.partial(setattr, cell, "cell_contents", v) for v in (2, 3)], lambda: delattr(cell, "cell_contents"))
    k = 9


@program(FAMILY)
def a_cell_that_is_empty_at_first(compile):
    def f(x):
        try:
            return x * k
        except NameError:
            return x
    cell = cell_of(f, "k")
    yield from follow(compile, f, *put(cell, "cell_contents", 2, 3), lambda: delattr(cell, "cell_contents"))
    k = 9


@program(FAMILY)
def a_cell_of_an_inner_function(compile):
    def make():
        k = 1

        def inner():
            return k
        return inner, lambda v: cell_of(inner, "k").__setattr__("cell_contents", v)
    inner, change = make()
    yield from follow(compile, lambda x: x * inner(), lambda: change(2), lambda: change(3))


@program(FAMILY)
def the_class_of_an_object_changes(compile):
    A, B = type("A", (Box,), {"k": 1, "m": lambda self: 1}), type("B", (Box,), {"k": 2, "m": lambda self: 5})
    for f in (lambda x: x * b.k, lambda x: x * b.m(), lambda x: x * (2 if isinstance(b, A) else 3), lambda x: x * len(type(b).__name__ + "s" * b.k)):
        b = A()
        yield from follow(compile, f, *put(b, "__class__", B, A, B))


@program(FAMILY)
def the_bases_of_a_class_change(compile):
    A, B = type("A", (Box,), {"k": 1}), type("B", (Box,), {"k": 2})
    C = type("C", (A,), {})
    b = C()
    yield from follow(compile, lambda x: x * b.k + isinstance(b, A), *put(C, "__bases__", (B,), (A,), (B, A)))


@program(FAMILY)
def the_dict_of_an_object_changes(compile):
    b = boxed(k=1)
    yield from follow(compile, lambda x: x * b.k, *put(b, "__dict__", {"k": 2}, {"k": 3}), lambda: b.__dict__.update(k=4), lambda: vars(b).clear())


@program(FAMILY)
def the_code_of_a_function_changes(compile):
    def a():
        return 1

    def b(k=3):
        return k

    def c():
        return a() + b()
    yield from follow(compile, lambda x: x * c(), *put(a, "__code__", (lambda: 7).__code__, (lambda: 8).__code__), *put(b, "__defaults__", (4,), (5,)),
                      *put(c, "__code__", (lambda: 2).__code__))


@program(FAMILY)
def a_function_that_did_not_run_is_inspected(compile):
    def other(k=3):
        return k
    other.weight = 1
    yield from follow(compile, lambda x: x * (other.__defaults__[0] + other.weight + other.__code__.co_argcount), *put(other, "__defaults__", (4,), (5, )),
                      *put(other, "weight", 2, 3), *put(other, "__code__", (lambda a, b: 1).__code__))


@program(FAMILY)
def a_function_that_did_not_run_runs_later(compile):
    flag, weight = [False], [1]

    def other():
        return weight[0]

    def f(x):
        return x * (other() if flag[0] else 2)
    yield from follow(compile, f, *put_item(weight, 0, 2), *put_item(flag, 0, True), *put_item(weight, 0, 3, 4), *put_item(flag, 0, False),
                      *put_item(weight, 0, 5), *put_item(flag, 0, True))


@program(FAMILY)
def a_branch_runs_by_an_argument(compile):
    weight = {"a": 1}

    def other():
        return weight["a"]
    g = compile(lambda x, k: x * (other() if k == "a" else 2))
    for k, w in (("b", 1), ("b", 1), ("b", 2), ("a", 2), ("a", 2), ("a", 3), ("b", 3), ("a", 4), ("a", 4), ("a", 5)):
        weight["a"] = w
        yield g(torch.ones(2), k)


@program(FAMILY)
def a_branch_runs_by_a_size(compile):
    weight = boxed(k=1)

    def other():
        return weight.k
    g = compile(lambda x: x * (other() if len(x) > 2 else 2))
    for n, w in ((2, 1), (2, 1), (2, 1), (3, 2), (3, 2), (4, 3), (3, 3), (2, 3), (5, 4), (5, 5)):
        weight.k = w
        yield g(torch.ones(n))


@program(FAMILY)
def a_descriptor_counts(compile):
    class Count:
        n = 0

        def __get__(self, holder, cls):
            self.n += 1
            return self.n
    Holder = type("Holder", (), {"k": Count()})
    b = Holder()
    yield from follow(compile, lambda x: x * b.k)


@program(FAMILY)
def a_property_counts_in_a_global(compile):
    seen = collections.Counter()

    class Holder:
        @property
        def k(self):
            seen["k"] += 1
            return seen["k"]
    b = Holder()
    yield from follow(compile, lambda x: x * b.k)
    yield dict(seen)


@program(FAMILY)
def a_property_in_c(compile):
    class Holder:
        k = property(operator.attrgetter("held.weight"))
    b = Holder()
    b.held = boxed(weight=1)
    W = type("W", (), {"weight": 7})
    yield from follow(compile, lambda x: x * b.k, *put(b.held, "weight", 2, 3), *put(b, "held", W(), W()), *put(W, "weight", 8, 9))


@program(FAMILY)
def a_cached_property_of_a_base(compile):
    class Holder:
        @functools.cached_property
        def k(self):
            return self.base + 1
    b = Holder()
    b.base = 1
    yield from follow(compile, lambda x: x * b.k, *put(b, "base", 2), lambda: b.__dict__.pop("k"), *put(b, "base", 3), lambda: b.__dict__.update(k=9))


def of_calls(name, f, *changes):
    def of(compile):
        renew()
        try:
            yield from follow(compile, f, *changes, start=6)
        finally:
            os.path.exists(PATH) and os.remove(PATH)
    of.__name__ = name
    program(FAMILY)(of)


PATH = os.path.join(tempfile.gettempdir(), f"cresset_gate_{os.getpid()}")
shared = Box()


def renew():
    """Makes the state of all programs anew."""
    target = boxed(k=1)
    shared.__dict__.clear()
    shared.__dict__.update(
        r=random.Random(0), it=itertools.count(1), d=collections.deque([1]), target=target, event=threading.Event(), lock=threading.Lock(),
        text=io.StringIO("1 2 3 4 5 6 7 8 9"), ns=types.SimpleNamespace(k=1), od=collections.OrderedDict(a=1, b=2), weak=weakref.ref(target),
        proxy=weakref.proxy(target), keys=weakref.WeakKeyDictionary({target: 1}))
    sys.setrecursionlimit(1000)
    os.environ.pop("CRESSET_GATE", None)
    set_module(1)
    written("1")


def written(text):
    with open(PATH, "w") as file:
        file.write(text)


def read_file(x):
    with open(PATH) as file:
        return x * int(file.read())


def imported_in_the_call(x):
    import cresset_gate_module as m
    return x * m.k


def imported_names(x):
    from cresset_gate_module import k
    return x * k


def set_module(k):
    m = types.ModuleType("cresset_gate_module")
    m.k = k
    sys.modules["cresset_gate_module"] = m


of_calls("draws", lambda x: x * shared.r.random() if shared.r.seed(3) is None else x)
of_calls("draws_of_the_module", lambda x: x * (random.random() < 2) + random.randint(1, 9), *[functools.partial(random.seed, k) for k in (1, 1, 2)])
of_calls("a_clock", lambda x: x * (time.perf_counter() > 0))
of_calls("a_file", read_file, functools.partial(written, "2"), functools.partial(written, "3"))
of_calls("a_file_by_os", lambda x: x * os.path.getsize(PATH), functools.partial(written, "22"), functools.partial(written, "333"))
of_calls("a_file_that_exists", lambda x: x * (1 + os.path.exists(PATH)), lambda: os.remove(PATH), lambda: written("1"))
of_calls("a_text_that_is_read", lambda x: x * int(shared.text.read(2)))
of_calls("a_counter_by_next", lambda x: x * next(shared.it))
of_calls("a_counter_by_zip", lambda x: x * [i for i, _ in zip(shared.it, "ab")][0])
of_calls("a_queue", lambda x: x * shared.d[0], lambda: shared.d.appendleft(2), lambda: shared.d.rotate(1), lambda: shared.d.clear())
of_calls("a_length_of_a_queue", lambda x: x * len(shared.d), lambda: shared.d.append(2), lambda: shared.d.append(2))
of_calls("a_weak_reference", lambda x: x * shared.weak().k, *put("target", "k", 2, 3))
of_calls("a_weak_proxy", lambda x: x * shared.proxy.k, *put("target", "k", 2, 3))
of_calls("a_weak_dict", lambda x: x * shared.keys[shared.target], *put_item("keys", "target", 2, 3))
of_calls("an_event", lambda x: x * (1 + shared.event.is_set()), lambda: shared.event.set(), lambda: shared.event.clear())
of_calls("a_lock", lambda x: x * (1 + shared.lock.locked()), lambda: shared.lock.acquire(), lambda: shared.lock.release())
of_calls("a_namespace", lambda x: x * shared.ns.k, *put("ns", "k", 2, 3))
of_calls("an_order", lambda x: x * list(shared.od.values())[0], lambda: shared.od.move_to_end("a"), lambda: shared.od.move_to_end("b"))
of_calls("an_order_by_next_iter", lambda x: x * shared.od[[*shared.od][0]], lambda: shared.od.move_to_end("a"), lambda: shared.od.move_to_end("b"))
of_calls("an_import", imported_in_the_call, *[functools.partial(set_module, k) for k in (2, 3)], lambda: setattr(sys.modules["cresset_gate_module"], "k", 4),
         lambda: sys.modules.pop("cresset_gate_module"), lambda: set_module(5))
of_calls("an_import_of_a_name", imported_names, *[functools.partial(set_module, k) for k in (2, 3)],
         lambda: setattr(sys.modules["cresset_gate_module"], "k", 4), lambda: delattr(sys.modules["cresset_gate_module"], "k"), lambda: set_module(5))
of_calls("an_import_by_importlib", lambda x: x * importlib.import_module("cresset_gate_module").k, *[functools.partial(set_module, k) for k in (2, 3)])
of_calls("modules_by_name", lambda x: x * sys.modules["cresset_gate_module"].k, *[functools.partial(set_module, k) for k in (2, 3)])
of_calls("an_environment", lambda x: x * int(os.environ.get("CRESSET_GATE", "1")), lambda: os.environ.update(CRESSET_GATE="2"),
         lambda: os.environ.__setitem__("CRESSET_GATE", "3"), lambda: os.environ.pop("CRESSET_GATE"))
of_calls("an_environment_by_getenv", lambda x: x * int(os.getenv("CRESSET_GATE", "1")), lambda: os.environ.update(CRESSET_GATE="2"),
         lambda: os.environ.pop("CRESSET_GATE"))
of_calls("an_environment_has", lambda x: x * (1 + ("CRESSET_GATE" in os.environ)), lambda: os.environ.update(CRESSET_GATE="2"), lambda: os.environ.pop("CRESSET_GATE"))
of_calls("a_length_of_the_environment", lambda x: x * (len(os.environ) > len(os.environ) - 1) + (os.environ.get("CRESSET_GATE") is None),
         lambda: os.environ.update(CRESSET_GATE="2"), lambda: os.environ.pop("CRESSET_GATE"))
of_calls("a_builtin_that_is_hidden", lambda x: x * abs(-2), lambda: globals().__setitem__("abs", lambda v: 7), lambda: globals().pop("abs"))
of_calls("a_builtin_that_is_replaced", lambda x: x * divmod(7, 2)[0], lambda: setattr(builtins, "divmod", lambda a, b: (9, 0)),
         functools.partial(setattr, builtins, "divmod", divmod))
of_calls("a_copy_of_an_object", lambda x: x * copy.copy(shared.target).k, *put("target", "k", 2, 3),
         lambda: setattr(Box, "__copy__", lambda self: boxed(k=9)), lambda: delattr(Box, "__copy__"))
of_calls("a_deep_copy", lambda x: x * copy.deepcopy(shared.ns).k, *put("ns", "k", 2, 3))
of_calls("a_recursion_limit", lambda x: x * (sys.getrecursionlimit() > 1001), lambda: sys.setrecursionlimit(1001), lambda: sys.setrecursionlimit(3000))
of_calls("a_count_of_threads", lambda x: x * threading.active_count())
of_calls("the_name_of_this_thread", lambda x: x * len(threading.current_thread().name), lambda: setattr(threading.current_thread(), "name", "abc"),
         lambda: setattr(threading.current_thread(), "name", "MainThread"))


@program(FAMILY)
def a_thread_changes_what_is_read(compile):
    b = boxed(k=1)

    def change(k):
        t = threading.Thread(target=setattr, args=(b, "k", k))
        t.start()
        t.join()
    yield from follow(compile, lambda x: x * b.k, lambda: change(2), lambda: change(3))


@program(FAMILY)
def a_thread_runs_part_of_the_call(compile):
    b = boxed(k=1)

    def f(x):
        out = []
        t = threading.Thread(target=lambda: out.append(b.k))
        t.start()
        t.join()
        return x * out[0]
    yield from follow(compile, f, *put(b, "k", 2, 3))


@program(FAMILY)
def a_hook_of_a_module_reads_state(compile):
    net, state = torch.nn.Linear(2, 2), boxed(k=1)
    net.register_forward_hook(lambda module, args, out: out * state.k)
    yield from follow(compile, lambda x: net(x), *put(state, "k", 2, 3))


@program(FAMILY)
def hooks_of_a_module_in_c(compile):
    net, seen = torch.nn.Linear(2, 2), []
    net.register_forward_pre_hook(functools.partial(operator.setitem, {}))
    net.register_forward_hook(seen.append)
    yield from follow(compile, lambda x: net(x))
    yield len(seen)


@program(FAMILY)
def a_generator_that_began_before(compile):
    state = boxed(k=1)

    def steps():
        while True:
            yield state.k
    it = steps()
    next(it)
    yield from follow(compile, lambda x: x * next(it), *put(state, "k", 2, 3))


@program(FAMILY)
def a_registry_of_functions(compile):
    registry, state = {}, boxed(k=1)

    def register(f):
        registry[f.__name__] = f
        return f

    @register
    def double():
        return 2 * state.k
    chosen = ["double"]
    yield from follow(compile, lambda x: x * registry["".join(chosen)](), *put(state, "k", 2, 3), *put_item(registry, "double", lambda: 11))


@program(FAMILY)
def numpy_state(compile):
    import numpy
    numpy.random.seed(0)
    a = numpy.ones(2)
    yield from follow(compile, lambda x: x * float(a[0]), *put_item(a, 0, 2., 3.))
    yield from follow(compile, lambda x: x * float(numpy.random.rand()), *[functools.partial(numpy.random.seed, k) for k in (1, 1)])
