"""What code reads of a function or class beside calling it, found in each place where a program keeps one, and which attributes
of an object it reads."""
import copy
import copyreg
import dataclasses
import functools
import inspect
import operator
import re
import sys
import threading
import types
import typing
import weakref

import cresset as torch

from .harness import attempt, program

FAMILY = "described"
ones = torch.ones(3)

# How the program finds the function `g`: an expression of `p`, which _place() returns.
WAYS = {"closure": "p.f", "method": "p.a.m", "method_of_a_class": "p.A.m", "of_a_base": "p.b.m", "super": "p.b.up()", "static": "p.a.s",
        "class_method": "p.a.c", "property": "p.A.r.fget", "item": "p.d['f']", "in_a_list": "p.l[0]", "module": "p.module.g",
        "getattr": "getattr(p.a, 'm')", "getattr_of_a_name": "getattr(p.a, p.name)", "imported": "imported()", "wrapped": "p.w.__wrapped__",
        "partial": "p.partial.func", "method_function": "p.a.m.__func__", "spread": "getattr(*p.spread)"}
# What it reads there, and how that changes.
READS = {"attribute": ("{}.flag", lambda g, k: setattr(g, "flag", k)),
         "absent": ("getattr({}, 'later', 7)", lambda g, k: setattr(g, "later", k) if k > 1 else None),
         "name": ("len({}.__name__)", lambda g, k: setattr(g, "__name__", "n" * k)),
         "defaults": ("{}.__defaults__[0]", lambda g, k: setattr(g, "__defaults__", (k,))),
         "signature": ("inspect.signature({}).parameters['y'].default", lambda g, k: setattr(g, "__defaults__", (k,)))}


def _place(expression):
    """The objects that an expression names, and the function.  Others would lead to the function, too."""
    def g(self=None, y: 1 = 1):
        """d"""
        return 1

    class A:
        m, s, c, r = g, staticmethod(g), classmethod(g), property(g)

    class B(A):
        def up(self):
            return super().m

    module = types.ModuleType("cresset_described_module")
    module.g = g
    a = A()
    found = {"f": g, "A": A, "a": a, "b": B(), "d": {"f": g}, "l": [g], "module": module, "w": functools.wraps(g)(lambda: 0), "name": "m",
             "partial": functools.partial(g), "spread": (a, "m")}
    g.flag = 1
    return types.SimpleNamespace(**{name: x for name, x in found.items() if re.search(rf"\bp\.{name}\b", expression)}), g, module


def imported():
    from cresset_described_module import g
    return g


def _program(way, what):
    expression, change = READS[what]

    def run(compile):
        p, g, module = _place(WAYS[way])
        sys.modules[module.__name__] = module
        f = compile(eval(f"lambda x: x * {expression.format(WAYS[way])}", {"p": p, "inspect": inspect, "imported": imported}))
        try:
            for k in (1, 2, 3, 2):
                change(g, k)
                for _ in range(3):
                    yield attempt(f, ones)
        finally:
            del sys.modules[module.__name__]
    run.__name__ = f"{what}_of_a_function_by_{way}"
    program(FAMILY)(run)


for _way in WAYS:
    for _what in READS:
        _program(_way, _what)


def _of_classes(name, expression, change):
    def run(compile):
        p = _place("p.b")[0]
        f = compile(eval(f"lambda x: x * {expression}", {"p": p, "operator": operator}))
        for k in (1, 2, 3, 2):
            change(p, k)
            for _ in range(3):
                yield attempt(f, ones)
    run.__name__ = f"{name}_found_in_a_class"
    program(FAMILY)(run)


for _name, _expression, _change in [
        ("name", "len(type(p.b).__name__)", lambda p, k: setattr(type(p.b), "__name__", "n" * k)),
        ("long_name", "len(type(p.b).__qualname__)", lambda p, k: setattr(type(p.b), "__qualname__", "n" * k)),
        ("text", "len(type(p.b).__doc__ or '')", lambda p, k: setattr(type(p.b), "__doc__", "d" * k)),
        ("module", "len(type(p.b).__module__)", lambda p, k: setattr(type(p.b), "__module__", "m" * k)),
        ("attribute_of_the_base", "p.b.k", lambda p, k: setattr(type(p.b).__base__, "k", k)),
        ("attribute_that_hides", "p.b.k", lambda p, k: setattr(type(p.b).__base__ if k < 2 else type(p.b), "k", k)),
        ("attribute_by_super", "super(type(p.b), p.b).k", lambda p, k: setattr(type(p.b).__base__, "k", k)),
        ("absent_attribute", "hasattr(p.b, 'late') + 1", lambda p, k: setattr(type(p.b).__base__, "late", k) if k > 2 else None),
        ("attribute_by_a_getter", "operator.attrgetter('k')(p.b)", lambda p, k: setattr(type(p.b).__base__, "k", k)),
        ("property_that_comes", "(setattr(p.b, 'v', 2.), p.b.v)[1]", lambda p, k: setattr(
            type(p.b).__base__, "v", property(lambda self: k, lambda self, v: None)) if k > 2 else None)]:
    _of_classes(_name, _expression, _change)


@dataclasses.dataclass(order=True)
class Held:
    k: float = 2.
    j: float = 3.

    def twice(self):
        return 2 * self.k


@typing.runtime_checkable
class HasK(typing.Protocol):
    k: float


_PARTS = {"copy": "copy.copy(h).k", "deep_copy": "copy.deepcopy(h).k", "replaced": "dataclasses.replace(h, j=5.).k", "as_dict": "dataclasses.asdict(h)['k']",
          "equal": "2 + (h == g)", "order": "2 + (h < g)", "text": "len(repr(h))", "proxy": "weakref.proxy(h).k", "method": "h.twice()",
          "state": "copy.copy(h).__dict__['k']", "reduced": "h.__reduce_ex__(4)[2]['k']", "getstate": "copyreg.__reduce_ex__(h, 2)[2]['k']",
          "other_branch": "h.j if x.shape[0] > 3 else h.k", "max": "max([h, g], key=lambda o: o.k).k",
          "fields": "sum(getattr(h, f.name) for f in dataclasses.fields(h))", "protocol": "2 + isinstance(h, HasK)",
          "match": "match(h)", "namespace": "types.SimpleNamespace(**h.__dict__).k", "unpacked": "sum(dataclasses.astuple(h))"}


def match(h):
    match h:
        case Held(k, j):
            return k
    return 0


def _of_objects(name, expression):
    def run(compile):
        h, g = Held(), Held()
        h.lock, h.things = threading.Lock() if "copy" not in expression and "as" not in expression else None, {object}
        f = compile(eval(f"lambda x: x * ({expression})", {"h": h, "g": g, "copy": copy, "dataclasses": dataclasses, "weakref": weakref,
                                                         "copyreg": copyreg, "HasK": HasK, "match": match, "types": types}))
        for k in (2., 7., 2., 3.):
            h.k, h.things = k, {object, k}
            for n in (3, 3, 3, 4, 3):
                yield attempt(f, torch.ones(n))
        h.j = 1.
        yield attempt(f, ones), attempt(f, torch.ones(4))
        h.later = 1.
        yield attempt(f, ones), attempt(f, ones)
        del h.j
        yield attempt(f, ones), attempt(f, torch.ones(4))
    run.__name__ = f"{name}_of_an_object_with_more"
    program(FAMILY)(run)


for _name, _expression in _PARTS.items():
    _of_objects(_name, _expression)
