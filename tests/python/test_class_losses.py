"""nll_loss and cross_entropy: targets of other sizes are refused in torch's words, and losses of nothing are NaN."""
import itertools

import numpy
import pytest

import cresset as torch
import cresset.nn.functional as F

OTHER_BATCH, OTHER_SIZES, NO_IMAGES, OTHER_IMAGES = (
    "Expected input batch_size ({}) to match target batch_size ({}).", "Expected target size {}, got {}",
    "only batches of spatial targets supported (3D tensors) but got targets of dimension: {}",
    "size mismatch (got input: {} , target: {}")
REFUSED = [
    ((5, 3, 2), (5, 1, 2), RuntimeError, OTHER_SIZES.format([5, 2], [5, 1, 2])),
    ((5, 3, 2), (5,), RuntimeError, OTHER_SIZES.format([5, 2], [5])),
    ((5, 3, 2, 2, 2), (5, 2, 2), RuntimeError, OTHER_SIZES.format([5, 2, 2, 2], [5, 2, 2])),
    ((5, 3, 2, 2, 2), (5, 4, 2, 1), RuntimeError, OTHER_SIZES.format([5, 2, 2, 2], [5, 4, 2, 1])),
    ((5, 3, 2), (10,), ValueError, OTHER_BATCH.format(5, 10)),
    ((5, 3, 2), (4, 2), ValueError, OTHER_BATCH.format(5, 4)),
    ((5, 3, 2, 2), (4, 2, 2), ValueError, OTHER_BATCH.format(5, 4)),
    ((5, 3), (4,), ValueError, OTHER_BATCH.format(5, 4)),
    ((5, 3), (), ValueError, OTHER_BATCH.format(5, 0)),
    ((5, 3, 2, 2), (5, 4), RuntimeError, NO_IMAGES.format(2)),
    ((5, 3, 2, 2), (5, 2, 2, 1), RuntimeError, NO_IMAGES.format(4)),
    ((5, 3, 2, 2), (5, 1, 2), RuntimeError, OTHER_IMAGES.format([5, 3, 2, 2], [5, 1, 2])),
    ((5, 3, 2, 2), (5, 1, 4), RuntimeError, OTHER_IMAGES.format([5, 3, 2, 2], [5, 1, 4])),
    ((5, 0, 2), (5, 2), RuntimeError, OTHER_IMAGES.format([5, 0, 0, 0], [5, 1, 2])),
]


@pytest.mark.parametrize("loss", (F.nll_loss, F.cross_entropy, lambda x, t: F.cross_entropy(x, t, label_smoothing=0.1),
                                  lambda x, t: F.nll_loss(x, t, reduction="none")))
@pytest.mark.parametrize("scores, classes, kind, text", REFUSED)
def test_targets_of_other_sizes(loss, scores, classes, kind, text):
    with pytest.raises(kind) as error:
        loss(torch.zeros(scores), torch.zeros(classes, dtype=torch.int64))
    assert str(error.value) == text


def test_no_class_is_within_none():
    with pytest.raises(IndexError, match="Target 0 is out of bounds"):
        F.nll_loss(torch.zeros(2, 0, 2, 2), torch.zeros(2, 2, 2, dtype=torch.int64))


@pytest.mark.parametrize("sizes", [(2, 3), (2, 3, 4), (2, 3, 4, 2), (2, 3, 2, 2, 2)])
def test_every_size_of_target_but_the_right_one_is_refused(sizes):
    """Of all targets of up to 4 dims of 1, 2 and 4, one has a class for each row."""
    right = sizes[:1] + sizes[2:]
    for n in range(1, 5):
        for classes in itertools.product((1, 2, 4), repeat=n):
            target = torch.zeros(classes, dtype=torch.int64)
            if classes == right:
                assert F.nll_loss(torch.zeros(sizes), target) == 0
            else:
                with pytest.raises((RuntimeError, ValueError)):
                    F.nll_loss(torch.zeros(sizes), target)


@pytest.mark.parametrize("sizes", [(5, 0), (0, 5), (5, 0, 2), (0, 3, 2, 2)])
def test_the_mean_over_no_probabilities_is_nan(sizes):
    x, nothing = torch.rand(sizes), torch.rand(sizes)
    assert F.cross_entropy(x, nothing).isnan() and F.cross_entropy(x, nothing, reduction="sum") == 0


@pytest.mark.parametrize("sizes", [(4,), (3, 4), (2, 4, 3), (2, 4, 3, 2)])
def test_probabilities(sizes):
    x, p = torch.rand(sizes, dtype=torch.float64), torch.rand(sizes, dtype=torch.float64)
    axis = 0 if len(sizes) == 1 else 1
    scores = x.numpy() - numpy.log(numpy.exp(x.numpy()).sum(axis, keepdims=True))
    want = -(scores * p.numpy()).sum() / (x.numel() // 4)
    assert abs(F.cross_entropy(x, p).item() - want) < 1e-12
