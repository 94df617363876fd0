"""Containers as arguments, results, globals and locals."""
import collections
import dataclasses

import cresset as torch

from .harness import attempt, program

FAMILY = "containers"
Point = collections.namedtuple("Point", "x y")
table = {}


@dataclasses.dataclass
class Config:
    scale: float = 1.0
    names: list = dataclasses.field(default_factory=list)


@program(FAMILY)
def named_tuples_in_and_out(compile):
    @compile
    def f(p):
        return Point(p.x + p.y, p.y * 2)
    for i in range(3):
        yield f(Point(torch.full((2,), float(i)), torch.ones(2)))


@program(FAMILY)
def a_nested_result(compile):
    f = compile(lambda x: {"a": [x + 1, (x * 2, 3)], "b": None})
    for i in range(3):
        yield f(torch.full((2,), float(i)))


@program(FAMILY)
def the_same_tensor_twice(compile):
    @compile
    def f(x):
        y = x + 1
        return y, y
    for _ in range(3):
        a, b = f(torch.ones(2))
        yield a is b, a, b


@program(FAMILY)
def the_argument_itself(compile):
    @compile
    def f(x):
        return x, x + 1
    for _ in range(3):
        x = torch.ones(2)
        a, b = f(x)
        yield a is x, b


@program(FAMILY)
def a_list_argument_is_extended(compile):
    @compile
    def f(x, out):
        out.append(x * 2)
        return x + len(out)
    for _ in range(3):
        out = []
        yield f(torch.ones(2), out), out


@program(FAMILY)
def a_list_argument_of_other_lengths(compile):
    @compile
    def f(xs):
        total = torch.zeros(2)
        for x in xs:
            total = total + x
        return total
    for n in (1, 2, 3, 2, 0):
        yield f([torch.full((2,), float(i)) for i in range(n)])


@program(FAMILY)
def a_dict_argument_is_written(compile):
    @compile
    def f(d):
        d["y"] = d["x"] * 2
        return d["y"] + 1
    for i in range(3):
        d = {"x": torch.full((2,), float(i))}
        yield f(d), d


@program(FAMILY)
def a_global_dict_changes(compile):
    @compile
    def f(x):
        return x * table["k"] + table.get("absent", 3)
    for k, absent in ((1, None), (2, None), (2, 7), (1, 7)):
        table.clear()
        table["k"] = k
        if absent:
            table["absent"] = absent
        yield f(torch.ones(2))


@program(FAMILY)
def a_dataclass_argument(compile):
    f = compile(lambda x, c: x * c.scale + len(c.names))
    for c in (Config(), Config(2.), Config(2., ["a"]), Config()):
        yield f(torch.ones(2), c)


@program(FAMILY)
def a_dataclass_result(compile):
    f = compile(lambda x: Config(2., [x + 1]))
    for _ in range(3):
        c = f(torch.ones(2))
        yield c.scale, c.names


@program(FAMILY)
def a_deque_with_a_limit(compile):
    window = collections.deque(maxlen=2)

    @compile
    def f(x):
        window.append(x + 1)
        return sum(window)
    for i in range(4):
        yield f(torch.full((2,), float(i))), list(window)


@program(FAMILY)
def a_counter(compile):
    c = collections.Counter()

    @compile
    def f(x, word):
        c[word] += 1
        return x * c[word]
    for word in "aabab":
        yield f(torch.ones(2), word), dict(c)


@program(FAMILY)
def a_default_dict_makes_values(compile):
    d = collections.defaultdict(lambda: 5)

    @compile
    def f(x, k):
        return x + d[k]
    for k in ("a", "b", "a"):
        yield f(torch.ones(2), k), dict(d)


@program(FAMILY)
def a_set_argument(compile):
    f = compile(lambda x, s: x + 1 if "a" in s else x - 1)
    for s in ({"a"}, set(), {"a", "b"}, {"b"}):
        yield f(torch.ones(2), s)


@program(FAMILY)
def slices_of_lists(compile):
    xs = [1., 2., 3., 4.]
    f = compile(lambda x, i: x + sum(xs[i:]))
    for i in (0, 1, 2, 0):
        yield f(torch.ones(2), i)
    xs[3] = 9.
    yield f(torch.ones(2), 0)


@program(FAMILY)
def unpacking_with_a_star(compile):
    @compile
    def f(*args, **kwargs):
        first, *rest = args
        return first + len(rest) + kwargs.get("k", 0)
    x = torch.ones(2)
    yield f(x), f(x, x), f(x, x, k=2), f(x, k=3), f(x)


@program(FAMILY)
def an_item_is_sorted(compile):
    items = [3, 1, 2]

    @compile
    def f(x):
        return x * sorted(items)[0] + max(items)
    yield f(torch.ones(2))
    items.append(0)
    yield f(torch.ones(2))
    items[0] = 10
    yield f(torch.ones(2)), items


@program(FAMILY)
def a_list_sorts_itself(compile):
    @compile
    def f(x, items):
        items.sort()
        return x + items[0]
    for items in ([3, 1], [1, 3], [2, 0]):
        yield f(torch.ones(2), items), items


@program(FAMILY)
def a_missing_key(compile):
    f = compile(lambda x, d: x + d["k"])
    for d in ({"k": 1}, {}, {"k": 2}, {"j": 1}):
        yield attempt(f, torch.ones(2), d)


@program(FAMILY)
def a_bytearray_changes(compile):
    data = bytearray(b"\x01\x02")
    f = compile(lambda x: x + data[0])
    for b in (1, 2, 1):
        data[0] = b
        yield f(torch.ones(2))


@program(FAMILY)
def strings_choose(compile):
    f = compile(lambda x, how: getattr(torch, how)(x) if how.islower() else x)
    for how in ("sin", "cos", "NONE", "sin"):
        yield f(torch.ones(2), how)


@program(FAMILY)
def a_tuple_in_a_dict_in_a_list(compile):
    data = [{"k": (1, [2])}]
    f = compile(lambda x: x + data[0]["k"][1][0])
    yield f(torch.ones(2))
    data[0]["k"][1][0] = 5
    yield f(torch.ones(2))
    data[0]["k"] = (1, [6])
    yield f(torch.ones(2))
    data[0] = {"k": (1, [7])}
    yield f(torch.ones(2))


@program(FAMILY)
def a_set_of_an_object_grows(compile):
    class Box:
        def __init__(self):
            self.seen = {1}
    b = Box()
    f = compile(lambda x: x + len(b.seen) + (10 if 5 in b.seen else 0))
    yield f(torch.ones(2)), f(torch.ones(2))
    b.seen.add(5)
    yield f(torch.ones(2))
    b.seen.discard(5)
    yield f(torch.ones(2))


@program(FAMILY)
def an_argument_is_a_set_of_tensors_in_a_dict(compile):
    f = compile(lambda d: sum(v for v in d["xs"]))
    for n in (1, 2, 1):
        yield f({"xs": {torch.ones(2) for _ in range(n)}})
