"""Programs of reports about torch.compile: a compiled program behaves as the eager one, here always."""
import os

import pytest

import cresset as torch

from .harness import observed, plain
from .reported import REPORTED, aliasing, gradients, language, operators  # noqa: F401


def _cases():
    for report, fact, stage, f, wrong in REPORTED:
        marks = [pytest.mark.xfail(strict=True, reason=wrong)] if wrong else []
        yield pytest.param(f, id=report.replace(" ", "-"), marks=marks)


@pytest.mark.parametrize("f", list(_cases()))
def test_a_reported_program_behaves_as_in_eager_mode(f):
    torch.compiler.reset()
    wanted = observed(f, plain)
    assert wanted == observed(f, plain), "the program differs from itself"
    assert observed(f, torch.compile) == wanted


def test_every_report_is_there_once_with_torch_s_answer():
    names = [report for report, *_ in REPORTED]
    assert len(names) == len(set(names)) >= 120
    path = os.path.join(os.path.dirname(__file__), "reported", "torch.txt")
    with open(path, encoding="utf-8") as f:
        answers = [line.split(" | ")[0] for line in f if not line.startswith("#")]
    assert answers == names
