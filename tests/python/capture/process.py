"""Process state: modes, default dtypes, random numbers, time, environment, warnings."""
import os
import random
import sys
import warnings

import cresset as torch
from cresset import nn

from .harness import attempt, program

FAMILY = "process state"


@program(FAMILY)
def grad_mode_of_the_caller(compile):
    f = compile(lambda x, w: x * w)
    for on in (True, False, True, False):
        with torch.set_grad_enabled(on):
            w = torch.ones(2, requires_grad=True)
            yield f(torch.ones(2), w)


@program(FAMILY)
def asks_for_the_grad_mode(compile):
    f = compile(lambda x: x + 1 if torch.is_grad_enabled() else x - 1)
    for on in (True, False, True):
        with torch.set_grad_enabled(on):
            yield f(torch.ones(2))


@program(FAMILY)
def leaves_the_grad_mode_changed(compile):
    @compile
    def f(x):
        torch.set_grad_enabled(False)
        return x * 2
    for _ in range(3):
        torch.set_grad_enabled(True)
        yield f(torch.ones(2, requires_grad=True)), torch.is_grad_enabled()
    torch.set_grad_enabled(True)


@program(FAMILY)
def no_grad_inside(compile):
    @compile
    def f(x, w):
        with torch.no_grad():
            a = w * 2
        return a * x + w
    for _ in range(3):
        w = torch.ones(2, requires_grad=True)
        y = f(torch.ones(2), w)
        y.sum().backward()
        yield y, w.grad


@program(FAMILY)
def inference_mode_of_the_caller(compile):
    f = compile(lambda x: x + 1)
    for on in (False, True, False):
        with torch.inference_mode(on):
            y = f(torch.ones(2))
            yield y, y.is_inference()


@program(FAMILY)
def default_dtype_changes(compile):
    f = compile(lambda x: x + torch.zeros(2))
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            yield f(torch.ones(2, dtype=torch.float32))
    finally:
        torch.set_default_dtype(torch.float32)


@program(FAMILY)
def asks_for_the_default_dtype(compile):
    f = compile(lambda x: x.to(torch.get_default_dtype()))
    try:
        for dtype in (torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            yield f(torch.ones(2, dtype=torch.float16))
    finally:
        torch.set_default_dtype(torch.float32)


@program(FAMILY)
def sets_the_default_dtype(compile):
    @compile
    def f(x):
        torch.set_default_dtype(torch.float64)
        return x + torch.zeros(2)
    try:
        for _ in range(3):
            torch.set_default_dtype(torch.float32)
            yield f(torch.ones(2)), torch.get_default_dtype()
    finally:
        torch.set_default_dtype(torch.float32)


@program(FAMILY)
def draws_go_on(compile):
    f = compile(lambda x: x + torch.rand(2))
    for seed in (1, None, None, 1):
        if seed is not None:
            torch.manual_seed(seed)
        yield f(torch.ones(2))


@program(FAMILY)
def seeds_inside(compile):
    @compile
    def f(x):
        torch.manual_seed(3)
        return x + torch.rand(2)
    for _ in range(3):
        yield f(torch.ones(2)), torch.rand(1)


@program(FAMILY)
def python_random_numbers(compile):
    f = compile(lambda x: x * random.random())
    for _ in range(4):
        yield f(torch.ones(2))


@program(FAMILY)
def dropout_of_a_seed(compile):
    m = nn.Dropout(0.5)
    f = compile(m)
    for train in (True, False, True):
        m.train(train)
        torch.manual_seed(1)
        yield f(torch.ones(8))


@program(FAMILY)
def reads_the_environment(compile):
    f = compile(lambda x: x + float(os.environ.get("CRESSET_CAPTURE_TEST", "0")))
    try:
        for value in ("1", "2", None):
            if value is None:
                del os.environ["CRESSET_CAPTURE_TEST"]
            else:
                os.environ["CRESSET_CAPTURE_TEST"] = value
            yield f(torch.ones(2))
    finally:
        os.environ.pop("CRESSET_CAPTURE_TEST", None)


@program(FAMILY)
def reads_the_recursion_limit(compile):
    f = compile(lambda x: x + sys.getrecursionlimit() % 7)
    before = sys.getrecursionlimit()
    try:
        for n in (before, before + 1, before):
            sys.setrecursionlimit(n)
            yield f(torch.ones(2))
    finally:
        sys.setrecursionlimit(before)


@program(FAMILY)
def warns_in_every_call(compile):
    @compile
    def f(x):
        warnings.warn("careful", stacklevel=2)
        return x + 1
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = f(torch.ones(2))
        yield y, [str(w.message) for w in caught if "torch.compile" not in str(w.message)]


@program(FAMILY)
def threads_of_the_library(compile):
    f = compile(lambda x: x + torch.get_num_threads())
    before = torch.get_num_threads()
    try:
        for n in (1, 2, 1):
            torch.set_num_threads(n)
            yield f(torch.ones(2))
    finally:
        torch.set_num_threads(before)


@program(FAMILY)
def autocast_of_the_caller(compile):
    f = compile(lambda a, b: a @ b)
    for on in (False, True, False, True):
        with torch.autocast("cpu", enabled=on):
            yield f(torch.ones(2, 2), torch.ones(2, 2))


@program(FAMILY)
def asks_for_deterministic_algorithms(compile):
    f = compile(lambda x: x + 1 if torch.are_deterministic_algorithms_enabled() else x - 1)
    try:
        for on in (False, True, False):
            torch.use_deterministic_algorithms(on)
            yield f(torch.ones(2))
    finally:
        torch.use_deterministic_algorithms(False)


@program(FAMILY)
def the_modules_that_are_imported(compile):
    @compile
    def f(x):
        import colorsys
        return x + colorsys.ONE_THIRD
    for _ in range(3):
        yield f(torch.ones(2))


@program(FAMILY)
def an_import_that_fails(compile):
    @compile
    def f(x):
        try:
            import no_such_module_at_all  # noqa: F401
            return x + 1
        except ImportError:
            return x - 1
    for _ in range(3):
        yield f(torch.ones(2))


@program(FAMILY)
def the_name_of_the_module(compile):
    yield attempt(compile(lambda x: x + len(__name__)), torch.ones(2))


@program(FAMILY)
def mode_changed_by_a_decorator(compile):
    @torch.no_grad()
    def inner(w):
        return w * 2

    @compile
    def f(x, w):
        return inner(w) + x * w
    for _ in range(3):
        w = torch.ones(2, requires_grad=True)
        y = f(torch.ones(2), w)
        y.sum().backward()
        yield y, w.grad


@program(FAMILY)
def a_call_that_switches_the_grad_mode(compile):
    @compile
    def f(x):
        torch.set_grad_enabled(not torch.is_grad_enabled())
        return x * 2
    x = torch.ones(3, requires_grad=True)
    for _ in range(8):
        y = f(x)
        yield y.requires_grad, torch.is_grad_enabled()
    torch.set_grad_enabled(True)


@program(FAMILY)
def a_call_that_ends_under_another_grad_mode(compile):
    @compile
    def f(x):
        y = x * 2
        torch.set_grad_enabled(not torch.is_grad_enabled())
        return y, x + 1
    x = torch.ones(3, requires_grad=True)
    for k in range(8):
        torch.set_grad_enabled(k % 3 == 0)
        y, z = f(x)
        yield y.requires_grad, z.requires_grad, torch.is_grad_enabled()
    torch.set_grad_enabled(True)
