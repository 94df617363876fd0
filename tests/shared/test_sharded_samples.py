"""Recorded samples of torch's operators with split tensors, on fake ranks.

Each tensor of a sample is split along each dim in turn; results equal those of the whole tensors.  An operator counts as split
where a sample runs without a call that needs a split tensor in another placement.  No operator has a rule of its own: the
entries of the table are split as their statements say (tests/ops/test_sharding.py).
"""
import os
import sys
import warnings

import pytest

import cresset as torch
from cresset import _C

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ops")]
from test_archived_samples import UNDEFINED, filled, flatten, has_tensors, replayer  # noqa: E402
from test_sharding import REPLICATE, OnRanks, leaves, split  # noqa: E402

SAMPLES = 40  # of an operator and dtype
# Calls that read numbers of a tensor whose numbers are on several ranks.
REFUSED = ("have no elements here", "depend on the values of")


def on_ranks(x, placement, ranks):
    return OnRanks(split(x, placement, ranks), placement, x.shape, x.stride())


def placements(tensors):
    for k, x in enumerate(tensors):
        if x.layout == torch.strided and not x.is_conj() and not x.is_neg():
            yield from ((k, d) for d in range(x.dim()) if x.shape[d] > 1)


def build(replay, row):
    tensors = []
    form = flatten([replay.build(row[1], []), replay.build(row[2], [])], tensors)
    return form, [x.detach() for x in tensors]


def run(function, form, tensors):
    args, kwargs = filled(form, tensors)
    torch.manual_seed(0)
    return [x for x in leaves(function(*args, **kwargs)) if isinstance(x, torch.Tensor)]


def tried(replay, key, row, ranks):
    """Compares a sample with split tensors; returns how many ways need no other placement."""
    function, count = replay.function(row[0]), 0
    form, tensors = build(replay, row)
    if any(x.layout != torch.strided for x in tensors):
        return 0
    wanted = run(function, form, build(replay, row)[1])
    for k, d in placements(tensors):
        given = [on_ranks(x, d if n == k else REPLICATE, ranks) for n, x in enumerate(build(replay, row)[1])]
        OnRanks.gathered = False
        try:
            found = run(function, form, given)
        except RuntimeError as error:
            assert any(text in str(error) for text in REFUSED), str(error)
            continue
        assert len(found) == len(wanted), (k, d)
        for x, y in zip(found, wanted):
            x = x.whole() if isinstance(x, OnRanks) else x
            assert (x.shape, x.dtype) == (y.shape, y.dtype), (k, d, x.shape, y.shape)
            digits = 2e-2 if y.dtype in (torch.float16, torch.bfloat16) else 2e-4
            torch.testing.assert_close(x, y, rtol=digits, atol=digits, equal_nan=True, check_stride=False)
        count += not OnRanks.gathered and any(isinstance(x, OnRanks) for x in found)
    return count


def samples(entry):
    for group, rows in entry.items():
        if group in ("float32", "int64"):
            yield from (row for row in rows[:SAMPLES] if has_tensors(row[3]))


@pytest.mark.parametrize("ranks", [2, 4])
def test_recorded_samples_with_split_tensors(ranks):
    replay, ops = replayer()
    wrong, split_ones = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key, entry in ops.items():
            count = 0
            for row in samples(entry) if key not in UNDEFINED else ():
                try:
                    count += tried(replay, key, row, ranks)
                except Exception as error:
                    wrong.append(f"{key}: {row[0]}: {type(error).__name__}: {str(error).strip()[:200]}")
                    break
            split_ones += [key] * (count > 0)
    print(len(split_ones), "of", len(ops), "operators are split;", len(wrong), "differ")
    print("on whole tensors:", *sorted(set(ops) - set(split_ones)))
    assert not wrong, "\n".join(wrong)
    assert len(split_ones) >= 495
