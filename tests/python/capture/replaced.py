"""What an object is beyond the contents of its builtin base, and what a program replaces in trusted modules and classes.

Each program calls a function several times, makes a change, and calls it again.  Changes of modules are undone.
"""
import builtins
import collections
import copy
import enum
import fractions
import functools
import math
import string
import sys
import types
import typing

import cresset as torch
from cresset import nn
from cresset.nn import functional as F

from .harness import attempt, program

FAMILY = "replaced"
ones = torch.ones(3)
_MISSING = object()


def changing(name):
    """Makes a program of a function that returns (the function to compile, its changes)."""
    def register(make):
        def run(compile):
            f, *changes = make()
            f = compile(f)
            for change in (lambda: None, *changes):
                change()
                for _ in range(3):
                    yield attempt(f, ones)
        run.__name__ = name
        program(FAMILY)(run)
        return make
    return register


def setting(name, holder, key, values, read):
    """Makes a program that gives an attribute of a module or class each of the values, and puts the first back."""
    def run(compile):
        before = holder.__dict__.get(key, _MISSING) if isinstance(holder, type) else getattr(holder, key, _MISSING)
        f = compile(read())
        try:
            for value in values if before is _MISSING else (before, *values):
                setattr(holder, key, value)
                for _ in range(3):
                    yield attempt(f, ones)
        finally:
            if before is _MISSING:
                delattr(holder, key)
            else:
                setattr(holder, key, before)
    run.__name__ = name
    program(FAMILY)(run)


def read(expression, **names):
    """Makes a function of x with the expression."""
    return lambda: eval(f"lambda x: {expression}", {"torch": torch, "F": F, "nn": nn, "math": math, "string": string, "copy": copy,
                                                   "collections": collections, "builtins": builtins, **names})


def of_net(expression):
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    with torch.no_grad():
        net[0].weight.fill_(0.5)
        net[0].bias.fill_(0.25)
    return read(expression, net=net)


# --- objects whose class derives from a builtin one ---

_VALUES = {"int": (int, 2, 3), "float": (float, 2., 3.), "complex": (complex, 2j + 1, 3j + 5), "str": (str, "a", "abc"),
           "bytes": (bytes, b"a", b"abc"), "tuple": (tuple, (1., 2.), (1., 5.)), "frozenset": (frozenset, (1,), (1, 2)),
           "list": (list, [1., 2.], [1., 5.]), "dict": (dict, {0: 1.}, {0: 5.})}
_USES = {"int": "x * float(box[0])", "float": "x * float(box[0])", "complex": "x * box[0].real", "str": "x * len(box[0])",
         "bytes": "x * len(box[0])", "tuple": "x * box[0][1]", "frozenset": "x * len(box[0])", "list": "x * box[0][1]",
         "dict": "x * box[0][0]"}


def _derived(kind, slots):
    base, first, second = _VALUES[kind]

    def make():
        cls = type("M", (base,), {"__slots__": ()} if slots else {})
        box = [cls(first)]
        f = read(_USES[kind], box=box)()
        return f, lambda: box.__setitem__(0, cls(second)), lambda: box.__setitem__(0, base(first))
    changing(f"value_of_a_class_derived_from_{kind}{'_without_dict' * slots}")(make)

    def attribute():
        cls = type("M", (base,), {"scale": 2.} | ({"__slots__": ()} if slots else {}))
        return read("x * box[0].scale", box=[cls(first)])(), lambda: setattr(cls, "scale", 3.)
    changing(f"attribute_of_a_class_derived_from_{kind}{'_without_dict' * slots}")(attribute)

    if not slots:
        def own():
            x = type("M", (base,), {})(first)
            x.scale = 2.
            return read("x * box[0].scale", box=[x])(), lambda: setattr(x, "scale", 3.)
        changing(f"attribute_of_an_object_derived_from_{kind}")(own)


for _kind in _VALUES:
    for _slots in (False, True):
        _derived(_kind, _slots)

for _kind in ("list", "dict"):
    def _slot(kind=_kind):
        x = type("M", (_VALUES[kind][0],), {"__slots__": ("scale",)})(_VALUES[kind][1])
        x.scale = 2.
        return read("x * box[0].scale", box=[x])(), lambda: setattr(x, "scale", 3.)
    changing(f"slot_of_an_object_derived_from_{_kind}")(_slot)


