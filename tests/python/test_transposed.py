"""Pointwise calls whose operands have different orders in memory go through tiles: every element is read and written once."""
import pytest

import cresset as torch

SIZES = [(3, 5), (16, 64), (17, 65), (2, 1500), (1500, 2), (70, 300), (300, 70), (257, 241), (1024, 40)]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int8, torch.int64, torch.bool, torch.complex64,
          torch.complex128]


def numbers(rows, columns, dtype):
    x = torch.arange(rows * columns).reshape(rows, columns) * 7 % 101
    return (x % 2 == 0) if dtype == torch.bool else (x + 1j * (x % 5)).to(dtype) if dtype.is_complex else x.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_operands_and_results_in_any_order(dtype):
    op = torch.logical_xor if dtype == torch.bool else torch.mul
    for rows, columns in SIZES:
        a, b = numbers(columns, rows, dtype), numbers(rows, columns, dtype)
        want = op(a.t().contiguous(), b)
        assert torch.equal(op(a.t(), b), want) and torch.equal(op(b, a.t()), want)
        out = torch.empty(columns, rows, dtype=want.dtype)
        op(a.t(), b, out=out.t())
        assert torch.equal(out.t(), want)
        deep = torch.stack([a, a])  # two matrices, and rows that are apart
        assert torch.equal(op(deep.transpose(1, 2), b), torch.stack([want, want]))
        wide = torch.cat([a, a], 1)[:, :rows]
        assert torch.equal(op(wide.t(), b[:, :1]), op(a.t().contiguous(), b[:, :1].expand(rows, columns).contiguous()))


def test_three_operands_and_other_dtypes():
    for rows, columns in SIZES:
        mask, x, y = numbers(columns, rows, torch.bool), numbers(columns, rows, torch.float16), numbers(rows, columns, torch.float32)
        want = torch.where(mask.t().contiguous(), x.t().contiguous(), y)
        assert torch.equal(torch.where(mask.t(), x.t(), y), want) and want.dtype == torch.float32
        assert torch.equal(torch.addcmul(y, x.t().float(), y), torch.addcmul(y, x.t().float().contiguous(), y))
