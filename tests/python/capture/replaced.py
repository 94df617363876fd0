"""What an object is beyond the contents of its builtin base, and what a program replaces in trusted modules and classes.

Each program calls a function several times, makes a change, and calls it again.  Changes of modules are undone.
"""
import abc
import array
import builtins
import collections
import copy
import copyreg
import dataclasses
import decimal
import enum
import fractions
import functools
import importlib
import math
import mmap
import statistics
import string
import sys
import types
import typing

import numpy

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


# --- builtins that compilation uses, too ---

for _name, _use, _new in (("max", "x * max(1., 2.)", lambda *x: 7.), ("sum", "x * sum([1., 2.])", lambda x: 7.),
                          ("sorted", "x * sorted([2., 1.])[0]", lambda x: [7.]), ("zip", "x * list(zip([1.], [2.]))[0][1]", lambda *x: [(7., 8.)]),
                          ("enumerate", "x * list(enumerate([2.]))[0][1]", lambda x: [(0, 7.)])):
    setting(f"builtin_{_name}_replaced", builtins, _name, [_new], read(_use))


# --- identity of equal numbers and strings ---

for _name, _first, _second in (("ints", int("1000"), int("1000")), ("floats", float("2.5"), float("2.5")), ("strings", "ab" * 3, "".join(["ab"] * 3))):
    @changing(f"identity_of_equal_{_name}")
    def _(first=_first, second=_second):
        box = [first]
        return read("x * (2 if box[0] is first else 3)", box=box, first=first)(), lambda: box.__setitem__(0, second)


# --- objects inside of objects and registries of libraries ---

@changing("list_in_a_slot_of_a_dataclass_field")
def _():
    field = dataclasses.field(default=[2.])
    return read("x * field.default[-1]", field=field)(), lambda: field.default.append(3.), lambda: setattr(field, "default", [4.])


@changing("list_in_a_slot_of_an_object_of_a_library")
def _():
    holder = statistics.NormalDist()
    holder._mu = [2.]
    return read("x * holder._mu[0]", holder=holder)(), lambda: holder._mu.__setitem__(0, 3.)


@changing("truth_of_an_object_is_not_asked")
def _():
    holder = fractions.Fraction(1, 2)
    holder._numerator = torch.ones(3)
    return read("x * holder._numerator", holder=holder)(), lambda: holder._numerator.mul_(2)


@changing("name_of_a_dataclass_field")
def _():
    x = dataclasses.make_dataclass("D", [("a", float, 2.)])(2.)
    return (read("x * dataclasses.asdict(x0)['a']", dataclasses=dataclasses, x0=x)(), lambda: setattr(x, "a", 3.),
            lambda: setattr(dataclasses.fields(x)[0], "name", "b"))


@changing("getattr_of_a_module_that_gets_one")
def _():
    module = types.ModuleType("m")
    return read("x * getattr(module, 'scale', 2.)", module=module)(), lambda: setattr(module, "__getattr__", lambda name: 8.)


@changing("what_a_proxy_shows")
def _():
    items = {"a": 2.}
    proxy = types.MappingProxyType(items)
    return read("x * proxy['a'] * len(proxy)", proxy=proxy)(), lambda: items.update(a=3.), lambda: items.update(b=1.)


@changing("defaults_of_an_optimizer")
def _():
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=.5)
    return read("x * optimizer.defaults['lr']", optimizer=optimizer)(), lambda: optimizer.defaults.update(lr=.25)


@changing("numbers_of_a_library_that_asks_for_types")
def _():
    numbers = [1., 2., 3.]
    return (read("x * statistics.mean(numbers)", statistics=statistics, numbers=numbers)(), lambda: numbers.__setitem__(1, 2),
            lambda: numbers.__setitem__(0, 5.), lambda: numbers.__setitem__(slice(None), [7., 2.]))


@changing("gradient_of_a_tensor_that_requires_none")
def _():
    t = torch.ones(3)
    return read("x * (2. if t.grad is None else t.grad)", t=t)(), lambda: setattr(t, "grad", torch.ones(3) * 3), lambda: t.grad.add_(1)


@changing("result_of_a_parameter_that_the_call_makes")
def _():
    return read("x * nn.Parameter(torch.ones(3))")(), lambda: None