@program(FAMILY)
def argument_of_a_class_derived_from_int(compile):
    class M(int):
        pass
    f = compile(lambda x, n: x * n)
    for i in range(9):
        yield f(ones, M(i // 3 + 2))


@changing("class_attribute_of_a_derived_namedtuple")
def _():
    class P(typing.NamedTuple):
        a: float = 1.

    class Q(P):
        __slots__ = ()
        scale = 2.
    q = Q()
    return read("x * q.scale * q.a", q=q)(), lambda: setattr(Q, "scale", 3.), lambda: setattr(Q, "a", 5.)


@changing("attributes_of_members_of_an_enumeration")
def _():
    class E(enum.Enum):
        A = 1

        def __init__(self, v):
            self.table = [v]
    E.A.factor = 2.
    return (read("x * E.A.factor * E.A.table[0] * E.A.value", E=E)(), lambda: setattr(E.A, "factor", 5.),
            lambda: E.A.table.append(1) or E.A.table.__setitem__(0, 9.), lambda: setattr(E.A, "_value_", 7))


@changing("attribute_of_a_text_in_an_enumeration")
def _():
    class E(str, enum.Enum):
        A = "a"
    E.A.k = 2.
    return read("x * E.A.k * len(E.A)", E=E)(), lambda: setattr(E.A, "k", 5.)


@changing("fraction_that_is_replaced")
def _():
    box = [fractions.Fraction(1, 2)]
    return (read("x * float(box[0])", box=box)(), lambda: box.__setitem__(0, fractions.Fraction(3, 4)),
            lambda: setattr(box[0], "_numerator", 9))


@changing("slot_that_a_property_hides")
def _():
    class A:
        __slots__ = ("v",)

    class B(A):
        __slots__ = ()
        v = property(lambda self: 7)

        def get(self):
            return super().v
    b = B()
    A.v.__set__(b, 2.)
    return read("x * b.get()", b=b)(), lambda: A.v.__set__(b, 3.)


@changing("class_that_names_a_trusted_module")
def _():
    class K:
        __module__ = "torch.nn"
        s = 2.
    return read("x * K.s", K=K)(), lambda: setattr(K, "s", 3.)


@changing("slot_of_a_class_that_names_a_trusted_module")
def _():
    class K:
        __module__ = "torch.nn"
        __slots__ = ("s",)
    k = K()
    k.s = 2.
    return read("x * k.s", k=k)(), lambda: setattr(k, "s", 3.)


# --- states in C ---

for _name, _make, _use, _change in (
        ("arguments_of_an_error", lambda: ValueError(2.), "x * e.args[0]", lambda e: setattr(e, "args", (3.,))),
        ("cause_of_an_error", lambda: ValueError(2.), "x * (2 if e.__cause__ is None else 3)",
         lambda e: setattr(e, "__cause__", KeyError(1))),
        ("value_of_a_stop", lambda: StopIteration(2.), "x * e.value", lambda e: setattr(e, "value", 3.)),
        ("factory_of_a_defaultdict", lambda: collections.defaultdict(int, a=1), "x * (2 if e.default_factory is int else 3)",
         lambda e: setattr(e, "default_factory", float)),
        ("state_of_a_partial", lambda: functools.partial(lambda x, s: x * s, s=2.), "e(x)",
         lambda e: e.__setstate__((lambda x, s: x + s, (), {"s": 3.}, None)))):
    def _state(make=_make, use=_use, change=_change):
        e = make()
        return read(use, e=e)(), lambda: change(e)
    changing(_name)(_state)


@changing("cache_that_is_cleared")
def _():
    s = [2.]

    @functools.lru_cache
    def go(k):
        return s[0] * k

    def change():
        s[0] = 5.
        go.cache_clear()
    return read("x * go(2)", go=go)(), change


@changing("class_in_a_generic_alias")
def _():
    class K:
        s = 2.
    return read("x * A.__args__[0].s", A=list[K])(), lambda: setattr(K, "s", 3.)


# --- what functions, classes and modules say of themselves ---

def _described():
    def k(x: int):
        "ab"
        return x

    class K:
        "ab"
        a: int
    return k, K


for _name, _value in (("__name__", "abcdefgh"), ("__qualname__", "abcdefgh"), ("__doc__", "abcdefgh"),
                      ("__annotations__", {"a": int, "b": int, "c": int})):
    for _which in (0, 1):
        def _describe(name=_name, value=_value, which=_which):
            x = _described()[which]
            return read(f"x * len(k.{name})", k=x)(), lambda: setattr(x, name, value)
        changing(f"{_name.strip('_')}_of_a_{('function', 'class')[_which]}")(_describe)


@changing("attribute_that_a_function_gets_later")
def _():
    def k(x):
        return x
    return read("x * getattr(k, 's' + 't', 2.)", k=k)(), lambda: setattr(k, "st", 3.)


@changing("name_that_a_module_gets_later")
def _():
    module = types.ModuleType("lazy")
    module.__getattr__ = lambda name: 2.
    return read("x * m.foo", m=module)(), lambda: setattr(module, "foo", 9.)


@changing("class_of_a_module")
def _():
    module = types.ModuleType("mymod")
    module.s = 2.

    class M(types.ModuleType):
        s = property(lambda self: 5.)
    return read("x * m.s", m=module)(), lambda: setattr(module, "__class__", M)


# --- values and functions of trusted modules and classes ---

setting("number_of_math", math, "pi", (3.,), read("x * math.pi"))
setting("text_of_string", string, "ascii_letters", ("abc",), read("x * len(string.ascii_letters)"))
setting("table_of_copy", copy, "_copy_dispatch", ({},), read("x * len(copy._copy_dispatch)"))
setting("number_of_the_package", torch, "my_scale", (2., 5.), read("x * torch.my_scale"))
setting("list_of_a_module_of_the_package", F, "my_list", ([2.], [5.]), read("x * F.my_list[0]"))
setting("number_of_builtins", builtins, "replaced_number", (2., 5.), read("x * builtins.replaced_number"))
setting("dict_of_builtins", builtins, "replaced_dict", ({"s": 2.}, {"s": 5.}), read("x * replaced_dict['s']"))
setting("object_of_builtins", builtins, "replaced_object", tuple(types.SimpleNamespace(s=s) for s in (2., 5.)),
        read("x * replaced_object.s"))
setting("version_of_the_package", torch, "__version__", ("1",), read("x * len(torch.__version__)"))
for _module, _flag in (("cudnn", "deterministic"), ("cudnn", "benchmark"), ("mkldnn", "enabled"), ("opt_einsum", "enabled")):
    _owner = getattr(torch.backends, _module)
    setting(f"flag_{_flag}_of_{_module}", _owner, _flag, (not getattr(_owner, _flag),),
            read(f"x * (2 if torch.backends.{_module}.{_flag} else 3)"))
setting("method_of_tensors", torch.Tensor, "relu", (lambda self: self * 3,), read("x.relu() + 1"))
setting("operator_of_tensors", torch.Tensor, "__add__", (lambda self, other: self * 3,), read("x + 1"))
setting("attribute_of_tensors", torch.Tensor, "replaced", (2., 3.), read("x * x.replaced"))
setting("function_that_a_layer_calls", F, "relu", (lambda x, inplace=False: x * 100,), of_net("net(x)"))
setting("forward_of_a_layer", nn.ReLU, "forward", (lambda self, x: x * 100,), of_net("net(x)"))
setting("forward_of_linear", nn.Linear, "forward", (lambda self, x: x * 100,), of_net("net(x)"))
setting("attribute_of_linear", nn.Linear, "replaced", (2., 3.), of_net("net(x) * net[0].replaced"))
setting("attribute_of_modules", nn.Module, "replaced", (2., 3.), of_net("net(x) * net[0].replaced"))
setting("length_of_user_lists", collections.UserList, "__len__", (lambda self: 9,),
        read("x * len(u)", u=collections.UserList([1, 2])))
setting("attribute_of_user_dicts", collections.UserDict, "replaced", (2., 3.), read("x * u.replaced", u=collections.UserDict(a=1)))


@program(FAMILY)
def contents_of_a_dict_of_builtins(compile):
    builtins.replaced_contents = table = {"s": 2.}
    f = compile(read("x * replaced_contents['s']")())
    try:
        for s in (2., 5., 7.):
            table["s"] = s
            for _ in range(3):
                yield f(ones)
    finally:
        del builtins.replaced_contents


@program(FAMILY)
def whether_warnings_repeat(compile):
    f = compile(lambda x: x * (2 if torch.is_warn_always_enabled() else 3))
    before = torch.is_warn_always_enabled()
    try:
        for on in (False, True, False):
            torch.set_warn_always(on)
            for _ in range(3):
                yield f(ones)
    finally:
        torch.set_warn_always(before)


@program(FAMILY)
def digits_that_are_printed(compile):
    options = sys.modules[f"{torch.__name__}._tensor_str"].PRINT_OPTS
    f, before = compile(lambda x: x * options.precision), options.precision
    try:
        for digits in (4, 2, 6):
            options.precision = digits
            for _ in range(3):
                yield f(ones)
    finally:
        options.precision = before
