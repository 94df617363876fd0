"""Special methods, subclasses, and writes to classes."""
import abc
import enum
import functools

import cresset as torch
from cresset import nn

from .harness import attempt, program

METHODS, SUBCLASSES, WRITES = "special methods", "subclasses", "class writes"


@program(METHODS)
def getattr_of_a_class(compile):
    class Box:
        values = {"a": 1}

        def __getattr__(self, name):
            return self.values[name]
    b = Box()
    f = compile(lambda x: x + b.a)
    for v in (1, 2, 1):
        Box.values["a"] = v
        yield f(torch.ones(2))


@program(METHODS)
def getattribute_of_a_class(compile):
    class Box:
        n = 0

        def __getattribute__(self, name):
            return Box.n if name == "value" else object.__getattribute__(self, name)
    b = Box()
    f = compile(lambda x: x + b.value)
    for v in (1, 2, 1):
        Box.n = v
        yield f(torch.ones(2))


@program(METHODS)
def getitem_of_a_class(compile):
    class Box:
        def __init__(self, k):
            self.k = k

        def __getitem__(self, i):
            return self.k * i
    f = compile(lambda x, b: x + b[3])
    for k in (1, 2, 1):
        yield f(torch.ones(2), Box(k))


@program(METHODS)
def operators_of_a_class(compile):
    class Scale:
        def __init__(self, k):
            self.k = k

        def __mul__(self, other):
            return other * self.k

        __rmul__ = __mul__

        def __neg__(self):
            return Scale(-self.k)
    f = compile(lambda x, s: s * x + (-s) * x * 2)
    for k in (1., 2., 1.):
        yield f(torch.ones(2), Scale(k))


@program(METHODS)
def truth_of_a_class(compile):
    class Switch:
        on = True

        def __bool__(self):
            return self.on
    s = Switch()
    f = compile(lambda x: x + 1 if s else x - 1)
    for on in (True, False, True):
        s.on = on
        yield f(torch.ones(2))


@program(METHODS)
def length_of_a_class(compile):
    class Items:
        def __init__(self, n):
            self.n = n

        def __len__(self):
            return self.n
    f = compile(lambda x, items: x + len(items) + (5 if items else 0))
    for n in (2, 0, 3, 2):
        yield f(torch.ones(2), Items(n))


@program(METHODS)
def contains_of_a_class(compile):
    class Odd:
        low = 0

        def __contains__(self, n):
            return n % 2 == 1 and n > self.low
    o = Odd()
    f = compile(lambda x, n: x + 1 if n in o else x - 1)
    for low, n in ((0, 1), (0, 2), (3, 1), (0, 1)):
        o.low = low
        yield f(torch.ones(2), n)


@program(METHODS)
def equality_of_a_class(compile):
    class Loose:
        slack = 1

        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return abs(self.n - other.n) <= Loose.slack

        __hash__ = None
    a, b = Loose(1), Loose(3)
    f = compile(lambda x: x + 1 if a == b else x - 1)
    for slack in (1, 2, 1):
        Loose.slack = slack
        yield f(torch.ones(2))


@program(METHODS)
def hash_of_a_class(compile):
    class Key:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            return hash(self.n)

        def __eq__(self, other):
            return self.n == other.n
    d = {Key(1): 5, Key(2): 6}
    f = compile(lambda x, k: x + d.get(k, 0))
    for n in (1, 2, 3, 1):
        yield f(torch.ones(2), Key(n))


@program(METHODS)
def call_of_a_class(compile):
    class Add:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x + self.k
    a = Add(1)
    f = compile(a)
    for k in (1, 2, 3, 1):
        a.k = k
        yield f(torch.ones(2))


@program(METHODS)
def a_property_with_a_setter(compile):
    class Box:
        def __init__(self):
            self._v, self.sets = 1, 0

        @property
        def v(self):
            return self._v * 2

        @v.setter
        def v(self, value):
            self.sets += 1
            self._v = value
    b = Box()

    @compile
    def f(x, n):
        b.v = n
        return x + b.v
    for n in (1, 2, 2, 1):
        yield f(torch.ones(2), n), b.sets


