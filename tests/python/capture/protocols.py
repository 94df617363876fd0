"""Special methods and protocols of Python that compiled code meets, each with a state that changes."""
import collections
import contextlib
import copy
import enum
import functools
import itertools
import math
import operator
import types

import cresset as torch
from cresset import nn

from .harness import program, steps

FAMILY = "special methods"
ones = torch.ones(2)


class Box:
    """An object whose attributes are the state of a program."""

    def __init__(self, **state):
        self.__dict__.update(state)

    def set(self, **state):
        return lambda: self.__dict__.update(state)


@program(FAMILY)
def call_of_an_object_with_state(compile):
    class Scale:
        by = 2

        def __call__(self, x):
            return x * self.by
    s = Scale()
    g = compile(lambda x: s(x) + 1)
    yield from steps(g, (ones,), (ones,), lambda: setattr(s, "by", 3), (ones,), lambda: setattr(Scale, "by", 9), (ones,),
                     lambda: delattr(s, "by"), (ones,))


@program(FAMILY)
def special_call_replaced_on_the_class(compile):
    class C:
        def __call__(self, x):
            return x + 1
    c = C()
    g = compile(lambda x: c(x) * 2)
    yield from steps(g, (ones,), (ones,), lambda: setattr(C, "__call__", lambda self, x: x - 1), (ones,), (ones,))


@program(FAMILY)
def length_of_a_class_that_computes_it(compile):
    b = Box(n=2)

    class Sized:
        def __len__(self):
            return b.n
    s = Sized()
    g = compile(lambda x: x * len(s) if s else x - 100)
    yield from steps(g, (ones,), (ones,), b.set(n=5), (ones,), b.set(n=0), (ones,), b.set(n=2), (ones,))


@program(FAMILY)
def truth_that_counts(compile):
    class Switch:
        asked = 0

        def __bool__(self):
            self.asked += 1
            return self.asked % 2 == 1
    s = Switch()
    g = compile(lambda x: x + 1 if s else x - 1)
    for _ in range(4):
        yield g(ones), s.asked


@program(FAMILY)
def getitem_with_slices_and_tuples(compile):
    class Grid:
        shift = 0

        def __getitem__(self, key):
            if isinstance(key, slice):
                return (key.stop or 0) + self.shift
            return sum(key) if isinstance(key, tuple) else key
    grid = Grid()
    g = compile(lambda x: x * grid[:3] + grid[1, 2] - grid[4])
    yield from steps(g, (ones,), (ones,), lambda: setattr(grid, "shift", 2), (ones,))


@program(FAMILY)
def contains_that_the_program_defines(compile):
    class Even:
        also = ()

        def __contains__(self, n):
            return n % 2 == 0 or n in self.also
    e = Even()
    g = compile(lambda x, n: x + 1 if n in e else x - 1)
    yield from steps(g, (ones, 2), (ones, 3), (ones, 2), lambda: setattr(e, "also", (3,)), (ones, 3))


@program(FAMILY)
def reflected_operator_with_a_tensor(compile):
    class Weight:
        w = 2.

        def __radd__(self, x):
            return x * self.w

        def __rmatmul__(self, x):
            return x @ torch.eye(2) * self.w
    w = Weight()
    g = compile(lambda x: (x + w, x @ w))
    yield from steps(g, (ones,), (ones,), lambda: setattr(w, "w", 5.), (ones,), (torch.eye(2),))


@program(FAMILY)
def inplace_operator_of_an_object(compile):
    class Total:
        value = 0

        def __iadd__(self, x):
            self.value = self.value + x
            return self
    t = Total()

    def f(x):
        nonlocal t
        t += x
        return t.value * 2
    g = compile(f)
    yield from steps(g, (ones,), (ones,), (ones * 3,))
    yield t.value


@program(FAMILY)
def comparison_that_returns_no_bool(compile):
    class Odd:
        answer = "yes"

        def __lt__(self, other):
            return self.answer
    o = Odd()
    g = compile(lambda x: x + 1 if (o < 3) == "yes" else x - 1)
    yield from steps(g, (ones,), (ones,), lambda: setattr(o, "answer", "no"), (ones,))


