"""Reports about Python's own semantics: objects, classes, iteration, functions, state of the process."""
import collections
import contextvars
import dataclasses
import functools
import random
import threading
import types
import weakref

import cresset as torch
from cresset import nn

from ..harness import attempt
from . import reported

factor = 1.0
helper = torch.sin
level = 0
hits = 0
region = None


@reported(197896, "changes of a captured list by a method of a class made inside are lost")
def local_class_writes_a_captured_list(compile):
    log, state = [], {"n": 0}

    def f(x):
        class Recorder:
            def touch(self, value):
                log.append(value)
                state["n"] += 1
        Recorder().touch(x.shape[0])
        return x + state["n"]
    g = compile(f)
    for n in (2, 2, 3):
        yield g(torch.ones(n)), list(log), dict(state)


@reported(169253, "appending to a list of a class is lost")
def appends_to_a_list_of_the_class(compile):
    class Model(nn.Module):
        seen = []

        def forward(self, x):
            Model.seen.append(x * 2)
            return x + len(Model.seen)
    m = Model()
    f = compile(m)
    for i in range(3):
        yield f(torch.full((2,), float(i))), list(Model.seen)


@reported(196173, "a branch on the identity of two attributes is reused after they are exchanged")
def toggles_by_identity(compile):
    class Switch:
        def __init__(self):
            self.on, self.off = object(), object()
            self.now = self.on
    s = Switch()

    def f(x):
        is_on = s.now is s.on
        s.now = s.off if is_on else s.on
        return x.square() if is_on else -x
    g = compile(f)
    for _ in range(6):
        yield g(torch.tensor([2., 3.])), s.now is s.on


@reported(175855, "a list that grows while a generator reads it")
def list_grows_while_it_is_read(compile):
    def f(x):
        values = [x.sum()]

        def grow():
            for v in values:
                if len(values) < 3:
                    values.append(v + 1)
                yield v
        return torch.stack(list(grow())).sum()
    g = compile(f)
    for i in range(3):
        yield g(torch.full((2,), float(i)))


@reported(103563, "an element of a nested list is stored and read again in a loop")
def nested_list_is_stored_and_read(compile):
    def f(x):
        rows = [[1, 2, 3], [4, 5, 6]]
        for i in range(3):
            rows[0][i] = x if i == 0 else rows[0][i - 1] + 1
        return rows[0][-1], rows[1][-1]
    g = compile(f)
    for i in range(3):
        yield g(torch.full((2,), float(i)))


@reported(115774, "a tensor attribute that the program replaced is still the old one")
def replaced_cache(compile):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = torch.tensor([0, 0])

        def forward(self, x, at):
            self.cache[at] = x
            return self.cache
    m = Model()
    f = compile(m)
    for i in range(4):
        yield f(torch.tensor([i + 2]), torch.tensor([i % 2])), m.cache
        if i == 1:
            m.cache = torch.tensor([0, 0])


@reported(191821, "a region that is called twice reads a global that changed between")
def region_reads_a_changed_global(compile):
    global region
    region = types.SimpleNamespace(value=torch.tensor(0))

    @torch.compiler.nested_compile_region
    def step():
        return region.value + 1

    def f(x):
        global region
        for _ in range(2):
            region = types.SimpleNamespace(value=x)
            x = step()
        return x
    g = compile(f)
    for i in range(3):
        yield g(torch.tensor(i))


@reported(196211, "iter() of a reversed iterator that was partly consumed")
def reversed_iterator_that_was_advanced(compile):
    def f(x, it):
        first = next(it)
        again = iter(it)
        return x + first * 10 + next(again), list(it)
    g = compile(f)
    for _ in range(3):
        yield g(torch.tensor(1), reversed([3, 5, 7, 9]))


@reported(198190, "a generator that is returned has lost its value and its remaining items")
def returned_generator(compile):
    def f(x):
        def items():
            yield x * 1
            yield x * 2
            return 7
        return items()
    g = compile(f)
    for i in range(3):
        it, seen = g(torch.tensor(float(i))), []
        try:
            while True:
                seen.append(next(it))
        except StopIteration as e:
            seen.append(e.value)
        yield seen, type(it).__name__


