"""torch.masked: results are torch's (masked_cases.py), gradients, errors."""
import json
from pathlib import Path

import pytest

import cresset as torch
import masked_cases

EXPECTED = json.loads((Path(__file__).parent / "masked_expected.json").read_text())


@pytest.mark.parametrize("name", masked_cases.CALLS)
def test_results_are_torchs(name):
    dtype, shape, values = masked_cases.run(name)
    assert [dtype, shape] == EXPECTED[name][:2]
    for got, expected in zip(values, EXPECTED[name][2]):
        assert got == (pytest.approx(expected, rel=1e-12) if isinstance(expected, float) else expected)


def test_gradients_reach_the_elements_that_are_kept():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    torch.masked.mean(x, 0, mask=torch.tensor([True, False, True])).backward()
    assert x.grad.tolist() == [0.5, 0.0, 0.5]


def test_wrong_dims():
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.masked.sum(torch.ones(2), 1)
    with pytest.raises(RuntimeError, match="appears multiple times in the list of dims"):
        torch.masked.sum(torch.ones(2, 2), (0, 0))