@program(FAMILY)
def format_of_an_object(compile):
    class Named:
        n = 1

        def __format__(self, spec):
            return f"<{self.n:{spec}}>"
    o = Named()
    g = compile(lambda x: (x + o.n, f"{o:03d}"))
    yield from steps(g, (ones,), (ones,), lambda: setattr(o, "n", 42), (ones,))


@program(FAMILY)
def missing_of_a_dict_subclass(compile):
    class Defaults(dict):
        base = 10

        def __missing__(self, key):
            return self.base + key
    d = Defaults({1: 5})
    g = compile(lambda x, k: x * d[k])
    yield from steps(g, (ones, 1), (ones, 2), (ones, 2), lambda: d.__setitem__(2, 7), (ones, 2),
                     lambda: setattr(Defaults, "base", 20), (ones, 3))
    yield dict(d)


@program(FAMILY)
def getattribute_that_redirects(compile):
    class Proxy:
        def __init__(self, target):
            object.__setattr__(self, "target", target)

        def __getattribute__(self, name):
            return getattr(object.__getattribute__(self, "target"), name)
    b = Box(scale=2)
    p = Proxy(b)
    g = compile(lambda x: x * p.scale)
    yield from steps(g, (ones,), (ones,), b.set(scale=7), (ones,))


@program(FAMILY)
def data_descriptor_over_an_instance_attribute(compile):
    class Doubled:
        def __get__(self, o, owner):
            return o.__dict__["v"] * 2

        def __set__(self, o, value):
            o.__dict__["v"] = value

    class C:
        v = Doubled()
    c = C()
    c.v = 3
    g = compile(lambda x: x + c.v)
    yield from steps(g, (ones,), (ones,), lambda: setattr(c, "v", 5), (ones,), lambda: delattr(C, "v"), (ones,))


@program(FAMILY)
def slots_that_change(compile):
    class S:
        __slots__ = ("a", "b")
    s = S()
    s.a, s.b = 1, 2

    def f(x):
        return x * s.a + (s.b if hasattr(s, "b") else 100)
    g = compile(f)
    yield from steps(g, (ones,), (ones,), lambda: setattr(s, "a", 4), (ones,), lambda: delattr(s, "b"), (ones,),
                     lambda: setattr(s, "b", 2), (ones,))


@program(FAMILY)
def class_getitem_and_init_subclass(compile):
    class Base:
        made = []

        def __init_subclass__(cls, tag=0, **more):
            super().__init_subclass__(**more)
            cls.tag = tag
            Base.made.append(tag)

        def __class_getitem__(cls, n):
            return cls.tag * n

    class One(Base, tag=3):
        pass
    g = compile(lambda x: x + One[4] + len(Base.made))

    def more():
        class Two(Base, tag=5):
            pass
    yield from steps(g, (ones,), (ones,), more, (ones,), lambda: setattr(One, "tag", 7), (ones,))


@program(FAMILY)
def enum_members_and_flags(compile):
    class Mode(enum.Enum):
        SUM, MEAN = 1, 2

    class Flag(enum.IntFlag):
        A = 1
        B = 2
    g = compile(lambda x, m, f: (x.sum() if m is Mode.SUM else x.mean()) * (2 if f & Flag.B else 1))
    yield from steps(g, (ones, Mode.SUM, Flag.A), (ones, Mode.MEAN, Flag.A), (ones, Mode.SUM, Flag.A | Flag.B),
                     (ones, Mode(2), Flag(2)))


@program(FAMILY)
def abstract_class_of_the_library_registered_later(compile):
    class Rows:
        pass
    r = Rows()
    g = compile(lambda x: x + 1 if isinstance(r, collections.abc.Sequence) else x - 1)
    yield from steps(g, (ones,), (ones,), lambda: collections.abc.Sequence.register(Rows) and None, (ones,))


