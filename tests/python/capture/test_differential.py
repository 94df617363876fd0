"""Compiled programs behave like eager ones over several calls with changing state."""
import functools

import pytest

import cresset as torch
from cresset._dynamo import config
from cresset._dynamo.exc import FailOnRecompileLimitHit, Unsupported

from . import (aliases, arrays, changes, classes, containers, contents, described, effects, errors, features, gate, hidden, hooks,  # noqa: F401
               iteration, mixed, names, orders, process, protocols, queries, replaced, settings, specials, state,
               stateful, symbols, threads, through_c, unforeseen, unread, user_code)
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


FAMILIES = ("settings", "stateful", "features", "through_c", "mixed", "user_code")
MORE = (*FAMILIES, "aliasing", "exceptions", "process state", "hooks")
SETTINGS = [{"dynamic": True}, {"backend": "eager"}, {"backend": "aot_eager"}, {"backend": "aot_eager", "dynamic": True}]


@pytest.mark.parametrize("options", SETTINGS, ids=lambda x: "-".join(map(str, x.values())))
@pytest.mark.parametrize("f", [f for family, f, wrong in PROGRAMS if family in MORE and not wrong], ids=lambda f: f.__name__)
def test_a_compiled_program_is_observed_like_the_eager_one_under_other_settings(f, options):
    assert observed(f, functools.partial(torch.compile, **options)) == observed(f, plain)


def _refused(error):
    """Whether a program ended because one graph cannot have a value that the program reads, or too many recordings."""
    return isinstance(error, (Unsupported, FailOnRecompileLimitHit))


@pytest.mark.parametrize("f", [f for family, f, wrong in PROGRAMS if family in FAMILIES and not wrong], ids=lambda f: f.__name__)
def test_a_program_of_one_graph_is_observed_like_the_eager_one_or_refused(f):
    try:
        got = observed(f, functools.partial(torch.compile, fullgraph=True))
    except Exception as error:
        assert _refused(error) and f.__name__ in REFUSED, error
        return
    assert got == observed(f, plain) or f.__name__ in REFUSED and "RecompileLimit" in str(got)


# Programs that read values in the middle of a call, and one with calls of more kinds than recordings.
REFUSED = {"lbfgs_closure_compiled", "mutable_default_argument", "autocast_with_break", "deepcopy_inside", "data_attribute",
           "random_shapes", "tolist_and_item", "print_inside", "logging_inside", "operators_overloaded", "sorted_with_key",
           "scalar_tensors_and_numbers", "while_on_value", "branch_on_the_sign_of_a_sum", "while_loop_until_it_converges",
           "versions_after_writes", "numpy_view_of_a_result", "data_written_under_a_graph", "hessians_and_jacobians",
           "numbers_that_change_kind", "beam_search_like"}


@pytest.mark.deferred_calls(0)
def test_most_programs_are_captured():
    """Refusing a program is no difference, so the number of programs that compiled code serves is bounded."""
    from .report import outcome
    captured = [f.__name__ for _, f, wrong in PROGRAMS if not wrong and outcome(f)[0] == "captured"]
    assert len(captured) >= 215


def test_names_are_unique():
    names = [f.__name__ for _, f, _ in PROGRAMS]
    assert len(names) == len(set(names)) >= 400