@program(FAMILY)
def list_in_an_attribute_of_a_class_of_the_package(compile):
    nn.Linear.replaced_list = [2.]
    f = compile(read("x * nn.Linear.replaced_list[0]")())
    try:
        for x in (2., 3.):
            nn.Linear.replaced_list[0] = x
            for _ in range(3):
                yield f(ones)
    finally:
        del nn.Linear.replaced_list


@program(FAMILY)
def abstract_class_in_an_attribute_of_a_class_of_the_package(compile):
    nn.Linear.replaced_class = abc.ABCMeta("A", (), {})
    f = compile(read("x * (2. if isinstance(1., nn.Linear.replaced_class) else 3.)")())
    try:
        for _ in range(2):
            for _ in range(3):
                yield f(ones)
            nn.Linear.replaced_class.register(float)
    finally:
        del nn.Linear.replaced_class


@program(FAMILY)
def registry_of_copy(compile):
    x0 = type("T", (), {"scale": 2.})()
    f = compile(read("x * copy.copy(x0).scale", x0=x0)())
    try:
        for _ in range(2):
            for _ in range(3):
                yield f(ones)
            copyreg.pickle(type(x0), lambda x: (types.SimpleNamespace, (), {"scale": 7.}))
    finally:
        copyreg.dispatch_table.pop(type(x0), None)


@program(FAMILY)
def registry_of_trees(compile):
    from cresset.utils import _pytree
    t = type("T", (), {})
    f = compile(read("x * len(_pytree.tree_leaves([x0, 1]))", _pytree=_pytree, x0=t())())
    for _ in range(2):
        for _ in range(3):
            yield f(ones)
        if t not in _pytree.SUPPORTED_NODES:
            _pytree.register_pytree_node(t, lambda x: ([1, 2, 3], None), lambda children, context: t())


@program(FAMILY)
def checks_of_sparse_tensors(compile):
    check = torch.sparse.check_sparse_tensor_invariants
    f = compile(lambda x: x * (2 if check.is_enabled() else 3))
    with check(False):  # restores the setting, also where it was never set
        for on in (False, True, False):
            (check.enable if on else check.disable)()
            for _ in range(3):
                yield f(ones)


@program(FAMILY)
def dtype_of_autocast(compile):
    f, before = compile(lambda x: x * (2 if torch.get_autocast_dtype("cpu") == torch.bfloat16 else 3)), torch.get_autocast_dtype("cpu")
    try:
        for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
            torch.set_autocast_dtype("cpu", dtype)
            for _ in range(3):
                yield f(ones)
    finally:
        torch.set_autocast_dtype("cpu", before)


# --- optimizers, parametrizations, metaclasses and classes in C ---

def _training(optimizer, *changes, scale="1."):
    """A program whose calls train a network of one layer, and changes of its optimizer and network."""
    def run(compile):
        net = nn.Linear(3, 2)
        with torch.no_grad():
            for p in net.parameters():
                p.fill_(.25)
        o = optimizer(net.parameters())
        factor = eval(f"lambda o: {scale}")

        def step(x):
            o.zero_grad()
            loss = net(x).pow(2).sum() * factor(o)
            loss.backward()
            o.step()
            return loss.detach()
        step = compile(step)
        for change in (lambda net, o: None, *changes):
            change(net, o)
            for _ in range(4):
                yield attempt(step, ones)
        yield net.weight.detach().clone()
    return run


def _sgd(parameters):
    o = torch.optim.SGD(parameters, lr=.01)
    o.scale = 2.
    return o


def _wrap_step(net, o):
    before = o.step

    def step():
        net.bias.data.add_(1)
        return before()
    o.step = step


def _derived_sgd(parameters):
    return type("S", (torch.optim.SGD,), {})(parameters, lr=.01)


def _replace_step(net, o):
    type(o).step = lambda self: net.weight.data.add_(1)


