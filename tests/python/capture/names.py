"""Attributes that a program reads by names which it computes, in every way that Python has.

A reader gets a holder and a name; the attribute is found on the object, on its class, on a base class, in a module, by a
property or by a metaclass.  Between the calls the attribute is replaced, hidden by a nearer one, and removed.
"""
import functools
import inspect
import operator
import types

import cresset as torch

from .harness import attempt, program

FAMILY = "computed names"
find, has = getattr, hasattr
found_by = [getattr]
kept_getter = operator.attrgetter("size")
bound_find = functools.partial(getattr)


def spell(name):
    return "".join(list(name))


def by_match(h, n):
    match h:
        case object(size=k):
            return k
    return 0


def by_default(h, n, read=getattr):
    return read(h, n)


def by_star(h, n):
    return getattr(*(h, n))


def by_class_match(h, n):
    match h:
        case Held(size=k):
            return k
    return 0


def by_local(h, n):
    read = getattr
    return read(h, n)


def by_alias(h, n):
    return find(h, n) + has(h, n)


def by_items(h, n):
    return sum(v for k, v in type(h).__dict__.items() if k == n)


def by_loop(h, n):
    for k in type(h).__dict__:
        if k == n:
            return 1
    return 0


def by_mro(h, n):
    for t in type(h).__mro__:
        if n in t.__dict__:
            return t.__dict__[n] if type(t.__dict__[n]) is int else 0
    return -1


READERS = {
    "getattr": lambda h, n: getattr(h, n), "getattr_of_text": lambda h, n: getattr(h, f"{n}"),
    "getattr_of_parts": lambda h, n: getattr(h, f"si{n[2:]}"), "getattr_of_a_sum": lambda h, n: getattr(h, "si" + n[2:]),
    "getattr_with_a_default": lambda h, n: getattr(h, spell(n), 7), "hasattr": lambda h, n: hasattr(h, n),
    "getattr_by_an_alias": by_alias, "getattr_by_a_local": by_local, "getattr_by_a_default": by_default,
    "getattr_by_a_list": lambda h, n: found_by[0](h, n), "getattr_by_a_star": by_star,
    "getattr_by_map": lambda h, n: list(map(getattr, [h], [n]))[0],
    "getattr_by_map_with_a_default": lambda h, n: sum(map(getattr, [h], [n], [3])),
    "getattr_by_partial": lambda h, n: functools.partial(getattr, h)(n), "getattr_by_a_kept_partial": lambda h, n: bound_find(h, n),
    "getattr_by_reduce": lambda h, n: functools.reduce(getattr, [n], h),
    "getattr_by_a_key": lambda h, n: max([n], key=functools.partial(getattr, h)) == n,
    "object_getattribute": lambda h, n: object.__getattribute__(h, n), "bound_getattribute": lambda h, n: h.__getattribute__(n),
    "type_getattribute": lambda h, n: type.__getattribute__(type(h), n), "class_getattribute": lambda h, n: type(h).__getattribute__(h, n),
    "attrgetter": lambda h, n: operator.attrgetter(n)(h), "kept_attrgetter": lambda h, n: kept_getter(h),
    "attrgetter_by_map": lambda h, n: sum(map(operator.attrgetter(n), [h])),
    "dict_item": lambda h, n: h.__dict__[n], "dict_get": lambda h, n: h.__dict__.get(n, 9), "vars_get": lambda h, n: vars(h).get(n, 9),
    "in_dict": lambda h, n: n in h.__dict__, "in_dir": lambda h, n: n in dir(h), "class_dict": lambda h, n: type(h).__dict__[n],
    "class_dict_get": lambda h, n: type(h).__dict__.get(n, 5), "in_class_dict": lambda h, n: n in type(h).__dict__,
    "class_vars": lambda h, n: vars(type(h))[n], "copy_of_class_dict": lambda h, n: dict(type(h).__dict__)[n],
    "spread_of_class_dict": lambda h, n: {**type(h).__dict__}[n], "items_of_class_dict": by_items, "names_of_class_dict": by_loop,
    "getitem_of_class_dict": lambda h, n: operator.getitem(type(h).__dict__, n), "mro": by_mro,
    "contains_of_class_dict": lambda h, n: operator.contains(type(h).__dict__, n),
    "bound_get_of_class_dict": lambda h, n: (lambda get: get(n, 4))(type(h).__dict__.get),
    "length_of_class_dict": lambda h, n: len(type(h).__dict__), "list_of_class_dict": lambda h, n: len(list(type(h).__dict__)),
    "static": lambda h, n: inspect.getattr_static(h, n, 6) if n else 0, "format": lambda h, n: len("{0.size}".format(h)) + int("{0.size}".format(h)),
    "format_map": lambda h, n: int("{h.size}".format_map({"h": h})), "match": by_match, "class_match": by_class_match,
    "size_of_the_class": lambda h, n: getattr(type(h), n, 2), "size_of_the_metaclass": lambda h, n: getattr(type(type(h)), n, 2),
    "eval": lambda h, n: eval("h." + n), "setattr_and_back": lambda h, n: setattr(h, "other", getattr(h, n)) or h.other,
    "setattr_by_a_name": lambda h, n: setattr(h, spell("other"), 1) or getattr(h, n),
    "delattr_by_a_name": lambda h, n: (setattr(h, "other", 1), delattr(h, spell("other")), getattr(h, n))[2],
    "isinstance_of_a_name": lambda h, n: isinstance(h, getattr(torch, "Ten" + "sor")) + getattr(h, n),
    "getattr_in_a_generator": lambda h, n: sum(getattr(h, k) for k in (n,)),
    "getattr_in_a_comprehension": lambda h, n: [getattr(h, k) for k in [n]][0],
    "nested_names": lambda h, n: getattr(getattr(h, "__class__"), n, 0) + getattr(h, n),
    "sorted_by_a_name": lambda h, n: sorted([h], key=lambda o: getattr(o, n))[0].size,
}


