"""Graphs, code and errors are torch's to the letter (fx_cases.py); what is ours beside that."""
import json
import os
import pathlib
import subprocess
import sys

import cresset as torch
import fx_cases
import pytest
from cresset import fx, nn

HERE = pathlib.Path(__file__).parent
EXPECTED = json.loads((HERE / "fx_expected.json").read_text())


@pytest.mark.parametrize("name", fx_cases.CASES)
def test_case(name):
    assert fx_cases.run(name) == EXPECTED[name]