@reported(152262, "an iterator that is used up does not raise StopIteration")
def used_up_iterators(compile):
    def f(x):
        for it in (iter([1, 2]), reversed([1, 2]), iter((1,)), iter({1: 2})):
            list(it)
            try:
                next(it)
            except StopIteration:
                x = x.sin()
            else:
                x = x - 100
        return x
    g = compile(f)
    for i in range(3):
        yield g(torch.tensor([float(i)]))


@reported(93737, "a generator runs as a whole before the loop that consumes it")
def generator_runs_step_by_step(compile):
    def f(x):
        order, total = [], x
        def items():
            for i in range(3):
                order.append(("made", i, len(order)))
                yield x * i
        for item in items():
            order.append("used")
            total = total + item * len(order)
        return total, order
    g = compile(f)
    for i in range(3):
        yield g(torch.full((2,), float(i + 1)))


@reported(198197, "getattr of a missing attribute of a builtin type does not raise")
def missing_attribute_of_a_builtin_type(compile):
    def f(x):
        for kind in (int, str, list, dict, type):
            try:
                getattr(kind, "no_such_name")
            except AttributeError:
                x = x.cos()
            else:
                x = x.sin()
        return x
    g = compile(f)
    for i in range(3):
        yield g(torch.tensor([float(i)]))


@reported(190755, "a method of list that another class borrows binds without a TypeError")
def borrowed_method_is_refused(compile):
    class NoList:
        append = list.append
    o = NoList()

    def f(x):
        try:
            o.append(1)
        except TypeError:
            return x + 1
        return x - 1
    g = compile(f)
    for i in range(3):
        yield g(torch.tensor([float(i)]))


@reported(111522, "an attribute of the class that was deleted after the first call")
def deleted_class_attribute(compile):
    class A:
        a = 2
    o = A()
    g = compile(lambda x: x + getattr(o, "a", 5))
    yield g(torch.zeros(2))
    yield g(torch.zeros(2))
    del A.a
    yield g(torch.zeros(2))
    A.a = 3
    yield g(torch.zeros(2))
    o.a = 4
    yield g(torch.zeros(2))


@reported(186671, "a set is compared with a subclass whose __iter__ gives other items")
def set_subclass_with_another_iter(compile):
    class Odd(set):
        def __iter__(self):
            return iter([99])
    plain, odd = {1, 2, 3}, Odd({1, 2, 3})
    g = compile(lambda x: (x + 1, plain == odd, odd == plain, sorted(odd)))
    for i in range(3):
        yield g(torch.tensor([float(i)]))
        if i == 1:
            odd.add(4)


@reported(176851, "an attribute of a class that changed between calls")
def changed_class_attribute(compile):
    class State:
        factor = 1.0
    g = compile(lambda x: x * State.factor)
    for v in (1.0, 10.0, 10, True):
        State.factor = v
        yield g(torch.tensor([4.]))


@reported(174050, "assigning __class__ does not change the class")
def assigned_class(compile):
    class Base:
        kind = 1

        def scale(self):
            return 2

    class Derived(Base):
        kind = 3

        def scale(self):
            return 5

    def f(x):
        o = Base()
        o.__class__ = Derived
        return x * o.scale() + o.kind, isinstance(o, Derived), type(o).__name__
    g = compile(f)
    for i in range(3):
        yield g(torch.tensor([float(i)]))


@reported(138112, "a nonlocal that one function changed is old in another")
def nonlocal_of_two_functions(compile):
    z, k = 1, 2

    def reader():
        nonlocal k
        k = z

    def f(x):
        nonlocal z
        z += 3
        reader()
        return x.cos() + k
    g = compile(f)
    for i in range(3):
        yield g(torch.tensor([float(i)])), z, k


@reported(143425, "a global that a function of another module changes through a callback")
def global_through_another_module(compile):
    global level
    level = 0
    other = types.ModuleType("other")
    exec("def run(fn, x):\n    return fn(x)", other.__dict__)

    def bump(x):
        global level
        level += 100
        return x.sin()

    def f(x):
        y = other.run(bump, x)
        return y + level
    g = compile(f)
    for i in range(3):
        yield g(torch.tensor([float(i)])), level


@reported(159139, "an empty ModuleList is true once compiled")
def truth_of_compiled_lists(compile):
    yield bool(compile(nn.ModuleList())), bool(compile(nn.ModuleList([nn.ReLU()]))), bool(compile(nn.Sequential()))