@program(METHODS)
def a_cached_property(compile):
    class Box:
        made = 0

        @functools.cached_property
        def v(self):
            Box.made += 1
            return 3.
    f = compile(lambda x, b: x * b.v)
    b = Box()
    for box in (b, b, Box(), b):
        yield f(torch.ones(2), box), Box.made


@program(METHODS)
def a_descriptor(compile):
    class Field:
        def __get__(self, box, owner):
            return box.k * 10
    class Box:
        field = Field()

        def __init__(self, k):
            self.k = k
    f = compile(lambda x, b: x + b.field)
    for k in (1, 2, 1):
        yield f(torch.ones(2), Box(k))


@program(METHODS)
def format_of_a_class(compile):
    class Name:
        text = "abc"

        def __format__(self, spec):
            return self.text
    n = Name()
    f = compile(lambda x: x + len(f"{n}"))
    for text in ("abc", "z", "abc"):
        n.text = text
        yield f(torch.ones(2))


@program(METHODS)
def index_of_a_class(compile):
    class At:
        i = 0

        def __index__(self):
            return self.i
    at, items = At(), [1., 2., 3.]
    f = compile(lambda x: x * items[at])
    for i in (0, 1, 2, 0):
        at.i = i
        yield f(torch.ones(2))


@program(METHODS)
def a_method_with_slots(compile):
    class Box:
        __slots__ = ("k",)

        def scaled(self, x):
            return x * self.k
    b = Box()
    f = compile(lambda x: b.scaled(x))
    for k in (1, 2, 1):
        b.k = k
        yield f(torch.ones(2))


@program(METHODS)
def a_destructor_runs(compile):
    gone = []

    class Box:
        def __del__(self):
            gone.append(1)

    @compile
    def f(x):
        Box()
        return x + len(gone)
    for _ in range(3):
        yield f(torch.ones(2)), len(gone)


# --- subclasses ---

class Tagged(torch.Tensor):
    tag = "none"


