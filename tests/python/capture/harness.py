"""Programs that run eagerly and compiled, and must behave alike.

A program is a generator function with one argument, `compile`, which it applies to the function
under test: once the identity, once `torch.compile`.  It calls the function several times, changes
state between the calls, and yields everything that a user could observe: results, mutated
arguments, attributes, gradients, errors.  All state is made inside, because every run needs its own.
"""
import contextlib
import io
import random
import warnings

import cresset as torch

PROGRAMS = []  # (family, function, known difference or None)


def program(family, wrong=None):
    """Registers a program.  `wrong`: why it is known to differ from eager mode."""
    def register(f):
        PROGRAMS.append((family, f, wrong))
        return f
    return register


def attempt(f, *args, **kwargs):
    """Returns the result, or the class and the message of the error."""
    try:
        return f(*args, **kwargs)
    except Exception as e:
        return type(e).__name__, str(e)


def frozen(x):
    """Returns an object as plain data that compares by value, with its classes."""
    if isinstance(x, torch.Tensor):
        values = x.detach()
        return (type(x).__name__, x.dtype, tuple(x.shape), x.stride(), x.requires_grad, x.grad_fn is None,
                values.isnan().tolist(), values.nan_to_num(0.).tolist() if x.is_floating_point() else values.tolist(),
                frozen(x.grad) if x.is_leaf and x.grad is not None else None)
    if isinstance(x, dict):
        return type(x).__name__, [(frozen(k), frozen(v)) for k, v in x.items()]
    if isinstance(x, (list, tuple)):
        return type(x).__name__, [frozen(item) for item in x]
    if isinstance(x, (set, frozenset)):
        return type(x).__name__, sorted(map(repr, x))
    if isinstance(x, float):
        return "float", repr(x)
    return type(x).__name__, x if isinstance(x, (int, str, bytes, type(None))) else str(x)


MOST_NUMBERS = 64  # of a tensor, in a recording


def numbers(x):
    """Returns the numbers of nested lists; None if something else is in them."""
    if isinstance(x, list):
        parts = [numbers(item) for item in x]
        return None if None in parts else [n for part in parts for n in part]
    return [x] if isinstance(x, (bool, int, float)) else None


def summary(x):
    """Returns the first of many numbers, their number, and sums with two weights."""
    weighted = [sum(n * (i % k + 1) for i, n in enumerate(x)) / len(x) for k in (7, 11)]
    return ["numbers", len(x), *x[:16], *map(float, weighted)]


def portable(x):
    """Returns an observation as JSON holds it; names of objects do not have the package's name."""
    if isinstance(x, (list, tuple)):
        found = numbers(x) if isinstance(x, list) else None
        return summary(found) if found and len(found) > MOST_NUMBERS else [portable(item) for item in x]
    if isinstance(x, (bool, int, float, str, type(None))):
        return x.replace("cresset", "torch") if isinstance(x, str) else x
    return str(x).replace("cresset", "torch")


def observed(f, compile):
    """Runs a program; returns what it yielded and what it printed."""
    torch.manual_seed(0)
    random.seed(0)
    out, seen = io.StringIO(), []
    with warnings.catch_warnings(), contextlib.redirect_stdout(out):
        warnings.simplefilter("ignore")
        for x in f(compile):
            seen.append(frozen(x))
    return seen, out.getvalue()


def steps(f, *items):
    """Calls f with every tuple of arguments; runs every function between the calls, which changes state."""
    for item in items:
        if callable(item):
            item()
        else:
            yield attempt(f, *item)


def plain(f=None, **options):
    """Takes the place of torch.compile in the eager run."""
    return (lambda f: f) if f is None else f
