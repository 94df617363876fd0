"""A NaN is no pivot, and equals nothing that is counted."""
import math

import pytest

import cresset as torch

NAN = math.nan


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.complex64, torch.complex128))
@pytest.mark.parametrize("upper", (False, True))
@pytest.mark.parametrize("matrix, info", [([[1, 0], [0, NAN]], 2), ([[NAN, 0], [0, 1]], 1), ([[1, NAN], [NAN, 1]], 2),
                                          ([[2, 1, 0], [1, NAN, 0], [0, 0, 1]], 2), ([[1, 0], [0, 1]], 0),
                                          ([[1, 0], [0, -1]], 2)])
def test_cholesky(matrix, info, upper, dtype):
    a = torch.tensor(matrix, dtype=dtype)
    assert torch.linalg.cholesky_ex(a, upper=upper).info.item() == info
    assert torch.linalg.cholesky_ex(torch.stack([torch.eye(len(a), dtype=dtype), a])).info.tolist() == [0, info]
    if info:
        with pytest.raises(torch.linalg.LinAlgError, match=f"leading minor of order {info} is not positive-definite"):
            torch.linalg.cholesky(a, upper=upper)


@pytest.mark.parametrize("values, mode, index", [
    ([1, NAN, NAN, NAN], 1, 0), ([NAN, NAN, 1], NAN, 0), ([NAN, 1, 1], 1, 2), ([NAN, NAN], NAN, 0), ([2, 1, 2, 1, 3], 1, 3),
    ([NAN] * 20 + [5, 4, 4], 4, None)])
def test_mode(values, mode, index):
    x = torch.tensor(values, dtype=torch.float64)
    got = torch.mode(x)
    assert index in (None, got.indices.item()) and (got.values.item() == mode or math.isnan(mode) and got.values.isnan())