class Held:
    pass


def on_the_object():
    h = Held()
    h.size = 1
    return h, lambda k: setattr(h, "size", k), lambda: delattr(h, "size"), lambda: None


def on_the_class():
    Box = type("Box", (Held,), {"size": 1})
    h = Box()
    return h, lambda k: setattr(Box, "size", k), lambda: delattr(Box, "size"), lambda: setattr(h, "size", 30)


def on_a_base():
    Base = type("Base", (Held,), {"size": 1})
    Box = type("Box", (Base,), {})
    return Box(), lambda k: setattr(Base, "size", k), lambda: delattr(Base, "size"), lambda: setattr(Box, "size", 30)


def on_the_metaclass():
    Meta = type("Meta", (type,), {"size": 1})
    Box = Meta("Box", (Held,), {})
    return Box, lambda k: setattr(Meta, "size", k), lambda: delattr(Meta, "size"), lambda: setattr(Box, "size", 30)


def in_a_module():
    m = types.ModuleType("made")
    m.size = 1
    return m, lambda k: setattr(m, "size", k), lambda: delattr(m, "size"), lambda: None


def by_a_property():
    Box = type("Box", (Held,), {"size": property(lambda self: 1)})
    return Box(), lambda k: setattr(Box, "size", property(lambda self: k)), lambda: delattr(Box, "size"), lambda: None


def by_a_slot():
    Box = type("Box", (), {"__slots__": ("size", "other")})
    h = Box()
    h.size = 1
    return h, lambda k: setattr(h, "size", k), lambda: delattr(h, "size"), lambda: None


def by_a_getattr():
    Box = type("Box", (Held,), {"__getattr__": lambda self, name: len(name), "__dir__": lambda self: ["a"]})
    return Box(), lambda k: setattr(Box, "__getattr__", lambda self, name: k), lambda: delattr(Box, "__getattr__"), lambda: None


PLACES = [on_the_object, on_the_class, on_a_base, on_the_metaclass, in_a_module, by_a_property, by_a_slot, by_a_getattr]


def made(reader, place):
    def f(compile):
        h, replace, remove, hide = place()
        g = compile(lambda x, n: x * reader(h, n))
        for change in (*[lambda: None] * 4, *[functools.partial(replace, k) for k in (2, 2, 3, 1)], hide, hide,
                       functools.partial(replace, 4), remove, lambda: None, functools.partial(replace, 5), lambda: None):
            attempt(change)
            yield attempt(g, torch.ones(2), "size")
    return f


for _name, _reader in READERS.items():
    for _place in PLACES:
        _f = made(_reader, _place)
        _f.__name__ = f"{_name}_{_place.__name__}"
        program(FAMILY)(_f)
