"""Groups of tensors by device and dtype, which optimizers of other libraries ask for."""
import pytest

import cresset as torch
from cresset.utils import _foreach_utils

A, B, C = torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(3)
HOST = torch.device("cpu")
group = _foreach_utils._group_tensors_by_device_and_dtype


def same(got, want):
    return len(got) == len(want) and all(len(x) == len(y) and all(a is b for a, b in zip(x, y)) for x, y in zip(got, want))


def test_groups():
    found = group([[A, B, C], [C, B, A], [], [None, None, None]], with_indices=True)
    assert set(found) == {(HOST, torch.float32), (HOST, torch.float64)}
    lists, indices = found[HOST, torch.float32]
    assert indices == [0, 2] and same(lists, [[A, C], [C, A], [], [None, None]])
    lists, indices = found[HOST, torch.float64]
    assert indices == [1] and same(lists, [[B], [B], [], [None]])
    assert group([[A]])[HOST, torch.float32][1] == []


def test_counts_of_steps_and_narrow_states_may_differ():
    steps, narrow = torch.tensor(1.0), torch.ones(2, dtype=torch.bfloat16)
    assert same(group([[B], [steps], [narrow]])[HOST, torch.float64][0], [[B], [steps], [narrow]])


@pytest.mark.parametrize("lists, text", [
    ([], "Expected"), ([[], []], "Expected"), ([[A, B], [A]], "Expected"), ([[None, A], [A, A]], "0-th Tensor is not"),
    ([[A], [torch.tensor(1)]], "must be on the same device and the same dtype")])
def test_lists_that_do_not_fit(lists, text):
    with pytest.raises(RuntimeError, match=text):
        group(lists)


def test_optimizers_group_alike():
    assert torch.optim.Optimizer._group_tensors_by_device_and_dtype([[A], [C]], True)[HOST, torch.float32][1] == [0]
