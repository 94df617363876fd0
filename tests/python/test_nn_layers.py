"""Every layer and loss has the recorded parameters, outputs and gradients."""
import json
import pathlib

import cresset
import pytest
from cresset import nn

import nn_cases

EXPECTED = json.loads((pathlib.Path(__file__).parent / "nn_expected.json").read_text())


def same(got, expected):
    """Returns whether two descriptions of tensors agree, up to float32 rounding of sums."""
    if got is None or expected is None:
        return got is expected
    return got[0] == expected[0] and got[1:] == pytest.approx(
        expected[1:], rel=2e-4, abs=2e-4, nan_ok=True)


@pytest.mark.parametrize("label", nn_cases.CASES)
def test_layer_gives_the_recorded_results(label):
    got, expected = nn_cases.run(cresset, nn, label), EXPECTED[label]
    assert got["repr"] == expected["repr"]
    assert got["keys"] == expected["keys"]
    for part in ("state", "train", "train gradients", "eval", "eval gradients", "state after"):
        assert len(got[part]) == len(expected[part]), part
        for mine, recorded in zip(got[part], expected[part]):
            if label in nn_cases.RANDOM and part.startswith("train"):
                assert mine[0] == recorded[0], part
            else:
                assert same(mine, recorded), part


def drop(layer, shape, seed=0):
    cresset.manual_seed(seed)
    return layer(cresset.ones(shape))


@pytest.mark.parametrize("layer, shape, whole", [
    (nn.Dropout(0.25), (50, 40), 1), (nn.Dropout1d(0.25), (50, 40, 3), 3),
    (nn.Dropout2d(0.25), (50, 40, 2, 2), 4), (nn.Dropout3d(0.25), (50, 40, 2, 1, 2), 4)])
def test_dropout_zeroes_a_share_and_scales_the_rest(layer, shape, whole):
    out = drop(layer, shape).reshape(-1, whole)
    kept = out[:, 0] != 0
    assert 0.7 < kept.double().mean().item() < 0.8
    assert cresset.equal(out[kept], cresset.full_like(out[kept], 4 / 3))
    assert not out[~kept].any()  # whole channels are dropped
    assert cresset.equal(drop(layer, shape), drop(layer, shape))
    assert not cresset.equal(drop(layer, shape), drop(layer, shape, seed=1))


def test_alpha_dropout_keeps_mean_and_variance():
    cresset.manual_seed(0)
    out = nn.AlphaDropout(0.3)(cresset.randn(200, 200))
    assert abs(out.mean().item()) < 0.02 and abs(out.std().item() - 1) < 0.02


def test_dropout_masks_the_gradient_alike():
    x = cresset.ones(100, requires_grad=True)
    out = nn.Dropout(0.5)(x)
    out.sum().backward()
    assert cresset.equal(x.grad, out.detach())


def test_every_layer_is_covered():
    tested = {label.split("(")[0].split()[0].rstrip(",") for label in nn_cases.CASES}
    elsewhere = {"Module", "Container", "Sequential", "ModuleList", "ModuleDict",
                 "ParameterList", "ParameterDict", "RNNBase", "RNNCellBase", "NLLLoss2d",
                 "TransformerEncoder", "TransformerDecoder", "AdaptiveLogSoftmaxWithLoss",
                 "SyncBatchNorm", "CrossMapLRN2d", "FractionalMaxPool2d", "FractionalMaxPool3d",
                 "LinearCrossEntropyLoss", "LinearCrossEntropyOptions"}
    lazy = {name for name in nn.modules.__all__ if name.startswith("Lazy")}
    assert set(nn.modules.__all__) - elsewhere - lazy == tested