for _name, _run in {
        "step_of_an_optimizer": _training(_sgd, _wrap_step, lambda net, o: delattr(o, "step")),
        "zero_grad_of_an_optimizer": _training(_sgd, lambda net, o: setattr(o, "zero_grad", lambda: None)),
        "attribute_of_an_optimizer": _training(_sgd, lambda net, o: setattr(o, "scale", 5.), scale="o.scale"),
        "step_of_a_class_of_optimizers": _training(_derived_sgd, _replace_step),
        "class_of_an_optimizer": _training(_derived_sgd, lambda net, o: setattr(o, "__class__", type(
            "T", (torch.optim.SGD,), {"step": lambda self: net.weight.data.add_(1)})))}.items():
    _run.__name__ = _name
    program(FAMILY)(_run)


def _parametrized(compile, blocks):
    class Twice(nn.Module):
        def forward(self, x):
            return x * 2

    net = nn.Linear(3, 2, bias=False)
    net.weight.data.fill_(.5)
    parametrize = nn.utils.parametrize
    parametrize.register_parametrization(net, "weight", Twice())
    f = compile(lambda x: net(x))
    for cached in blocks:
        with parametrize.cached() if cached else torch.enable_grad():
            for _ in range(2):
                yield f(ones).detach()
                net.parametrizations.weight.original.data.add_(1.)


@program(FAMILY)
def cache_of_parametrizations(compile):
    yield from _parametrized(compile, (False, False, True, True, False, True, True, True))


@program(FAMILY)
def cache_of_parametrizations_in_all_calls(compile):
    yield from _parametrized(compile, (True,) * 6)


_META = {"attribute": ("x * x0.k", {"k": 2.}, {"k": 5.}),
         "method": ("x * x0.k()", {"k": lambda c: 2.}, {"k": lambda c: 5.}),
         "call": ("x * x0().k", {}, {"__call__": lambda c: types.SimpleNamespace(k=9.)}),
         "instancecheck": ("x * (2. if isinstance(3, x0) else 3.)", {}, {"__instancecheck__": lambda c, x: True}),
         "class_of_an_object": ("x * type(x0()).m", {"m": 2.}, {"m": 5.})}


def _metaclass(name, expression, first, second):
    def make():
        cls = type("M", (type,), first)("A", (), {"k": 3.} if name == "call" else {})
        return read(expression, x0=cls)(), lambda: setattr(cls, "__class__", type("N", (type,), second))
    changing(f"metaclass_with_another_{name}")(make)


for _name, _what in _META.items():
    _metaclass(_name, *_what)

_IN_C = {"array": (array.array, lambda t: t("d", [2.]), "x * x0[0]", lambda x: x.__setitem__(0, 9.)),
         "array_and_its_length": (array.array, lambda t: t("d", [2.]), "x * len(x0)", lambda x: x.append(9.)),
         "array_in_a_list": (array.array, lambda t: t("d", [2.]), "x * (2. if box == [given] else 3.)",
                             lambda x: x.append(9.)),
         "mmap": (mmap.mmap, lambda t: t(-1, 16), "x * x0[0]", lambda x: x.__setitem__(0, 9)),
         "context": (decimal.Context, lambda t: t(prec=4), "x * x0.prec", lambda x: setattr(x, "prec", 9)),
         "ndarray": (numpy.ndarray, lambda t: numpy.ones((2, 3)).view(t), "x * float(x0[0, 0])",
                     lambda x: x.__setitem__((0, 0), 9.)),
         "shape_of_ndarray": (numpy.ndarray, lambda t: numpy.ones((2, 3)).view(t), "x * x0.shape[0]",
                              lambda x: setattr(x, "shape", (3, 2)))}


def _of_class_in_c(name, base, new, expression, change):
    def make():
        x = new(type("T", (base,), {}))
        return read(expression.replace("x0", "box[0]"), box=[x], given=array.array("d", [2.]))(), lambda: change(x)
    changing(f"state_in_c_of_a_class_derived_from_{name}")(make)


for _name, _what in _IN_C.items():
    _of_class_in_c(_name, *_what)


# --- what instructions ask for without a name ---

def _match_sequence(x, box):
    match box:
        case [_, second]:
            return x * second
    return x * 3


def _match_mapping(x, box):
    match box:
        case {"k": value}:
            return x * value
    return x * 3


_METHODS_TO_MATCH = {"__len__": lambda self: 2, "__getitem__": lambda self, i: i + 1., "get": lambda self, k, d=None: 5.,
                     "keys": lambda self: ["k"]}
