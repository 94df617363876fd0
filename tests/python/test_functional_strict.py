"""torch.autograd.functional in strict mode: values, and torch's refusals (functional_cases.py)."""
import json

import pytest

import cresset as torch
import functional_cases

with open(functional_cases.FILE) as file:
    RECORDED = json.load(file)

MADE = functional_cases.outcomes(torch)


@pytest.mark.parametrize("call", RECORDED)
def test_strict_mode_answers_as_torch(call):
    assert MADE[call] == RECORDED[call]
