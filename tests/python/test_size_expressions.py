"""Sizes of exported programs: random expressions beside numbers, and their texts read back."""
import copy
import pickle
import random

import pytest

from cresset._size_expr import Size, parse

A, B, U = map(Size.symbol, ("s0", "s1", "u0"))


def draw(rng, depth):
    kind = rng.randrange(8 if depth else 2)
    if kind == 0:
        return Size.of(rng.randint(-3, 4))
    if kind == 1:
        return rng.choice([A, B, U])
    a, b = draw(rng, depth - 1), draw(rng, depth - 1)
    if kind < 6:
        return a + b if kind == 2 else a - b if kind == 3 else a * b if kind == 4 else -a
    function = rng.choice(["floordiv", "mod", "min", "max"])
    return Size.apply(function, a, rng.choice([Size.of(rng.randint(1, 5)), A]) if function in ("floordiv", "mod") else b)


@pytest.mark.parametrize("seed", range(3))
def test_values_and_texts_of_random_expressions(seed):
    rng = random.Random(seed)
    for _ in range(300):
        e, values = draw(rng, 4), {"s0": rng.randint(1, 9), "s1": rng.randint(1, 9), "u0": rng.randint(-3, 9)}
        assert parse(e.text()) == e and parse(e.file_text()) == e and pickle.loads(pickle.dumps(e)) == e
        assert e.subs({name: Size.of(n) for name, n in values.items()}).value == e.at(values)
        assert hash(copy.deepcopy(e)) == hash(e) and (e - e == 0) and (e * 2 - e == e)


@pytest.mark.parametrize("e, text", [
    ((A + 1) * (A - 1), "s0**2 - 1"),
    (Size.apply("floordiv", A * B + A, A), "s1 + 1"),
    (Size.apply("floordiv", U * B, U), "s1"),
    (Size.apply("floordiv", 8 * A + B, 8), "s0 + (s1//8)"),
    (Size.apply("mod", 8 * A + B, 8), "(Mod(s1, 8))"),
    (Size.apply("mod", 6 * A, 3), "0"),
    (Size.apply("max", A, 1), "s0"),
    (Size.apply("max", U, 1), "Max(1, u0)"),
    (Size.apply("div", A, 2), "IntTrueDiv(s0, 2)"),
    (2 - A ** 2 * B, "-s0**2*s1 + 2"),
])
def test_texts(e, text):
    assert e.text() == text and parse(text) == e


def test_what_is_no_size():
    assert Size.of(2 ** 62) * 1 == 2 ** 62 and A != 2 ** 80 and not A == "s0"
    for call, error in ((lambda: A + "1", TypeError), (lambda: Size.of(2 ** 62) * 4, OverflowError), (lambda: Size.apply("floordiv", A, 0), ZeroDivisionError),
                        (lambda: A.value, TypeError), (lambda: Size.apply("root", A, 2), ValueError), (lambda: parse("f(s0)"), ValueError)):
        with pytest.raises(error):
            call()