@program(FAMILY)
def subclass_hook_with_a_state(compile):
    b = Box(accept=False)

    class Meta(type):
        def __instancecheck__(cls, o):
            return b.accept

    class Any(metaclass=Meta):
        pass
    g = compile(lambda x: x + 1 if isinstance(x, Any) else x - 1)
    yield from steps(g, (ones,), (ones,), b.set(accept=True), (ones,))


@program(FAMILY)
def metaclass_with_a_call(compile):
    class Meta(type):
        count = 0

        def __call__(cls, *args):
            Meta.count += 1
            return super().__call__(*args)

    class P(metaclass=Meta):
        def __init__(self, v):
            self.v = v
    g = compile(lambda x: P(x * 2).v + 1)
    for i in range(3):
        yield g(ones * i), Meta.count


@program(FAMILY)
def new_that_returns_a_shared_object(compile):
    class Single:
        one = None
        n = 0

        def __new__(cls):
            if cls.one is None:
                cls.one = super().__new__(cls)
            cls.one.n += 1
            return cls.one
    g = compile(lambda x: x * Single().n)
    for _ in range(4):
        yield g(ones), Single.one.n


@program(FAMILY)
def del_that_records(compile):
    gone = []

    class Temp:
        def __init__(self, v):
            self.v = v

        def __del__(self):
            gone.append(self.v)
    def f(x, n):
        t = Temp(n)
        y = x + t.v
        del t
        return y * 2
    g = compile(f)
    for n in (1, 1, 2):
        yield g(ones, n), list(gone)


@program(FAMILY)
def reversed_and_iter_of_a_class(compile):
    class Down:
        n = 3

        def __iter__(self):
            return iter(range(self.n))

        def __reversed__(self):
            return iter(range(self.n, 0, -1))
    d = Down()

    def f(x):
        for i in d:
            x = x + i
        for i in reversed(d):
            x = x * i
        return x
    g = compile(f)
    yield from steps(g, (ones,), (ones,), lambda: setattr(d, "n", 4), (ones,))


@program(FAMILY)
def sequence_protocol_without_iter(compile):
    class Old:
        items = [1, 2, 3]

        def __getitem__(self, i):
            return self.items[i]
    o = Old()
    g = compile(lambda x: sum((x * v for v in o), torch.zeros(2)))
    yield from steps(g, (ones,), (ones,), lambda: o.items.append(10), (ones,), lambda: o.items.pop(0), (ones,))


@program(FAMILY)
def index_and_float_of_an_object(compile):
    class Num:
        v = 2

        def __index__(self):
            return self.v

        def __float__(self):
            return self.v / 4
    n = Num()
    g = compile(lambda x: x[n:] + float(n) + operator.index(n) + [10, 20, 30, 40][n])
    yield from steps(g, (torch.arange(5.),), (torch.arange(5.),), lambda: setattr(n, "v", 3), (torch.arange(5.),))


@program(FAMILY)
def copy_hooks(compile):
    class Doc:
        def __init__(self, v, made=0):
            self.v, self.made = v, made

        def __copy__(self):
            return Doc(self.v, self.made + 1)

        def __deepcopy__(self, memo):
            return Doc(copy.deepcopy(self.v, memo), self.made + 10)
    d = Doc([1, 2])

    def f(x):
        a, b = copy.copy(d), copy.deepcopy(d)
        b.v.append(3)
        return x * a.made + b.made + sum(b.v) + (100 if a.v is d.v else 0)
    g = compile(f)
    yield from steps(g, (ones,), (ones,), lambda: d.v.append(7), (ones,), lambda: setattr(d, "made", 5), (ones,))


@program(FAMILY)
def context_manager_that_counts(compile):
    class Depth:
        now = most = 0

        def __enter__(self):
            self.now += 1
            self.most = max(self.most, self.now)
            return self

        def __exit__(self, *error):
            self.now -= 1
    d = Depth()

    def f(x):
        with d, d as top:
            y = x * top.now
        return y + d.now
    g = compile(f)
    for _ in range(3):
        yield g(ones), d.now, d.most


