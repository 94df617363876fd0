"""The programs of tests/python/capture, with all calls deferred and with those of one function."""
import pytest

import cresset as torch
from cresset import _C

from capture import (aliases, arrays, changes, classes, containers, effects, errors, hidden, hooks, iteration,  # noqa: F401
                     orders, process, protocols, symbols, threads, unforeseen, unread)
from capture.harness import PROGRAMS, observed, plain
from capture.reported import REPORTED, aliasing, gradients, language, operators  # noqa: F401

ALL = [(f.__name__, f) for _, f, _ in PROGRAMS] + [(report.replace(" ", "-"), f) for report, _, _, f, _ in REPORTED]


def deferred(f=None, **options):
    """Takes the place of torch.compile: the calls of the function are deferred."""
    if f is None:
        return deferred
    return f if isinstance(f, torch.nn.Module) else torch.lazy()(f)


@pytest.fixture(autouse=True)
def eagerly():
    was = _C._defer_in_region()
    if was:
        _C._defer(False)
        _C._defer_flush("a test")
    yield
    if was:
        _C._defer(True)


@pytest.mark.parametrize("f", [f for _, f in ALL], ids=[name for name, _ in ALL])
def test_a_deferred_program_is_observed_like_the_eager_one(f):
    wanted = observed(f, plain)
    assert observed(f, deferred) == wanted
    with torch.lazy():
        found = observed(f, plain)
    assert found == wanted
