"""Every layer and loss gives the recorded parameters, outputs and gradients."""
import json
import pathlib

import cresset
import pytest
from cresset import nn

import nn_cases

EXPECTED = json.loads((pathlib.Path(__file__).parent / "nn_expected.json").read_text())


def same(got, expected):
    """Whether two descriptions of tensors agree; sums may differ by float32 rounding."""
    if got is None or expected is None:
        return got is expected
    return got[0] == expected[0] and got[1:] == pytest.approx(
        expected[1:], rel=2e-4, abs=2e-4, nan_ok=True)


@pytest.mark.parametrize("label", nn_cases.CASES)
def test_layer_does_what_was_recorded(label):
    got, expected = nn_cases.run(cresset, nn, label), EXPECTED[label]
    assert got["repr"] == expected["repr"]
    assert got["keys"] == expected["keys"]
    for part in ("state", "train", "train gradients", "eval", "eval gradients", "state after"):
        assert len(got[part]) == len(expected[part]), part
        for mine, recorded in zip(got[part], expected[part]):
            assert same(mine, recorded), part


def test_every_layer_is_covered():
    tested = {label.split("(")[0].split()[0] for label in nn_cases.CASES}
    elsewhere = {"Module", "Container", "Sequential", "ModuleList", "ModuleDict",
                 "ParameterList", "ParameterDict", "RNNBase", "RNNCellBase", "NLLLoss2d",
                 "TransformerEncoder", "TransformerDecoder", "AdaptiveLogSoftmaxWithLoss",
                 "SyncBatchNorm", "CrossMapLRN2d", "LinearCrossEntropyLoss"}
    lazy = {name for name in nn.modules.__all__ if name.startswith("Lazy")}
    assert set(nn.modules.__all__) - elsewhere - lazy == tested
