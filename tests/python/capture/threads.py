"""Threads and recursion."""
import threading

import cresset as torch

from .harness import attempt, program

FAMILY, RECURSION = "threads", "recursion"


def in_threads(n, f):
    """Runs f(k) in n threads at once and returns the results in order."""
    out, start = [None] * n, threading.Barrier(n)

    def work(k):
        start.wait()
        out[k] = attempt(f, k)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return out


@program(FAMILY)
def the_same_function_in_threads(compile):
    f = compile(lambda x: (x * 2).sin())
    for _ in range(3):
        yield in_threads(4, lambda k: f(torch.full((3,), float(k))))


@program(FAMILY)
def other_sizes_in_threads(compile):
    f = compile(lambda x: x.sum() + x.shape[0])
    for _ in range(3):
        yield in_threads(4, lambda k: f(torch.ones(k + 1)))


@program(FAMILY)
def gradients_in_threads(compile):
    f = compile(lambda x: (x * x).sum())

    def run(k):
        x = torch.full((2,), float(k), requires_grad=True)
        f(x).backward()
        return x.grad
    for _ in range(3):
        yield in_threads(4, run)


@program(FAMILY)
def thread_local_state(compile):
    local = threading.local()
    local.scale = 1

    @compile
    def f(x):
        return x * local.scale

    def run(k):
        local.scale = k + 2
        return f(torch.ones(2))
    yield f(torch.ones(2))
    yield in_threads(2, run)
    yield f(torch.ones(2))


@program(FAMILY)
def the_name_of_the_thread(compile):
    f = compile(lambda x: x + len(threading.current_thread().name))

    def run(name):
        out = []
        t = threading.Thread(target=lambda: out.append(f(torch.ones(2))), name=name)
        t.start()
        t.join()
        return out
    yield run("a"), run("bbb"), run("a")


@program(FAMILY)
def a_lock_is_held(compile):
    lock, n = threading.Lock(), [0]

    @compile
    def f(x):
        with lock:
            n[0] += 1
            return x + n[0]
    for _ in range(3):
        yield f(torch.ones(2)), n[0], lock.locked()


@program(FAMILY)
def a_thread_is_started_inside(compile):
    @compile
    def f(x):
        out = []
        t = threading.Thread(target=lambda: out.append(x * 2))
        t.start()
        t.join()
        return out[0] + 1
    for _ in range(3):
        yield f(torch.ones(2))


@program(FAMILY)
def grad_mode_belongs_to_a_thread(compile):
    f = compile(lambda x: x * 2)

    def run(k):
        with torch.set_grad_enabled(bool(k % 2)):
            return f(torch.ones(2, requires_grad=True))
    for _ in range(2):
        yield in_threads(4, run)


@program(RECURSION)
def a_function_calls_itself(compile):
    def f(x, n):
        return x if n == 0 else f(x * 2, n - 1)
    g = compile(f)
    for n in (0, 1, 3, 1):
        yield g(torch.ones(2), n)


@program(RECURSION)
def a_compiled_function_calls_itself(compile):
    @compile
    def f(x, n):
        return x if n == 0 else f(x * 2, n - 1)
    for n in (0, 1, 3, 1, 2):
        yield f(torch.ones(2), n)


@program(RECURSION)
def two_functions_call_each_other(compile):
    def even(x, n):
        return x + 1 if n == 0 else odd(x, n - 1)

    def odd(x, n):
        return x - 1 if n == 0 else even(x, n - 1)
    f = compile(even)
    for n in (0, 1, 4, 5, 0):
        yield f(torch.ones(2), n)


@program(RECURSION)
def a_tree_of_tensors(compile):
    def total(tree):
        return sum(map(total, tree)) if isinstance(tree, list) else tree * 2
    f, one = compile(total), torch.ones(2)
    for tree in ([one, [one, one]], [one, one], [[one], [one, [one]]], [one, [one, one]]):
        yield f(tree)


@program(RECURSION)
def a_deep_recursion(compile):
    def f(x, n):
        return x if n == 0 else f(x, n - 1) + 1
    g = compile(f)
    for n in (100, 101, 100):
        yield g(torch.ones(1), n)


@program(RECURSION)
def a_compiled_function_inside_another(compile):
    inner = compile(lambda x: x * 2)
    outer = compile(lambda x: inner(x) + 1)
    for n in (2, 3, 2):
        yield outer(torch.ones(n)), inner(torch.ones(n))


@program(RECURSION)
def a_closure_over_itself(compile):
    def make(k):
        @compile
        def f(x):
            return x * k
        return f
    fs = [make(k) for k in (1, 2, 3)]
    for _ in range(2):
        yield [f(torch.ones(2)) for f in fs]


@program(RECURSION)
def a_memo_of_results(compile):
    memo = {}

    def fib(n):
        if n not in memo:
            memo[n] = n if n < 2 else fib(n - 1) + fib(n - 2)
        return memo[n]
    f = compile(lambda x, n: x * fib(n))
    for n in (5, 6, 5, 7):
        yield f(torch.ones(2), n), len(memo)
