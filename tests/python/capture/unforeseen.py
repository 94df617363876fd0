"""Reads that no walk over objects can foresee: computed names, imports, Python code that C code calls, states of
libraries and of the process."""
import collections
import copy
import decimal
import functools
import gc
import inspect
import json
import locale
import operator
import pickle
import re
import string
import sys
import types
import warnings

import cresset as torch

from .harness import program

FAMILY = "unforeseen reads"
X = torch.ones(2)


def follow(f, states):
    """Calls f three times in each state."""
    for change in states:
        change()
        yield [f(X.clone()) for _ in range(3)]


def setter(holder, name, values):
    return [functools.partial(setattr, holder, name, v) for v in values]


class Settings:
    scale = 2
    shift = 1


@program(FAMILY)
def a_computed_name_of_a_class(compile):
    class Config(Settings):
        pass
    prefix = "sc"
    f = compile(lambda x: x * getattr(Config, prefix + "ale"))
    yield from follow(f, setter(Config, "scale", (2, 3, 2)))


@program(FAMILY)
def a_computed_name_of_a_module(compile):
    module = types.ModuleType("made_here")
    f = compile(lambda x: [x * getattr(module, name, 1) for name in ("scale", "shift")])
    yield from follow(f, setter(module, "scale", (2, 3, 2)))


@program(FAMILY)
def a_name_in_a_table_of_names(compile):
    class Config(Settings):
        pass
    names = {"a": "scale"}
    f = compile(lambda x: x * getattr(Config, names["a"]) + hasattr(Config, "".join(("ex", "tra"))))
    yield from follow(f, setter(Config, "scale", (2, 3)) + setter(Config, "extra", (1,)))


@program(FAMILY)
def an_operator_gets_the_name(compile):
    class Config(Settings):
        pass
    get = operator.attrgetter("scale")
    f = compile(lambda x: x * get(Config))
    yield from follow(f, setter(Config, "scale", (2, 3, 2)))


@program(FAMILY)
def a_module_is_imported_by_the_call(compile):
    module = sys.modules["made_for_a_call"] = types.ModuleType("made_for_a_call")
    module.scale = 1

    def times(x):
        import made_for_a_call
        return x * made_for_a_call.scale
    yield from follow(compile(times), setter(module, "scale", (2, 3, 2)))
    del sys.modules["made_for_a_call"]


@program(FAMILY)
def a_name_is_imported_by_the_call(compile):
    module = sys.modules["made_for_a_name"] = types.ModuleType("made_for_a_name")
    module.scale = 1

    def times(x):
        from made_for_a_name import scale
        return x * scale
    yield from follow(compile(times), setter(module, "scale", (2, 3, 2)))
    del sys.modules["made_for_a_name"]


@program(FAMILY)
def the_context_of_decimals(compile):
    f = compile(lambda x: x * float(decimal.Decimal(1) / decimal.Decimal(3)))
    states = [functools.partial(setattr, decimal.getcontext(), "prec", n) for n in (3, 5, 28)]
    yield from follow(f, states)


@program(FAMILY)
def the_collector_and_the_limit_of_recursion(compile):
    f = compile(lambda x: x * gc.isenabled() + sys.getrecursionlimit())
    limit = sys.getrecursionlimit()
    yield from follow(f, [gc.disable, gc.enable, lambda: sys.setrecursionlimit(limit + 10), lambda: sys.setrecursionlimit(limit)])


@program(FAMILY)
def filters_of_warnings_and_a_locale(compile):
    f = compile(lambda x: x * len(warnings.filters) + len(locale.setlocale(locale.LC_NUMERIC)))
    with warnings.catch_warnings():
        yield from follow(f, [lambda: None, lambda: warnings.simplefilter("ignore", BytesWarning)])


class Named:
    def __init__(self, holder):
        self.holder = holder

    def __str__(self):
        return "x" * self.holder.scale

    def __format__(self, spec):
        return str(self)

    def __copy__(self):
        return [0] * self.holder.scale

    def __reduce__(self):
        return list, ((0,) * self.holder.scale,)


def of_named(make):
    def program_of(compile):
        class Config(Settings):
            pass
        named = Named(Config)
        yield from follow(compile(lambda x: x * make(named)), setter(Config, "scale", (2, 3, 2)))
    return program_of