@reported(102315, "an empty ModuleList is true in a condition")
def truth_of_module_lists(compile):
    layers = nn.ModuleList()
    g = compile(lambda x: x + 1 if layers else x - 1)
    for i in range(4):
        yield g(torch.zeros(2))
        if i == 1:
            layers.append(nn.ReLU())


@reported(117496, "a float argument keeps its first value", "inductor")
def float_argument(compile):
    @compile
    def f(a, b, t=1.0):
        return a + b + t
    for t in (8.0, 4.0, 2.0, 1.0, 0.5, 3):
        yield f(torch.ones(3, 3, 1), torch.ones(3, 3, 1), t=t)
    yield f(torch.ones(3, 3, 1), torch.ones(3, 3, 1))


@reported(124357, "an attribute that a method of the module changed keeps its first value", "inductor")
def attribute_changed_by_a_method(compile):
    class Toy(nn.Module):
        def __init__(self):
            super().__init__()
            self.value, self.base = -1, torch.ones(2, 3)

        def set(self, value):
            self.value = value

        def forward(self, x):
            return self.base + self.value + x
    m = Toy()
    f = compile(m)
    for v in (6, 8, 10, -1):
        m.set(v)
        yield f(torch.tensor(1.))


@reported(108898, "a global function that was replaced is still called", "aot")
def replaced_global_function(compile):
    global helper
    helper = lambda x: torch.sin(x) + 20  # noqa: E731

    def f(x, y):
        def add(a, b):
            return a + b
        return add(helper(x), y)
    g = compile(f)
    yield g(torch.ones(1), torch.ones(1))
    yield g(torch.ones(1), torch.ones(1))
    helper = torch.cos
    yield g(torch.ones(1), torch.ones(1))


@reported(178365, "functions that differ in their defaults share a graph")
def functions_with_other_defaults(compile):
    def make(n):
        def inner(x, scale=n):
            return x * scale
        return inner
    g = compile(lambda fn, x: fn(x) + 1)
    for n in (2, 3, 3, 5):
        yield g(make(n), torch.ones(2))
    fn = make(7)
    yield g(fn, torch.ones(2))
    fn.__defaults__ = (9,)
    yield g(fn, torch.ones(2))


@reported(146598, "a cached function is entered at every call")
def cached_function(compile):
    global hits
    hits = 0

    @functools.cache
    def offset(n):
        global hits
        hits += 1
        return n + 1
    g = compile(lambda x, n: x + offset(n))
    for n in (1, 1, 2, 1, 2):
        yield g(torch.ones(2), n), hits


@reported(197101, "random.seed() inside has no effect on the first call")
def seeded_inside(compile):
    def f(x):
        random.seed(3)
        return x + random.random(), random.randint(1, 100)
    g = compile(f)
    for _ in range(3):
        yield g(torch.zeros(2))


@reported(197085, "random.shuffle and random.sample give one permutation for ever")
def shuffles_inside(compile):
    def f(x):
        order = list(range(6))
        random.shuffle(order)
        return x[torch.tensor(order)], random.sample(range(50), 3)
    g = compile(f)
    for _ in range(4):
        yield g(torch.arange(6.)), random.random()


@reported(196437, "a Random object repeats a number after a new shape")
def random_object_and_shapes(compile):
    source = random.Random(7)
    g = compile(lambda x: x + source.randint(1, 100), dynamic=True)
    for shape in ([1], [1, 5], [2, 2], [2, 3], [4, 3]):
        yield g(torch.zeros(shape))


@reported(129882, "a formatted size is the name of a symbol")
def formatted_size(compile):
    g = compile(lambda x: (f"{x.size(0)} by {x.size(1):03d} {x.shape}", x * 2), dynamic=True)
    for shape in ((4, 3), (5, 3), (6, 7)):
        yield g(torch.ones(shape))


@reported(120409, "an assert on a size is ignored")
def assert_on_a_size(compile):
    def f(x):
        assert x.shape[0] > 4, "too short"
        return x + 1
    g = compile(f)
    for n in (2, 5, 6, 3, 7):
        yield attempt(g, torch.zeros(n))


@reported(147597, "a weak reference is alive after its object was deleted")
def weak_reference_after_del(compile):
    def f(x):
        o = torch.tensor([1., 2.])
        r = weakref.ref(o)
        a = x + 1 if r() is None else x - 1
        del o
        return a, x + 1 if r() is None else x - 1
    g = compile(f)
    for i in range(3):
        yield g(torch.full((2,), float(i)))


