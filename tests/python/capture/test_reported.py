"""Programs of reports about torch.compile: a compiled program behaves as the eager one, here always, and the eager one
as torch's."""
import functools
import json
import math
import os

import pytest

import cresset as torch
from cresset._dynamo import config

from .harness import observed, plain, portable
from .reported import REPORTED, aliasing, gradients, language, operators  # noqa: F401


def _cases():
    for report, fact, stage, f, wrong in REPORTED:
        marks = [pytest.mark.xfail(strict=True, reason=wrong)] if wrong else []
        yield pytest.param(f, id=report.replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("f", list(_cases()))
def test_a_reported_program_behaves_as_in_eager_mode(f):
    wanted = observed(f, plain)
    assert wanted == observed(f, plain), "the program differs from itself"
    for deferred in (0, 1):
        torch.compiler.reset()
        with config.patch(deferred_calls=deferred):
            assert observed(f, torch.compile) == wanted


@pytest.mark.parametrize("f", list(_cases()))
def test_a_reported_program_behaves_as_in_eager_mode_with_another_backend(f):
    assert observed(f, functools.partial(torch.compile, backend="aot_eager", dynamic=True)) == observed(f, plain)


def test_every_report_is_there_once_with_torch_s_answer():
    names = [report for report, *_ in REPORTED]
    assert len(names) == len(set(names)) >= 120
    path = os.path.join(os.path.dirname(__file__), "reported", "torch.txt")
    with open(path, encoding="utf-8") as f:
        answers = [line.split(" | ")[0] for line in f if not line.startswith("#")]
    assert answers == names


DIFFERS = {
    "198364": "torch's results of a product keep the order of a transposed argument",
    "176679": "torch calls __torch_function__ for attributes, too",
    "189808": "the sign of a NaN",
    "187332": "torch's i0 of infinity is NaN; it is infinity",
    "173793": "torch's layer_norm overflows",
    "183601": "the program normalizes rounding errors",
}


def close(got, want):
    """Compares observations; floats as float32 computes them."""
    if isinstance(got, list) and isinstance(want, list):
        if len(got) == len(want) == 2 and got[0] == want[0] == "float":
            got, want = [float(got[1])], [float(want[1])]
        return len(got) == len(want) and all(map(close, got, want))
    if isinstance(got, float) and isinstance(want, float):
        return got == want or math.isnan(got) and math.isnan(want) or math.isclose(got, want, rel_tol=1e-3, abs_tol=1e-4)
    return got == want and type(got) is type(want)


def _values():
    with open(os.path.join(os.path.dirname(__file__), "reported", "values.json"), encoding="utf-8") as f:
        recorded = json.load(f)
    assert list(recorded) == [report for report, *_ in REPORTED]
    for report, _, _, f, _ in REPORTED:
        marks = [pytest.mark.xfail(strict=True, reason=DIFFERS[report])] if report in DIFFERS else []
        yield pytest.param(f, recorded[report], id=report.replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("f, want", list(_values()))
def test_a_reported_program_gives_torch_s_values(f, want):
    assert close(json.loads(json.dumps(portable(observed(f, plain)))), want)
