"""Symbols: numbers and sizes that vary, and what Python does with them."""
import math

import cresset as torch

from .harness import attempt, program

FAMILY = "symbols"
SIZES = (3, 4, 5, 6, 1, 0, 9, 5)
NUMBERS = (2, 3, 4, 5, -1, 0, 1, 7)
FLOATS = (0.5, 1.5, 2.25, -0.0, 0.0, math.inf, 3.0)


def over_sizes(f, *more):
    for n in SIZES:
        yield attempt(f, torch.arange(float(n)), *more)


def over_numbers(f, numbers=NUMBERS):
    for n in numbers:
        yield attempt(f, torch.arange(3.), n)


@program(FAMILY)
def the_type_of_a_size(compile):
    f = compile(lambda x: x + (1 if type(x.shape[0]) is int else 2))
    yield from over_sizes(f)


@program(FAMILY)
def the_type_of_a_number(compile):
    f = compile(lambda x, n: x + (1 if type(n) is int else 2))
    yield from over_numbers(f)


@program(FAMILY)
def isinstance_of_a_number(compile):
    f = compile(lambda x, n: x + (1 if isinstance(n, int) else 2 if isinstance(n, float) else 3))
    yield from over_numbers(f, (1, 2, 3, 1.5, 2.5, 3.5, True))


@program(FAMILY)
def a_size_in_a_string(compile):
    f = compile(lambda x: (x + 1, f"size {x.shape[0]}", str(x.shape)))
    yield from over_sizes(f)


@program(FAMILY)
def a_size_in_a_dict(compile):
    f = compile(lambda x: x + {3: 1, 4: 2}.get(x.shape[0], 5))
    yield from over_sizes(f)


@program(FAMILY)
def a_size_in_a_range(compile):
    def f(x):
        for i in range(x.shape[0]):
            x = x + i
        return x
    yield from over_sizes(compile(f))


@program(FAMILY)
def a_size_in_a_branch(compile):
    f = compile(lambda x: x + 1 if x.shape[0] > 4 else x - 1 if x.shape[0] % 2 else x * 2)
    yield from over_sizes(f)


@program(FAMILY)
def a_number_in_a_branch(compile):
    f = compile(lambda x, n: x + n if n > 3 else x * n)
    yield from over_numbers(f)


@program(FAMILY)
def rounded_floats(compile):
    f = compile(lambda x, s: x + round(s, 1) if math.isfinite(s) else x)
    yield from over_numbers(f, FLOATS)


@program(FAMILY)
def math_of_floats(compile):
    f = compile(lambda x, s: x * math.exp(-s) + math.floor(s) if s < 10 else x)
    yield from over_numbers(f, FLOATS)


@program(FAMILY)
def the_sign_of_zero(compile):
    f = compile(lambda x, s: x + math.copysign(1., s))
    yield from over_numbers(f, FLOATS)


@program(FAMILY)
def nan_is_not_itself(compile):
    f = compile(lambda x, s: x + 1 if s == s else x - 1)
    yield from over_numbers(f, (1., 2., math.nan, 3., math.nan))


@program(FAMILY)
def large_integers(compile):
    f = compile(lambda x, n: x + n % 1000)
    yield from over_numbers(f, (1, 2 ** 31, 2 ** 62, 2 ** 63 - 1, 2 ** 64, -2 ** 63, -2 ** 62 - 1, 5))


