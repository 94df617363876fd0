"""Distributions beside torch's: seeded samples, densities, moments, gradients, divergences, words."""
import json
import math

import pytest

import cresset as torch
import distribution_cases as cases

EXPECTED = json.loads(cases.EXPECTED.read_text())


def same(got, want, rel=2e-6):
    """Equal words and shapes, and numbers to nearly six digits."""
    if isinstance(want, float) and isinstance(got, (int, float)) and not isinstance(got, bool):
        return got == pytest.approx(want, rel=rel, abs=1e-9)
    if isinstance(want, list) and isinstance(got, (list, tuple)):
        return len(got) == len(want) and all(same(g, w, rel) for g, w in zip(got, want))
    return got == want


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", [*cases.PLAIN, *cases.COMPOSED])
def test_distribution(label):
    got, want = cases.describe(torch, label), EXPECTED["distributions"][label]
    assert got.keys() == want.keys()
    rel = 2e-5 if label in cases.FLOAT32 else 2e-6
    assert {key: (got[key], want[key]) for key in want if not same(got[key], want[key], rel)} == {}


@pytest.mark.filterwarnings("ignore")
def test_divergences():
    got, want = cases.divergences(torch), EXPECTED["divergences"]
    assert got.keys() == want.keys()
    assert {key: (got[key], want[key]) for key in want if not same(got[key], want[key])} == {}


@pytest.mark.parametrize("label", cases.TRANSFORMS)
def test_transform(label):
    got, want = cases.transform(torch, label), EXPECTED["transforms"][label]
    assert {key: (got[key], want[key]) for key in want if not same(got[key], want[key])} == {}


@pytest.mark.parametrize("label", cases.CONSTRAINTS)
def test_constraint(label):
    assert cases.constraint(torch, label) == EXPECTED["constraints"][label]


@pytest.mark.parametrize("label", cases.ERRORS)
def test_error_has_torchs_words(label):
    kind, text = cases.error(torch, label)
    assert [kind, text.replace("cresset.", "torch.")] == EXPECTED["errors"][label]


def test_parameters_of_the_common_shape_are_the_given_tensors():
    """So that their gradients are found at the distribution."""
    loc, scale = torch.zeros(3, requires_grad=True), torch.ones((), requires_grad=True)
    normal = torch.distributions.Normal(loc, scale)
    assert normal.loc is loc and normal.scale.shape == (3,)
    normal.log_prob(torch.ones(3)).sum().backward()
    assert normal.loc.grad.tolist() == [1.0] * 3 and scale.grad.item() == 0.0
