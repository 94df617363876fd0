"""Compiled programs behave like eager ones over several calls with changing state."""
import functools

import pytest

import cresset as torch
from cresset._dynamo import config

from . import (aliases, arrays, changes, classes, containers, effects, errors, gate, hidden, hooks, iteration,  # noqa: F401
               names, orders, process, protocols, replaced, settings, specials, state, symbols, threads, unforeseen, unread)
from .harness import PROGRAMS, observed, plain


def _cases():
    for family, f, wrong in PROGRAMS:
        marks = [pytest.mark.xfail(strict=True, reason=wrong)] if wrong else []
        yield pytest.param(f, id=f"{family}-{f.__name__}", marks=marks)


@pytest.mark.parametrize("f", list(_cases()))
def test_a_compiled_program_is_observed_like_the_eager_one(f):
    wanted = observed(f, plain)
    assert wanted == observed(f, plain), "the program differs from itself"
    for deferred in (0, 1, 1000):
        torch.compiler.reset()
        with config.patch(deferred_calls=deferred):
            assert observed(f, torch.compile) == wanted


SETTINGS = [{"dynamic": True}, {"backend": "eager"}, {"backend": "aot_eager"}, {"backend": "aot_eager", "dynamic": True}]


@pytest.mark.parametrize("options", SETTINGS, ids=lambda x: "-".join(map(str, x.values())))
@pytest.mark.parametrize("f", [f for family, f, _ in PROGRAMS if family == "settings"], ids=lambda f: f.__name__)
def test_a_compiled_program_is_observed_like_the_eager_one_under_other_settings(f, options):
    assert observed(f, functools.partial(torch.compile, **options)) == observed(f, plain)


@pytest.mark.deferred_calls(0)
def test_most_programs_are_captured():
    """Refusing a program is no difference, so the number of programs that compiled code serves is bounded."""
    from .report import outcome
    captured = [f.__name__ for _, f, wrong in PROGRAMS if not wrong and outcome(f)[0] == "captured"]
    assert len(captured) >= 215


def test_names_are_unique():
    names = [f.__name__ for _, f, _ in PROGRAMS]
    assert len(names) == len(set(names)) >= 400
