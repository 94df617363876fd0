"""Special methods that a class gets after its objects were used, and that are then replaced and removed."""
import operator

import cresset as torch

from .harness import attempt, program

FAMILY = "late special methods"


def entered(h):
    with h as k:
        return k


def spread(h):
    return len([*h])


def in_a_match(h):
    match h:
        case Box(k):
            return k
        case _:
            return 0


class Box:
    pass


# name of the method: (uses, makes a method that gives the number k)
USES = {
    "__bool__": ([lambda h: 2 if h else 1, lambda h: not h, lambda h: any([h]), lambda h: len(list(filter(None, [h])))],
                 lambda k: lambda self: k > 2),
    "__len__": ([lambda h: len(h), lambda h: 2 if h else 1, lambda h: operator.length_hint(h, 9)], lambda k: lambda self: k - 2),
    "__eq__": ([lambda h: (h == 3) + 1, lambda h: [3, h].index(h), lambda h: [3].count(h), lambda h: h in (3, 4)],
               lambda k: lambda self, other: k > 2),
    "__hash__": ([lambda h: len({h: 1}), lambda h: len({h, 1, 2})], lambda k: lambda self: k),
    "__contains__": ([lambda h: 3 in h, lambda h: operator.contains(h, 3)], lambda k: lambda self, x: k > 2),
    "__iter__": ([lambda h: sum(h), spread, lambda h: max(h), lambda h: len(tuple(h)), lambda h: 3 in h],
                 lambda k: lambda self: iter([k, 1])),
    "__getitem__": ([lambda h: h[0], lambda h: sum(h), lambda h: operator.getitem(h, 0)],
                    lambda k: lambda self, at: k if at < 2 else (_ for _ in ()).throw(IndexError)),
    "__call__": ([lambda h: h(), lambda h: callable(h), lambda h: sum(map(h, [])) + callable(h)], lambda k: lambda self: k),
    "__str__": ([lambda h: len(str(h)) < 6, lambda h: len(f"{h}") < 6, lambda h: len("%s" % h) < 6, lambda h: len("{}".format(h)) < 6],
                lambda k: lambda self: "a" * k),
    "__repr__": ([lambda h: len(repr(h)) < 6, lambda h: len(f"{h!r}") < 6, lambda h: len(str([h])) < 9], lambda k: lambda self: "a" * k),
    "__format__": ([lambda h: len(f"{h:a}"), lambda h: len(format(h)) < 9], lambda k: lambda self, how: "a" * k),
    "__getattr__": ([lambda h: h.size, lambda h: getattr(h, "size", 9), lambda h: hasattr(h, "size")], lambda k: lambda self, name: k),
    "__getattribute__": ([lambda h: h.held], lambda k: lambda self, name: k),
    "__add__": ([lambda h: h + 1, lambda h: operator.add(h, 1), lambda h: sum([h, 1], h)], lambda k: lambda self, other: k),
    "__radd__": ([lambda h: 1 + h, lambda h: sum([h])], lambda k: lambda self, other: k),
    "__neg__": ([lambda h: -h], lambda k: lambda self: k),
    "__lt__": ([lambda h: h < 1, lambda h: sorted([h, h])[0] is h, lambda h: (h < 1) + (max(h, h) is h)], lambda k: lambda self, other: k > 2),
    "__index__": ([lambda h: [5, 6, 7, 8, 9, 10][h], lambda h: len(range(h)), lambda h: operator.index(h)], lambda k: lambda self: k),
    "__float__": ([lambda h: float(h)], lambda k: lambda self: float(k)), "__int__": ([lambda h: int(h)], lambda k: lambda self: k),
    "__abs__": ([lambda h: abs(h)], lambda k: lambda self: k), "__round__": ([lambda h: round(h)], lambda k: lambda self: k),
    "__matmul__": ([lambda h: h @ 1], lambda k: lambda self, other: k), "__enter__": ([entered], lambda k: lambda self: k),
    "__reversed__": ([lambda h: len(list(reversed(h)))], lambda k: lambda self: iter([k] * k)),
    "__match_args__": ([in_a_match], lambda k: ("held", "other") if k == 3 else ("held",)),
    "__init__": ([lambda h: getattr(type(h)(), "size", 0)], lambda k: lambda self: setattr(self, "size", k)),
    "__new__": ([lambda h: getattr(type(h)(), "size", 0)],
                lambda k: lambda t: (lambda made: (setattr(made, "size", k), made)[1])(object.__new__(t))),
    "__setattr__": ([lambda h: (lambda made: (setattr(made, "size", 1), getattr(made, "size", 0))[1])(type(h)())],
                    lambda k: lambda self, name, value: object.__setattr__(self, name, k)),
    "__dir__": ([lambda h: len(dir(h)) < 9], lambda k: lambda self: ["a"] * k),
    "__torch_function__": ([lambda h: torch.add(h, 1)], lambda k: classmethod(lambda cls, f, types, args=(), kwargs=None: k)),
}
# Methods of the metaclass.
META = {
    "__instancecheck__": ([lambda t: isinstance(3, t), lambda t: isinstance(3, (t, str))], lambda k: lambda cls, x: k > 2),
    "__subclasscheck__": ([lambda t: issubclass(int, t)], lambda k: lambda cls, x: k > 2),
    "__call__": ([lambda t: t() if type(t()) is int else 0], lambda k: lambda cls: k),
    "__getattr__": ([lambda t: getattr(t, "size", 9)], lambda k: lambda cls, name: k), "__len__": ([lambda t: len(t)], lambda k: lambda cls: k),
    "__iter__": ([lambda t: sum(t)], lambda k: lambda cls: iter([k])), "__contains__": ([lambda t: 3 in t], lambda k: lambda cls, x: k > 2),
    "__getitem__": ([lambda t: t[0]], lambda k: lambda cls, at: k), "__bool__": ([lambda t: 2 if t else 1], lambda k: lambda cls: k > 2),
    "__add__": ([lambda t: t + 1], lambda k: lambda cls, other: k), "__or__": ([lambda t: t | 1], lambda k: lambda cls, other: k),
}


def follow(compile, t, h, name, use, make):
    g = compile(lambda x: x * use(h))
    for k in (None, None, None, 2, 2, 2, 3, 3, "removed", None, 4, None):
        if k == "removed":
            attempt(delattr, t, name)
        elif k is not None:
            attempt(setattr, t, name, make(k))
        found = attempt(g, torch.ones(2))
        yield found[0] if isinstance(found, tuple) else found


def of_an_object(name, use, make, base):
    def f(compile):
        Base = type("Base", (Box,), {"__exit__": lambda self, *a: None, "held": 1})
        t = type("Held", (Base,), {})
        yield from follow(compile, Base if base else t, t(), name, use, make)
    return f


def of_a_class(name, use, make):
    def f(compile):
        Meta = type("Meta", (type,), {})
        yield from follow(compile, Meta, Meta("Held", (), {}), name, use, make)
    return f


for _name, (_uses, _make) in USES.items():
    for _i, _use in enumerate(_uses):
        for _base in (False, True):
            _f = of_an_object(_name, _use, _make, _base)
            _f.__name__ = f"late_{_name.strip('_')}_{_i}{'_of_a_base' * _base}"
            program(FAMILY)(_f)
for _name, (_uses, _make) in META.items():
    for _i, _use in enumerate(_uses):
        _f = of_a_class(_name, _use, _make)
        _f.__name__ = f"late_{_name.strip('_')}_of_a_metaclass_{_i}"
        program(FAMILY)(_f)