for name, make in {
    "text_by_a_format": lambda n: len(f"{n}"), "text_by_percent": lambda n: len("%s" % n), "text_by_a_method": lambda n: len("{}".format(n)),
    "text_by_a_template": lambda n: len(string.Template("$a").substitute(a=n)), "text_by_json": lambda n: len(json.dumps(n, default=str)),
    "a_copy": lambda n: len(copy.copy(n)), "a_pickle": lambda n: len(pickle.loads(pickle.dumps(n))),
    "a_callback_of_a_pattern": lambda n: len(re.sub("a", lambda m: str(n), "aa")),
    "a_reduction": lambda n: functools.reduce(lambda a, b: a + len(str(b)), [n, n], 0),
    "a_key": lambda n: sorted([1, 2, 3], key=lambda k: k % n.holder.scale)[0], "a_map": lambda n: sum(map(len, map(str, [n]))),
    "counted_words": lambda n: collections.Counter(map(str, [n, n])).most_common(1)[0][1] * len(str(n)),
    "variables_of_an_object": lambda n: vars(n)["holder"].scale, "a_dict_of_a_class": lambda n: n.holder.__dict__.get("scale", 0),
    "a_static_attribute": lambda n: inspect.getattr_static(n.holder, "scale"), "a_directory": lambda n: n.holder.scale + len(dir(n)),
}.items():
    made = of_named(make)
    made.__name__ = name
    program(FAMILY)(made)


@program(FAMILY)
def globals_by_a_computed_name(compile):
    scope = {"scale": 1}
    exec("def times(x):\n    return x * globals()['sc' + 'ale']", scope)
    f = compile(scope["times"])
    yield from follow(f, [functools.partial(scope.__setitem__, "scale", v) for v in (2, 3, 2)])


@program(FAMILY)
def an_attribute_by_its_getter(compile):
    class Config:
        def __getattr__(self, name):
            return state[name]
    state, config = {"scale": 1}, Config()
    f = compile(lambda x: x * config.scale)
    yield from follow(f, [functools.partial(state.__setitem__, "scale", v) for v in (2, 3, 2)])


@program(FAMILY)
def a_default_that_a_partial_changes(compile):
    part = functools.partial(lambda x, k: x * k, k=2)
    f = compile(lambda x: part(x))
    yield from follow(f, [functools.partial(part.keywords.__setitem__, "k", v) for v in (2, 3, 2)])


@program(FAMILY)
def a_method_that_is_found_by_a_computed_name(compile):
    class Steps:
        def one(self, x):
            return x + 1

        def two(self, x):
            return x + 2
    steps, chosen = Steps(), ["one"]
    f = compile(lambda x: getattr(steps, chosen[0])(x))
    yield from follow(f, [lambda: None, lambda: chosen.__setitem__(0, "two"), lambda: setattr(Steps, "two", Steps.one)])


@program(FAMILY)
def states_of_the_package(compile):
    """Each state is one that no argument and no global of the program holds."""
    f = compile(lambda x: x * torch.get_num_threads() + torch.is_autocast_enabled("cpu") + torch.is_inference_mode_enabled())
    threads = torch.get_num_threads()
    yield from follow(f, [lambda: None, lambda: torch.set_num_threads(1), lambda: torch.set_num_threads(threads)])
    with torch.autocast("cpu"):
        yield f(X)
    with torch.inference_mode():
        yield f(X)


@program(FAMILY)
def flags_of_backends(compile):
    f = compile(lambda x: x * torch.backends.mkldnn.enabled + (torch.get_float32_matmul_precision() == "high") +
                torch.are_deterministic_algorithms_enabled())
    before = torch.get_float32_matmul_precision()
    yield from follow(f, [lambda: torch.set_float32_matmul_precision("high"), lambda: torch.set_float32_matmul_precision(before),
                          lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False)])


@program(FAMILY)
def facts_of_a_tensor(compile):
    f = compile(lambda x: x * x.is_leaf + (x.grad is None) + x.requires_grad + x.is_contiguous() + (x._base is None) + x.data.dim())
    base = torch.ones(2, 2)
    for x in (base, base.t(), base[0], base.clone().requires_grad_(), base.clone().requires_grad_() * 1):
        yield [f(x).detach() for _ in range(3)]
    x = base.clone().requires_grad_()
    yield f(x).detach(), f(x).detach()
    x.grad = base
    yield f(x).detach(), f(x).detach()


@program(FAMILY)
def identities(compile):
    kept, others = [], [[]]
    f = compile(lambda x: x * (id(kept) == id(others[0])))
    yield from follow(f, [lambda: None, lambda: others.__setitem__(0, kept), lambda: others.__setitem__(0, [])])


@program(FAMILY)
def a_class_that_is_registered(compile):
    import abc

    class Shape(abc.ABC):
        pass

    class Square:
        pass
    square, made = Square(), []  # held: __subclasses__() has classes until they are collected
    f = compile(lambda x: x * isinstance(square, Shape) + len(Shape.__subclasses__()))
    yield from follow(f, [lambda: None, lambda: Shape.register(Square), lambda: made.append(type("Other", (Shape,), {}))])