@program(FAMILY)
def context_manager_that_swallows(compile):
    class Quiet:
        swallow, seen = True, 0

        def __enter__(self):
            return None

        def __exit__(self, kind, value, trace):
            self.seen += kind is not None
            return self.swallow
    q = Quiet()

    def f(x, fail):
        with q:
            x = x + 1
            if fail:
                raise KeyError("stop")
            x = x * 10
        return x
    g = compile(f)
    yield from steps(g, (ones, False), (ones, True), (ones, False), (ones, True),
                     lambda: setattr(q, "swallow", False), (ones, True), (ones, False))
    yield q.seen


@program(FAMILY)
def generator_context_with_state(compile):
    b = Box(scale=1)

    @contextlib.contextmanager
    def scaled(n):
        before, b.scale = b.scale, b.scale * n
        try:
            yield b.scale
        finally:
            b.scale = before

    def f(x, n):
        with scaled(n) as s, scaled(2):
            return x * b.scale + s
    g = compile(f)
    yield from steps(g, (ones, 2), (ones, 2), (ones, 3), b.set(scale=5), (ones, 3))
    yield b.scale


@program(FAMILY)
def exit_stack_and_null_context(compile):
    log = []

    def f(x, n):
        with contextlib.ExitStack() as stack:
            for i in range(n):
                stack.callback(log.append, i)
            stack.enter_context(contextlib.nullcontext())
            x = x * (n + 1)
        return x + len(log)
    g = compile(f)
    yield from steps(g, (ones, 2), (ones, 2), (ones, 3))
    yield log


@program(FAMILY)
def suppressed_and_chained_errors(compile):
    def f(x, kind):
        with contextlib.suppress(KeyError):
            if kind == 1:
                raise KeyError("one")
            x = x + 1
        try:
            if kind == 2:
                try:
                    raise ValueError("two")
                except ValueError as e:
                    raise TypeError("three") from e
        except TypeError as e:
            return x * 5, str(e.__cause__)
        return x, None
    g = compile(f)
    yield from steps(g, (ones, 0), (ones, 1), (ones, 2), (ones, 0), (ones, 2))


@program(FAMILY)
def cached_property_and_its_reset(compile):
    class C:
        base = 2

        @functools.cached_property
        def value(self):
            return self.base * 10
    c = C()
    g = compile(lambda x: x + c.value)
    yield from steps(g, (ones,), (ones,), lambda: setattr(c, "base", 3), (ones,), lambda: delattr(c, "value"), (ones,), (ones,))


@program(FAMILY)
def singledispatch_with_a_later_registration(compile):
    @functools.singledispatch
    def scale(v):
        return 1

    @scale.register
    def _(v: int):
        return 2
    g = compile(lambda x, v: x * scale(v))
    yield from steps(g, (ones, 1), (ones, "a"), (ones, 1), lambda: scale.register(str, lambda v: 7) and None, (ones, "a"))


@program(FAMILY)
def partial_objects_that_change(compile):
    def base(x, a, b=1):
        return x * a + b
    p = functools.partial(base, a=2)
    g = compile(lambda x: p(x))

    def change():
        p.keywords["a"] = 5
    yield from steps(g, (ones,), (ones,), change, (ones,), lambda: p.keywords.__setitem__("b", 3), (ones,))