@program(FAMILY)
def integer_division(compile):
    f = compile(lambda x, n: x + n // 2 + n % 3 + (-n) // 2 + divmod(n, 4)[1])
    yield from over_numbers(f)


@program(FAMILY)
def powers(compile):
    f = compile(lambda x, n: x + n ** 2 + 2 ** n)
    yield from over_numbers(f)


@program(FAMILY)
def shifts_and_masks(compile):
    f = compile(lambda x, n: x + ((n << 1) | 1) + (n & 2) + (n ^ 1) + ~n)
    yield from over_numbers(f)


@program(FAMILY)
def booleans_are_numbers(compile):
    f = compile(lambda x, n: x + n)
    yield from over_numbers(f, (True, False, 1, 0, 2, True))


@program(FAMILY)
def a_size_is_returned(compile):
    f = compile(lambda x: (x + 1, x.shape[0], x.shape[0] * 2, x.shape))
    yield from over_sizes(f)


@program(FAMILY)
def a_number_is_returned(compile):
    f = compile(lambda x, n: (x + n, n, n + 1))
    yield from over_numbers(f)


@program(FAMILY)
def a_size_is_stored(compile):
    seen = {}

    @compile
    def f(x):
        seen["n"] = x.shape[0]
        return x + 1
    for y in over_sizes(f):
        yield y, dict(seen)


@program(FAMILY)
def slices_by_a_size(compile):
    f = compile(lambda x: x[: x.shape[0] // 2].sum() + x[-1:].sum() + x[1:].sum())
    yield from over_sizes(f)


@program(FAMILY)
def slices_by_a_number(compile):
    f = compile(lambda x, n: x[:n] * 2)
    yield from over_numbers(f)


@program(FAMILY)
def an_index_by_a_number(compile):
    f = compile(lambda x, n: x[n] * 2)
    yield from over_numbers(f, (0, 1, 2, -1, -3, 3, 1))


@program(FAMILY)
def a_view_by_a_size(compile):
    f = compile(lambda x: x.view(x.shape[0], 1).expand(x.shape[0], 2).reshape(-1) + x.numel())
    yield from over_sizes(f)


@program(FAMILY)
def a_factory_by_a_size(compile):
    f = compile(lambda x: torch.arange(x.shape[0]) + x + torch.zeros(x.shape[0]) + torch.ones(x.size()))
    yield from over_sizes(f)


@program(FAMILY)
def split_by_a_number(compile):
    f = compile(lambda x, n: [c * 2 for c in x.split(n)])
    yield from over_numbers(f, (1, 2, 3, 4, 0, 2))


@program(FAMILY)
def a_size_of_a_result(compile):
    f = compile(lambda x: torch.cat([x, x, x[:1]]).shape[0] * x)
    yield from over_sizes(f)


@program(FAMILY)
def sizes_that_are_equal_once(compile):
    f = compile(lambda a, b: a + 1 if a.shape[0] == b.shape[0] else a - b.sum())
    for n, m in ((3, 3), (4, 4), (5, 5), (4, 5), (3, 6), (6, 6)):
        yield f(torch.ones(n), torch.ones(m))


@program(FAMILY)
def a_number_that_becomes_a_float(compile):
    f = compile(lambda x, n: x * n)
    for n in (2, 3, 2.5, 3.5, 4):
        yield f(torch.arange(3), n)


@program(FAMILY)
def identity_of_numbers(compile):
    f = compile(lambda x, n: x + 1 if n is None else x + n)
    yield from over_numbers(f, (1, None, 2, None, 3))


@program(FAMILY)
def min_and_max_of_sizes(compile):
    f = compile(lambda x: x + min(x.shape[0], 4) + max(x.shape[0], 2) + sum(x.shape) + abs(x.shape[0] - 4))
    yield from over_sizes(f)


@program(FAMILY)
def a_learning_rate_that_changes(compile):
    @compile
    def f(p, g, lr):
        p.add_(g, alpha=-lr)
        return p * 1
    p = torch.ones(3)
    for lr in (0.1, 0.01, 0.001, 0.5, 1.0):
        yield f(p, torch.ones(3), lr), p


@program(FAMILY)
def a_gradient_with_a_varying_number(compile):
    f = compile(lambda x, s: (x * s).sin() + x ** 2 / (s + 1))
    for s in (0.5, 1.5, 2.5, 3.5):
        x = torch.arange(3., requires_grad=True)
        f(x, s).sum().backward()
        yield x.grad