@reported(192872, "a list of a class made inside loses its item at a graph break")
def class_made_inside_and_a_break(compile):
    def f(x):
        class Holder:
            items = []
        Holder.items.append(1)
        y = x * 2
        torch._dynamo.graph_break()
        Holder.items.append(2)
        return y.sum() + len(Holder.items)
    g = compile(f)
    for i in range(3):
        yield g(torch.full((2,), float(i)))


@reported(192272, "a list of a class made inside is copied at every read")
def class_made_inside(compile):
    def f(x):
        class Holder:
            items = []
        Holder.items.append(1)
        Holder().items.append(2)
        return x + len(Holder.items), Holder.items is Holder().items
    g = compile(f)
    for i in range(3):
        yield g(torch.full((2,), float(i)))


@reported(176599, "setter and getter of a property are bypassed")
def property_with_a_setter(compile):
    class Limited:
        def __init__(self):
            self._v = 0

        @property
        def v(self):
            return self._v * 10

        @v.setter
        def v(self, value):
            self._v = min(value, 3)
    o = Limited()

    def f(x, n):
        o.v = n
        return x + o.v
    g = compile(f)
    for n in (1, 2, 7, 5):
        yield g(torch.zeros(2), n), o._v, o.v


@reported(196467, "torch.Tensor(size) becomes a tensor of the numbers")
def legacy_constructor_of_a_size(compile):
    g = compile(lambda x: torch.Tensor(x.size()).fill_(2))
    for shape in ((1, 4), (1, 4), (3, 2)):
        yield g(torch.ones(shape))


@reported(104066, "a thread-local value is lost")
def thread_local_value(compile):
    store = threading.local()
    store.x = torch.zeros(1)

    def f(x):
        return torch.cat([x, store.x])
    g = compile(f)
    for i in range(4):
        yield g(torch.ones(1))
        store.x = torch.full((1,), float(i))
    seen = []

    def other():
        store.x = torch.full((1,), -1.)
        seen.append(g(torch.ones(1)))
    t = threading.Thread(target=other)
    t.start()
    t.join()
    yield seen


@reported(190578, "a ContextVar that is set before an operator of the program is read as the old one")
def context_variable(compile):
    var = contextvars.ContextVar("scale", default=1.)

    def f(x, v):
        token = var.set(v)
        y = x * var.get()
        var.reset(token)
        return y + var.get()
    g = compile(f)
    for v in (2., 3., 3., 5.):
        yield g(torch.ones(2), v), var.get()


@reported(161610, "an attribute that is added to an instance of a named tuple's subclass is lost")
def attribute_of_a_named_tuple(compile):
    class Point(collections.namedtuple("Point", "x y")):
        pass
    p = Point(torch.ones(2), torch.zeros(2))

    def f(q):
        q.sum = q.x + q.y
        return q.sum * 2
    g = compile(f)
    for i in range(3):
        q = Point(p.x * i, p.y + 1)
        yield g(q), q.sum


@reported(150110, "dict.items() is returned as a tuple")
def returned_views_of_a_dict(compile):
    def f(x):
        d = {"a": 1, "b": x}
        return d.items(), d.keys(), type(d.values()).__name__
    g = compile(f)
    for i in range(3):
        items, keys, name = g(torch.tensor(float(i)))
        yield type(items).__name__, list(items), type(keys).__name__, list(keys), name


@reported(169010, "a functools.partial as the key of a dict")
def partial_as_a_key(compile):
    def add(x, y):
        return x + y

    def f(x):
        one, two = functools.partial(add, 1), functools.partial(add, 1)
        table = {one: 5, two: 7}
        return x * table[one] + len(table), table[two]
    g = compile(f)
    for i in range(3):
        yield g(torch.full((2,), float(i)))


@reported(132986, "eval() and train() of a compiled module do not reach it")
def train_and_eval_of_the_compiled_module(compile):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(3))
    f = compile(m)
    for mode in (True, False, True, False):
        (f.train() if mode else f.eval())
        yield m.training, f.training, m[0].training
        torch.manual_seed(1)
        yield f(torch.arange(12.).reshape(4, 3)), m[1].running_mean, m[1].num_batches_tracked


