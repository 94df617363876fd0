"""Containers of all kinds, one item of which another one replaces between the calls."""
import collections
import enum
import types

import cresset as torch

from .harness import program, steps

FAMILY = "contents"
Pair = collections.namedtuple("Pair", "a b")


class Backwards(set):
    def __iter__(self):
        return iter(sorted(set.__iter__(self), reverse=True))


class Longer(list):
    def __len__(self):
        return 2 * list.__len__(self)

    def __iter__(self):
        return iter([5, 6])


class Other(tuple):
    def __iter__(self):
        return iter([1])


class Keyless(dict):
    def __iter__(self):
        return iter(["z"])

    def items(self):
        return [("q", 1)]


class Letter(enum.Enum):
    A, B = 1, 2


class Number(enum.IntEnum):
    A, B = 1, 2


class Slotted:
    __slots__ = ("v",)

    def __init__(self, v):
        self.v = v


def put(key, x):
    return lambda o: o.__setitem__(key, x)


# name: (makes an object, reads it, changes it)
CASES = {
    "set": (lambda: Backwards({1, 2, 3}), sum, lambda o: o.add(9)),
    "list": (lambda: Longer([1, 2]), lambda o: len(o) + sum(o) * o[0], put(0, 7)),
    "tuple": (lambda: [Other((3, 4))], lambda o: o[0][1] * sum(o[0]), put(0, Other((3, 9)))),
    "dict": (lambda: Keyless(a=1, b=2), lambda o: o["a"] * len(o), put("a", 5)),
    "dict_or_tuple": (lambda: [{"a": 1}], lambda o: o[0]["a"] if isinstance(o[0], dict) else o[0][0], put(0, (8,))),
    "shorter": (lambda: [1, 2, 3], sum, lambda o: o.pop()),
    "enumeration": (lambda: [Letter.A], lambda o: 2 if o[0] is Letter.A else 3, put(0, Letter.B)),
    "number_of_an_enumeration": (lambda: [Number.A], lambda o: (2 if o[0] is Number.A else 3) + o[0], put(0, Number.B)),
    "value_of_an_enumeration": (lambda: [Letter.A], lambda o: o[0].value, put(0, Letter.B)),
    "named_tuple": (lambda: [Pair(1, 2)], lambda o: o[0].a - o[0].b, put(0, Pair(1, 7))),
    "slots": (lambda: Slotted(2), lambda o: o.v, lambda o: setattr(o, "v", 5)),
    "nan": (lambda: [float("nan"), 1.], lambda o: (1 if o[0] in o else 2) * o[1], put(1, 3.)),
    "another_nan": (lambda: [float("nan"), 1.], lambda o: 1 if o[0] in [o[0]] else 2, put(0, float("nan"))),
    "truth": (lambda: [1], lambda o: 2 if o[0] is True else 3, put(0, True)),
    "zero": (lambda: [0.], lambda o: float(str(o[0]).replace("-", "1")), put(0, -0.)),
    "namespace": (lambda: types.SimpleNamespace(a=1), lambda o: o.a, lambda o: setattr(o, "a", 4)),
    "keys_that_are_numbers": (lambda: {1: 2, 2: 3, "k": 4}, lambda o: o[1] * o[2], put(2, 9)),
    "bytes": (lambda: {"a": b"xy"}, lambda o: len(o["a"]), put("a", b"xyz")),
    "none": (lambda: {"a": None}, lambda o: 1 if o["a"] is None else 2, put("a", 3)),
    "order": (lambda: collections.OrderedDict(a=1, b=2), lambda o: list(o.values())[0], lambda o: o.move_to_end("a")),
    "slice": (lambda: [slice(0, 1)], lambda o: [7, 8, 9][o[0]][0], put(0, slice(1, None))),
    "removed": (lambda: {"a": 1, "b": 2}, len, lambda o: o.pop("b")),
}


def changes(name):
    make, read, change = CASES[name]

    @program(FAMILY)
    def contents(compile):
        o, x = make(), torch.ones(2)
        f = compile(lambda x: x * read(o))
        yield from steps(f, (x,), (x,), (x,), lambda: change(o), (x,), (x,), (x,))
    contents.__name__ = f"contents_{name}"


for each in CASES:
    changes(each)
