"""Exceptions: raised, caught, finally, with, of operators and of the program."""
import contextlib

import cresset as torch

from .harness import attempt, program

FAMILY = "exceptions"


class Odd(Exception):
    pass


@program(FAMILY)
def raises_by_an_argument(compile):
    @compile
    def f(x, n):
        if n < 0:
            raise ValueError(f"negative: {n}")
        return x * n
    for n in (1, -1, 2, -2):
        yield attempt(f, torch.ones(2), n)


@program(FAMILY)
def catches_a_key_error(compile):
    @compile
    def f(x, d):
        try:
            return x + d["k"]
        except KeyError:
            return x - 1
    for d in ({"k": 1}, {}, {"k": 2}):
        yield f(torch.ones(2), d)


@program(FAMILY)
def catches_an_attribute_error(compile):
    class Box:
        pass
    box = Box()

    @compile
    def f(x):
        try:
            return x + box.value
        except AttributeError:
            return x - 1
    yield f(torch.ones(2))
    box.value = 4
    yield f(torch.ones(2))
    del box.value
    yield f(torch.ones(2))


@program(FAMILY)
def catches_an_operators_error_of_values(compile):
    @compile
    def f(x):
        try:
            return torch.linalg.cholesky(x)
        except RuntimeError:
            return x * 0
    for s in (1., -1., 1., -1.):
        yield f(torch.eye(2) * s)


@program(FAMILY)
def catches_an_operators_error_of_sizes(compile):
    @compile
    def f(x, y):
        try:
            return x + y
        except RuntimeError:
            return x * 2
    for n in (3, 2, 3, 4, 3):
        yield f(torch.ones(3), torch.ones(n))


@program(FAMILY)
def catches_an_index_error_of_a_size(compile):
    @compile
    def f(x):
        try:
            return x + x[4]
        except IndexError:
            return x - 1
    for n in (3, 5, 4, 6, 3):
        yield f(torch.arange(float(n)))


@program(FAMILY)
def an_index_out_of_range(compile):
    f = compile(lambda x, i: x.index_select(0, i) * 2)
    for i in (0, 1, 9, 1):
        yield attempt(f, torch.arange(3.), torch.tensor([i]))


@program(FAMILY)
def an_embedding_out_of_range_is_caught(compile):
    table = torch.arange(6.).view(3, 2)

    @compile
    def f(i):
        try:
            return torch.nn.functional.embedding(i, table)
        except IndexError:
            return table[0] - 1
    for i in (0, 1, 5, 1):
        yield f(torch.tensor([i]))


@program(FAMILY)
def finally_runs(compile):
    seen = []

    @compile
    def f(x, n):
        try:
            if n > 1:
                raise Odd(n)
            return x + n
        finally:
            seen.append(n)
    for n in (1, 2, 1):
        yield attempt(f, torch.ones(2), n), list(seen)


@program(FAMILY)
def a_context_manager_swallows(compile):
    @compile
    def f(x, d):
        with contextlib.suppress(KeyError):
            x = x + d["k"]
        return x * 2
    for d in ({}, {"k": 1}, {}):
        yield f(torch.ones(2), d)


@program(FAMILY)
def a_context_manager_of_the_program(compile):
    class Scale:
        depth = 0

        def __enter__(self):
            Scale.depth += 1
            return self

        def __exit__(self, *error):
            Scale.depth -= 1
            return False

    @compile
    def f(x):
        with Scale():
            return x * Scale.depth
    for _ in range(3):
        yield f(torch.ones(2)), Scale.depth
        Scale.depth += 1


@program(FAMILY)
def raises_from(compile):
    @compile
    def f(x, d):
        try:
            return x + d["k"]
        except KeyError as e:
            raise Odd("outer") from e

    def cause(d):
        try:
            return f(torch.ones(2), d)
        except Odd as e:
            return str(e), type(e.__cause__).__name__
    for d in ({"k": 1}, {}, {"k": 1}):
        yield cause(d)


@program(FAMILY)
def an_assertion_on_values(compile):
    @compile
    def f(x):
        assert (x > 0).all(), "not positive"
        return x + 1
    for s in (1., -1., 1.):
        yield attempt(f, torch.ones(2) * s)


@program(FAMILY)
def an_assertion_on_sizes(compile):
    @compile
    def f(x):
        assert x.shape[0] < 4, f"too long: {x.shape[0]}"
        return x + 1
    for n in (2, 3, 5, 3, 4):
        yield attempt(f, torch.ones(n))


@program(FAMILY)
def a_write_before_an_error(compile):
    @compile
    def f(x, i):
        x.mul_(2)
        return x.index_select(0, i)
    for i in (0, 0, 9, 1):
        x = torch.arange(3.)
        yield attempt(f, x, torch.tensor([i])), x


@program(FAMILY)
def division_of_integers_by_zero(compile):
    f = compile(lambda x, n: x * (10 // n))
    for n in (1, 2, 3, 0, 2):
        yield attempt(f, torch.ones(2), n)


@program(FAMILY)
def else_runs_without_an_error(compile):
    @compile
    def f(x, items, i):
        try:
            v = items[i]
        except IndexError:
            return x - 1
        else:
            return x + v
    for i in (0, 1, 2, 0):
        yield f(torch.ones(2), [1, 2], i)


@program(FAMILY)
def wrong_arguments(compile):
    f = compile(lambda x, y=1: x + y)
    x = torch.ones(2)
    yield attempt(f), attempt(f, x), attempt(f, x, 2), attempt(f, x, z=1), attempt(f, x, y=3), attempt(f, 1, 2, 3)


@program(FAMILY)
def wrong_types(compile):
    f = compile(lambda x, y: x + y)
    x = torch.ones(2)
    yield attempt(f, x, 1), attempt(f, x, "a"), attempt(f, x, None), attempt(f, x, 2)