@reported(173221, "fields of a frozen data class made inside are not set yet when they are read")
def frozen_data_class(compile):
    @dataclasses.dataclass(frozen=True)
    class Pair:
        a: object
        b: object

        def total(self):
            return self.a + self.b

    def f(x):
        p = Pair(x, x * 2)
        return p.total(), dataclasses.replace(p, b=x * 3)
    g = compile(f)
    for i in range(3):
        t, p = g(torch.full((2,), float(i)))
        yield t, p.a, p.b


@reported("pytorch/torchdynamo#318", "an error that depends on a value is not caught by the handler")
def handler_of_a_division(compile):
    def f(x):
        try:
            return 1 // x
        except RuntimeError:
            return x + 2
    g = compile(f)
    for v in (1, 0, 2, 0):
        yield g(torch.tensor(v))


@reported("pytorch/torchdynamo#1446", "no_grad is forgotten after a graph break inside of it")
def no_grad_over_a_break(compile):
    def f(x):
        with torch.no_grad():
            y = torch.sin(x)
            torch._dynamo.graph_break()
            y = torch.sin(y)
        return y, x * 2
    g = compile(f)
    for i in range(3):
        yield g(torch.full((2,), float(i), requires_grad=True)), torch.is_grad_enabled()


@reported(102414, "autocast is lost when a call inside of it cannot be captured")
def autocast_over_a_break(compile):
    def inner(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = torch.mm(x, y)
            torch._dynamo.graph_break()
            return torch.mm(z, y)
    g = compile(lambda x, y: (torch.mm(x, y), inner(x, y)))
    for i in range(3):
        yield g(torch.full((2, 2), float(i)), torch.eye(2)), torch.is_autocast_enabled("cpu")


@reported(195488, "autocast stays on after an operator raised inside of it")
def autocast_after_an_error(compile):
    @compile
    def f(x, i):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x.index_select(0, i) @ x
    x = torch.ones(4, 4)
    for i in (1, 9, 2, 9):
        yield attempt(f, x, torch.tensor([i]))[0], torch.is_autocast_enabled("cpu"), (x @ x).dtype


@reported(176679, "__torch_function__ of a subclass is not called")
def subclass_with_a_function(compile):
    class Scaled(torch.Tensor):
        seen = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen += 1
            out = super().__torch_function__(func, types, args, kwargs or {})
            return out * 10 if func is torch.add else out
    g = compile(lambda x: torch.add(x, 1).sum())
    for i in range(3):
        x = torch.full((2,), float(i)).as_subclass(Scaled)
        yield g(x), Scaled.seen
        yield g(torch.full((2,), float(i)))


@reported(176686, "a state of the class that __torch_function__ reads is constant")
def subclass_with_a_state(compile):
    class Tagged(torch.Tensor):
        tag = 1

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            out = super().__torch_function__(func, types, args, kwargs or {})
            return out + cls.tag if func is torch.mul else out
    g = compile(lambda x: torch.mul(x, 2))
    for i in range(4):
        yield g(torch.full((2,), float(i)).as_subclass(Tagged))
        Tagged.tag += 1


@reported(165775, "changes of a dict by a checkpointed function are not repeated in backward")
def checkpoint_repeats_changes(compile):
    checkpoint = torch.utils.checkpoint.checkpoint
    counts = {"n": 0}

    def body(x):
        counts["n"] += 1
        return torch.sin(x) * 2
    g = compile(lambda x: checkpoint(body, x, use_reentrant=False))
    for i in range(3):
        x = torch.full((2,), float(i), requires_grad=True)
        y = g(x)
        yield y, counts["n"]
        y.sum().backward()
        yield x.grad, counts["n"]


@reported(185382, "a loop around a function with item() and an in-place operator", "inductor")
def adam_loop_with_item(compile):
    def step(p, g, m, v, t):
        t.add_(1)
        m.mul_(0.9).add_(g, alpha=0.1)
        v.mul_(0.999).addcmul_(g, g, value=0.001)
        n = t.item()
        p.addcdiv_(m, (v.sqrt() / (1 - 0.999 ** n) ** 0.5).add_(1e-8), value=-0.001 / (1 - 0.9 ** n))

    def f(p, g):
        p, m, v, t = p.clone(), torch.zeros_like(p), torch.zeros_like(p), torch.tensor(0.)
        for _ in range(5):
            step(p, g, m, v, t)
        return p
    g = compile(f)
    for i in range(2):
        torch.manual_seed(i)
        yield g(torch.randn(8), torch.randn(8))