@program(FAMILY)
def partial_method_and_wraps(compile):
    def twice(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            return fn(*args, **kwargs) * inner.times
        inner.times = 2
        return inner

    class C:
        n = 3

        @twice
        def add(self, x, k):
            return x + k + self.n
        add_four = functools.partialmethod(add, k=4)
    c = C()
    g = compile(lambda x: c.add_four(x))
    yield from steps(g, (ones,), (ones,), lambda: setattr(c, "n", 5), (ones,), lambda: setattr(C.add, "times", 3), (ones,))


@program(FAMILY)
def method_bound_to_another_instance(compile):
    class C:
        def __init__(self, v):
            self.v = v

        def get(self, x):
            return x * self.v
    a, b = C(2), C(5)
    g = compile(lambda x: a.get(x))
    yield from steps(g, (ones,), (ones,), lambda: setattr(a, "get", b.get), (ones,), lambda: setattr(b, "v", 7), (ones,),
                     lambda: setattr(a, "get", types.MethodType(lambda self, x: x - self.v, a)), (ones,))


@program(FAMILY)
def super_with_a_changed_base(compile):
    class A:
        def f(self, x):
            return x + 1

    class B:
        def f(self, x):
            return x * 5

    class C(A):
        def f(self, x):
            return super().f(x) * 2
    c = C()
    g = compile(lambda x: c.f(x))
    yield from steps(g, (ones,), (ones,), lambda: setattr(A, "f", lambda self, x: x + 10), (ones,),
                     lambda: setattr(C, "__bases__", (B,)), (ones,))


@program(FAMILY)
def diamond_inheritance_order(compile):
    class Root:
        def go(self, x):
            return x

    class Left(Root):
        by = 2

        def go(self, x):
            return super().go(x) * self.by

    class Right(Root):
        add = 3

        def go(self, x):
            return super().go(x) + self.add

    class Both(Left, Right):
        pass
    o = Both()
    g = compile(lambda x: o.go(x))
    yield from steps(g, (ones,), (ones,), lambda: setattr(Right, "add", 7), (ones,), lambda: setattr(o, "by", 4), (ones,))


@program(FAMILY)
def static_and_class_methods_that_move(compile):
    class C:
        k = 2

        @staticmethod
        def s(x):
            return x + 1

        @classmethod
        def c(cls, x):
            return x * cls.k

    class D(C):
        k = 5
    g = compile(lambda x, o: o.s(o.c(x)))
    yield from steps(g, (ones, C()), (ones, D()), (ones, C()), lambda: setattr(C, "s", staticmethod(lambda x: x - 1)),
                     (ones, D()), lambda: delattr(D, "k"), (ones, D()))


@program(FAMILY)
def instance_dict_that_is_replaced(compile):
    b = Box(a=1)
    g = compile(lambda x: x + b.a)

    def replace():
        b.__dict__ = {"a": 50}
    yield from steps(g, (ones,), (ones,), replace, (ones,), lambda: b.__dict__.update(a=3), (ones,))


@program(FAMILY)
def class_of_the_argument_changes(compile):
    class A:
        k = 1

    class B:
        k = 7
    o = A()
    g = compile(lambda x: x * o.k)

    def move():
        o.__class__ = B
    yield from steps(g, (ones,), (ones,), move, (ones,), lambda: setattr(B, "k", 8), (ones,))


@program(FAMILY)
def getattr_with_a_computed_name(compile):
    class Config:
        size_1, size_2 = 3, 4
    c = Config()
    g = compile(lambda x, n: x * getattr(c, f"size_{n}") + getattr(c, "extra", 0))
    yield from steps(g, (ones, 1), (ones, 2), (ones, 1), lambda: setattr(c, "size_1", 9), (ones, 1),
                     lambda: setattr(c, "extra", 5), (ones, 2))


@program(FAMILY)
def setattr_with_a_computed_name(compile):
    b = Box()

    def f(x, n):
        setattr(b, "v" + str(n), n * 2)
        return x + getattr(b, "v" + str(n))
    g = compile(f)
    yield from steps(g, (ones, 1), (ones, 1), (ones, 2))
    yield sorted(b.__dict__.items())


@program(FAMILY)
def vars_and_dir_of_an_object(compile):
    b = Box(a=1, b=2)
    g = compile(lambda x: x + sum(vars(b).values()) + len([n for n in dir(b) if len(n) == 1]))
    yield from steps(g, (ones,), (ones,), b.set(c=5), (ones,), lambda: delattr(b, "a"), (ones,))


@program(FAMILY)
def sorted_with_a_key_that_reads_state(compile):
    b = Box(order={"a": 2, "b": 1})
    table = {"a": 10., "b": 1.}
    g = compile(lambda x: functools.reduce(lambda y, k: y * 2 + table[k], sorted(table, key=lambda k: b.order[k]), x))
    yield from steps(g, (ones,), (ones,), b.set(order={"a": 0, "b": 1}), (ones,), lambda: table.__setitem__("c", 4.), (ones,))


@program(FAMILY)
def itertools_of_changing_lists(compile):
    a, b = [1, 2], [3]
    def f(x):
        for p, q in itertools.zip_longest(itertools.chain(a, b), itertools.islice(itertools.count(1), 4), fillvalue=10):
            x = x * 2 + p * q
        return x + len(list(itertools.product(a, b)))
    g = compile(f)
    yield from steps(g, (ones,), (ones,), lambda: b.append(4), (ones,), a.clear, (ones,))


@program(FAMILY)
def counter_and_chain_map(compile):
    c, over, under = collections.Counter("aab"), {}, {"k": 2}
    m = collections.ChainMap(over, under)
    g = compile(lambda x: x * c["a"] + c["z"] + m["k"] + len(m))
    yield from steps(g, (ones,), (ones,), lambda: c.update("aaz"), (ones,), lambda: over.__setitem__("k", 9), (ones,),
                     lambda: under.__setitem__("j", 0), (ones,))


@program(FAMILY)
def deque_that_rotates(compile):
    d = collections.deque([1, 2, 3], maxlen=4)

    def f(x):
        d.rotate(1)
        d.append(int(x.shape[0]))
        return x * d[0] + sum(d)
    g = compile(f)
    for n in (2, 2, 3):
        yield g(torch.ones(n)), list(d)


@program(FAMILY)
def mapping_proxy_and_simple_namespace(compile):
    under = {"a": 2}
    view, ns = types.MappingProxyType(under), types.SimpleNamespace(b=3)
    g = compile(lambda x: x * view["a"] + ns.b)
    yield from steps(g, (ones,), (ones,), lambda: under.update(a=5), (ones,), lambda: setattr(ns, "b", 8), (ones,))


@program(FAMILY)
def user_dict_and_user_list(compile):
    d, li = collections.UserDict(a=1), collections.UserList([2, 3])
    g = compile(lambda x: x * d["a"] + sum(li) + len(li))
    yield from steps(g, (ones,), (ones,), lambda: d.update(a=6), (ones,), lambda: li.append(10), (ones,))


@program(FAMILY)
def math_of_attributes(compile):
    b = Box(r=2.25)
    g = compile(lambda x: x * math.floor(b.r) + math.sqrt(b.r) + round(b.r, 1) + int(b.r) + divmod(b.r, 2)[1])
    yield from steps(g, (ones,), (ones,), b.set(r=6.25), (ones,), b.set(r=9), (ones,), b.set(r=2.25), (ones,))


@program(FAMILY)
def parameter_list_and_dict_that_grow(compile):
    pl, pd = nn.ParameterList([nn.Parameter(torch.ones(2))]), nn.ParameterDict({"a": nn.Parameter(torch.ones(2) * 2)})
    g = compile(lambda x: sum(pl, x) + sum(pd.values(), x))
    yield from steps(g, (ones,), (ones,), lambda: pl.append(nn.Parameter(torch.ones(2) * 3)) and None, (ones,),
                     lambda: pd.__setitem__("b", nn.Parameter(torch.ones(2) * 5)), (ones,), lambda: pd.__delitem__("a"), (ones,))


@program(FAMILY)
def module_dict_order(compile):
    md = nn.ModuleDict({"add": nn.Identity(), "act": nn.ReLU()})

    def f(x):
        for name, m in md.items():
            x = m(x) * len(name)
        return x
    g = compile(f)
    yield from steps(g, (ones,), (ones,), lambda: md.update({"tanh": nn.Tanh()}), (ones,),
                     lambda: md.__setitem__("act", nn.Sigmoid()), (ones,), lambda: md.pop("add") and None, (ones,))


@program(FAMILY)
def function_of_a_nested_module_is_replaced(compile):
    g = compile(lambda x: torch.nn.functional.relu(x) + 1)
    before = torch.nn.functional.relu
    yield from steps(g, (ones,), (ones,), lambda: setattr(torch.nn.functional, "relu", lambda x: x * 100), (ones,),
                     lambda: setattr(torch.nn.functional, "relu", before), (ones,))