class Loud(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(getattr(func, "__name__", "?"))
        return super().__torch_function__(func, types, args, kwargs or {})


class Settings(dict):
    scale = 1

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.extra = 1


class Names(list):
    factor = 1


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@program(SUBCLASSES)
def a_tensor_subclass_argument(compile):
    f = compile(lambda x: x * 2)
    for _ in range(3):
        y = f(torch.ones(2).as_subclass(Tagged))
        yield type(y).__name__, y, f(torch.ones(2))


@program(SUBCLASSES)
def a_subclass_with_torch_function(compile):
    f = compile(lambda x: (x * 2).sum())
    Loud.calls = []
    for _ in range(3):
        y = f(torch.ones(2).as_subclass(Loud))
        yield type(y).__name__, [n for n in Loud.calls if n in ("mul", "sum")]


@program(SUBCLASSES)
def an_attribute_of_a_tensor(compile):
    f = compile(lambda x: x * getattr(x, "scale", 1))
    for s in (None, 2, 3, None):
        x = torch.ones(2)
        if s:
            x.scale = s
        yield f(x)


@program(SUBCLASSES)
def an_attribute_of_a_dict_subclass(compile):
    f = compile(lambda x, d: x * d["k"] + d.extra * d.scale)
    for extra in (1, 2, 1):
        d = Settings(k=3)
        d.extra = extra
        yield f(torch.ones(2), d)


@program(SUBCLASSES)
def an_attribute_of_a_list_subclass(compile):
    f = compile(lambda x, v: x * sum(v) + v.factor)
    for factor in (1, 2, 1):
        v = Names([1, 2])
        v.factor = factor
        yield f(torch.ones(2), v)


@program(SUBCLASSES)
def a_method_of_a_dict_subclass(compile):
    class Doubling(dict):
        factor = 2

        def __getitem__(self, k):
            return super().__getitem__(k) * self.factor
    d = Doubling(k=3)
    f = compile(lambda x: x * d["k"])
    for factor in (2, 3, 2):
        Doubling.factor = factor
        yield f(torch.ones(2))


@program(SUBCLASSES)
def a_missing_key_of_a_dict_subclass(compile):
    class Filling(dict):
        fill = 7

        def __missing__(self, k):
            return self.fill
    d = Filling()
    f = compile(lambda x: x + d["k"])
    for fill in (7, 8, 7):
        Filling.fill = fill
        yield f(torch.ones(2))


@program(SUBCLASSES)
def an_int_subclass(compile):
    class Kilo(int):
        def __mul__(self, other):
            return other * 1000
    f = compile(lambda x, k: k * x)
    for k in (2, Kilo(2), 3, Kilo(2)):
        yield f(torch.ones(2), k)


@program(SUBCLASSES)
def a_str_subclass(compile):
    class Name(str):
        weight = 1
    f = compile(lambda x, s: x + len(s) * getattr(s, "weight", 10))
    a, b = Name("ab"), Name("ab")
    b.weight = 5
    for s in ("ab", a, b, "ab"):
        yield f(torch.ones(2), s)


@program(SUBCLASSES)
def members_of_an_enum(compile):
    f = compile(lambda x, c: x + c.value if c is Color.RED else x - c.value)
    for c in (Color.RED, Color.BLUE, Color.RED):
        yield f(torch.ones(2), c)


@program(SUBCLASSES)
def a_parameter_in_a_subclass_of_a_layer(compile):
    class Scaled(nn.Linear):
        factor = 2.

        def forward(self, x):
            return super().forward(x) * self.factor
    torch.manual_seed(0)
    m = Scaled(2, 2)
    f = compile(m)
    for factor in (2., 3., 2.):
        m.factor = factor
        yield f(torch.ones(1, 2))


@program(SUBCLASSES)
def the_class_of_the_argument(compile):
    class A:
        k = 1

    class B(A):
        k = 2
    f = compile(lambda x, o: x * o.k + (10 if isinstance(o, B) else 0))
    for o in (A(), B(), A()):
        yield f(torch.ones(2), o)


@program(SUBCLASSES)
def super_in_a_chain(compile):
    class A:
        def go(self, x):
            return x + 1

    class B(A):
        def go(self, x):
            return super().go(x) * 2

    class C(B):
        def go(self, x):
            return super().go(x) - 3
    f = compile(lambda x, o: o.go(x))
    for o in (A(), B(), C(), A()):
        yield f(torch.ones(2), o)


# --- class writes ---

@program(WRITES)
def a_class_attribute_changes(compile):
    class Box:
        k = 1
    b = Box()
    f = compile(lambda x: x * b.k)
    for k in (1, 2, 1):
        Box.k = k
        yield f(torch.ones(2))


@program(WRITES)
def an_instance_hides_its_class(compile):
    class Box:
        k = 1
    b = Box()
    f = compile(lambda x: x * b.k)
    yield f(torch.ones(2))
    b.k = 2
    yield f(torch.ones(2))
    del b.k
    yield f(torch.ones(2))


@program(WRITES)
def a_method_is_replaced(compile):
    class Box:
        def go(self, x):
            return x + 1
    b = Box()
    f = compile(lambda x: b.go(x))
    yield f(torch.ones(2))
    Box.go = lambda self, x: x - 1
    yield f(torch.ones(2))


@program(WRITES)
def a_base_gets_an_attribute(compile):
    class A:
        pass

    class B(A):
        pass
    b = B()
    f = compile(lambda x: x * getattr(b, "k", 1))
    yield f(torch.ones(2))
    A.k = 3
    yield f(torch.ones(2))
    B.k = 5
    yield f(torch.ones(2))
    del B.k
    yield f(torch.ones(2))


@program(WRITES)
def the_class_is_changed(compile):
    class A:
        k = 1

    class B:
        k = 2
    o = A()
    f = compile(lambda x: x * o.k)
    for c in (A, B, A):
        o.__class__ = c
        yield f(torch.ones(2))


@program(WRITES)
def the_call_writes_a_class(compile):
    class Box:
        calls = 0

    @compile
    def f(x):
        Box.calls += 1
        return x * Box.calls
    for _ in range(4):
        yield f(torch.ones(2)), Box.calls


@program(WRITES)
def forward_is_replaced(compile):
    class M(nn.Module):
        def forward(self, x):
            return x + 1
    m = M()
    f, x = compile(m), torch.ones(2)
    yield f(x), f(x)
    M.forward = lambda self, x: x - 1
    yield f(x)


@program(WRITES)
def a_function_gets_other_code(compile):
    def helper(x):
        return x + 1

    def other(x):
        return x - 1
    f = compile(lambda x: helper(x) * 2)
    yield f(torch.ones(2)), f(torch.ones(2))
    helper.__code__ = other.__code__
    yield f(torch.ones(2))


@program(WRITES)
def a_function_gets_other_defaults(compile):
    def helper(x, k=1):
        return x * k
    f = compile(lambda x: helper(x))
    yield f(torch.ones(2)), f(torch.ones(2))
    helper.__defaults__ = (5,)
    yield f(torch.ones(2))


@program(WRITES)
def a_dict_of_an_object_is_replaced(compile):
    class Box:
        k = 0
    b = Box()
    f = compile(lambda x: x + b.k)
    yield f(torch.ones(2))
    b.__dict__ = {"k": 5}
    yield f(torch.ones(2))
    b.__dict__ = {}
    yield f(torch.ones(2))


@program(WRITES)
def a_module_attribute_is_replaced(compile):
    import types
    m = types.ModuleType("settings_of_the_program")
    m.k = 1
    f = compile(lambda x: x * m.k)
    for k in (1, 2, 1):
        m.k = k
        yield f(torch.ones(2))


@program(WRITES)
def a_builtin_is_hidden(compile):
    space = {}
    exec("def f(x): return x + len([1, 2, 3])", space)
    f = compile(space["f"])
    yield f(torch.ones(2)), f(torch.ones(2))
    space["len"] = lambda items: 100
    yield f(torch.ones(2))
    del space["len"]
    yield f(torch.ones(2))


@program(WRITES)
def an_operator_is_replaced(compile):
    before = torch.sin
    f = compile(lambda x: torch.sin(x))
    yield f(torch.ones(2)), f(torch.ones(2))
    torch.sin = torch.cos
    try:
        yield f(torch.ones(2))
    finally:
        torch.sin = before
    yield f(torch.ones(2))


@program(WRITES)
def a_submodule_is_replaced(compile):
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    f, x = compile(m), torch.ones(1, 2)
    yield f(x), f(x)
    m[1] = nn.ReLU()
    yield f(x), f(x)
    m.append(nn.Sigmoid())
    yield f(x)


@program(WRITES)
def attributes_are_missing_at_first(compile):
    class Box:
        pass
    b = Box()
    f = compile(lambda x: attempt(lambda: x * b.k))
    yield f(torch.ones(2))
    Box.k = 3
    yield f(torch.ones(2))
    del Box.k
    yield f(torch.ones(2))


@program(WRITES)
def a_written_class_of_another_metaclass(compile):
    class Box(abc.ABC):
        n = 1
    f = compile(lambda x: x * Box.n)
    for Box.n in (1, 4, 1):
        yield f(torch.ones(2))


SCALE = {"setter": 1}


@program(METHODS)
def a_setter_that_reads_a_global(compile):
    class Box:
        @property
        def n(self):
            return self._n

        @n.setter
        def n(self, value):
            self._n = value * SCALE["setter"]
    b = Box()

    def put(x):
        b.n = x
        return b.n
    f = compile(put)
    for SCALE["setter"] in (1, 3, 1):
        yield f(torch.ones(2))


@program("classes")
def a_module_gets_another_class(compile):
    class Doubled(nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    class Shifted(nn.Sequential):
        def forward(self, x):
            return super().forward(x) + 100
    torch.manual_seed(0)
    m = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    f = compile(m)
    for k in range(8):
        if k == 3:
            m[0].__class__ = Doubled
        if k == 5:
            m.__class__ = Shifted
        if k == 7:
            m[0].__class__ = nn.Linear
        yield f(torch.ones(1, 2)).detach()
