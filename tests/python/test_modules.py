"""Programs that use torch's further modules have the recorded results (everyday_cases.py).

modules_differing.txt lists the cases that differ, one `name -- reason` a line.
"""
import json
import pathlib

import everyday_cases
import pytest

HERE = pathlib.Path(__file__).parent
CASES = everyday_cases.read_cases("modules")
EXPECTED = json.loads((HERE / "modules_expected.json").read_text())
DIFFERING = dict(line.split(" -- ") for line in
                 (HERE / "modules_differing.txt").read_text().splitlines() if line.strip())


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    got, want = everyday_cases.run("cresset", CASES[name]), EXPECTED[name]
    if name in DIFFERING:
        assert got != want, "agrees now: take it out of modules_differing.txt"
    else:
        assert got == want


def test_every_case_is_recorded_and_differences_are_cases():
    assert list(EXPECTED) == list(CASES)
    assert set(DIFFERING) <= set(CASES)