for _name, _f, _abstract in (("sequence", _match_sequence, collections.abc.Sequence),
                             ("mapping", _match_mapping, collections.abc.Mapping)):
    def _matched(f=_f, abstract=_abstract):
        box = type("A", (), _METHODS_TO_MATCH)()
        return lambda x: f(x, box), lambda: abstract.register(type(box))
    changing(f"class_that_becomes_a_{_name}")(_matched)


@program(FAMILY)
def builder_of_classes(compile):
    def f(x):
        class A:
            k = 2.
        return x * A.k
    f, before = compile(f), builtins.__build_class__

    def build(body, name, *bases, **keywords):
        return types.SimpleNamespace(k=7.) if name == "A" else before(body, name, *bases, **keywords)
    try:
        for builder in (before, build, before):
            builtins.__build_class__ = builder
            for _ in range(3):
                yield f(ones)
    finally:
        builtins.__build_class__ = before


_OF_NAN = {"index": "x * (box.index(nan) if nan in box else 5)", "count": "x * box.count(nan)", "in": "x * (2. if nan in box else 3.)",
           "equal_list": "x * (2. if [nan] == box else 3.)", "equal_tuple": "x * (2. if (nan,) == tuple(box) else 3.)",
           "key": "x * {nan: 2.}.get(box[0], 3.)", "set": "x * len({nan, box[0]})"}


def _of_nan(name, expression, new, change):
    def make():
        nan = new()
        box = [nan]
        return read(expression, nan=nan, box=box)(), lambda: change(box, new()), lambda: change(box, nan)
    changing(f"another_nan_and_{name}")(make)


for _name, _what in _OF_NAN.items():
    _of_nan(_name, _what, lambda: float("nan"), lambda box, x: box.__setitem__(0, x))
_of_nan("complex_numbers", _OF_NAN["in"], lambda: complex(1., float("nan")), lambda box, x: box.__setitem__(0, x))


# --- a tensor and an array as arguments ---

def _with_array(name, f):
    def run(compile):
        g = compile(f)
        for i in range(4):
            out = attempt(lambda x: g(x, (numpy.arange(6.) + i)[::2]), ones)
            yield type(out).__name__
            yield out
    run.__name__ = name
    program(FAMILY)(run)


for _name, _f in {"array_times_a_tensor": lambda x, v: v * x, "tensor_times_an_array": lambda x, v: x * v,
                  "tensor_and_a_sum_of_an_array": lambda x, v: x + v.sum(), "sum_of_an_array_and_of_a_tensor": lambda x, v: v.sum() + x.sum(),
                  "comparison_of_a_tensor_with_an_array": lambda x, v: x > v.max(), "ufunc_of_a_tensor_and_an_array": lambda x, v: numpy.add(x, v),
                  "sum_of_tensors_of_arrays": lambda x, v: x + torch.from_numpy(v)}.items():
    _with_array(_name, _f)


@changing("list_in_a_slice")
def _list_in_a_slice():
    held = slice([2.], None)
    return read("x * sum(held.start)", held=held)(), lambda: held.start.append(8.)


@program(FAMILY)
def module_that_was_imported_again(compile):
    """Code of the library belongs to the module whose globals it has, not to the one that has its file."""
    first = sys.modules.pop("statistics")
    try:
        again = importlib.import_module("statistics")
    finally:
        sys.modules["statistics"] = first
    for module in (first, again):
        f = compile(lambda x: x * module.mean([1., 2.]))
        convert = module._convert
        for change in (lambda n, t: 7., convert, lambda n, t: 8.):
            for _ in range(3):
                yield attempt(f, ones)
            module._convert = change
        yield attempt(f, ones)
        module._convert = convert


def two_modules_of_one_file(compile):
    """Their code objects are equal, their globals are not."""
    first = sys.modules.pop("statistics")
    try:
        again = importlib.import_module("statistics")
    finally:
        sys.modules["statistics"] = first
    f = compile(lambda x: x * first.mean([1., 2.]) + 10 * again.mean([1., 3.]))
    for module in (first, again):
        convert = module._convert
        for change in (lambda n, t: 7., convert):
            for _ in range(3):
                yield attempt(f, ones)
            module._convert = change
        yield attempt(f, ones)
