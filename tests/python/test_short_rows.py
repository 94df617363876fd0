"""Groups over short rows that are reduced, with operands that repeat, and rows that go through several sweeps: eager's bits."""
import pytest

import cresset as torch
import cresset.nn.functional as F

NATIVE_SECONDS = 60


def same_as_eager(f, *args):
    compiled = torch.compile(f)
    expected = f(*args)
    for _ in range(3):
        compiled(*args)
    torch._C._jit_wait(NATIVE_SECONDS)
    for threads in (1, 2):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            assert torch.equal(compiled(*args), expected)
        finally:
            torch.set_num_threads(before)


# Planes, rows of a plane, columns: rows that divide a tile or not, more than a tile, and more than are laid out once.
SHAPES = [(70, 3, 2), (500, 10, 8), (9, 130, 16), (40, 1000, 4), (3, 2500, 2), (2, 9000, 16), (300, 15, 3), (64, 64, 5)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("planes, rows, columns", SHAPES)
def test_operands_that_repeat(planes, rows, columns, dtype):
    torch.manual_seed(0)
    a, b = ((torch.randn(n, columns) * 9).to(dtype) for n in (planes, rows))
    c = (torch.randn(rows) * 9).to(dtype)
    same_as_eager(lambda a, b, c: ((a[:, None] - b) * (a[:, None] + 2)).sum(-1) * 3 - c, a, b, c)
    same_as_eager(lambda a, b: (a[:, None] - b[None]).abs().amax(-1), a.t().contiguous().t(), b)


@pytest.mark.parametrize("rows, columns", [(1, 5), (3, 33), (16, 64), (17, 64), (50, 100), (35, 341), (20, 1000), (5, 1024), (4, 9000)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_rows_of_several_sweeps(rows, columns, dtype):
    torch.manual_seed(0)
    x, w = torch.randn(rows, columns).to(dtype), torch.randn(columns).to(dtype)
    same_as_eager(lambda x, w: F.gelu(F.layer_norm(x, (columns,), w)) * x.sum(-1, keepdim=True), x, w)
    same_as_eager(lambda x: torch.tanh(torch.softmax(x, -1) - x.amax(-1, keepdim=True)), x)
    same_as_eager(lambda x: torch.logsumexp(x * 2, -1) - x.mean(-1), x)


@pytest.mark.parametrize("rows", [1, 15, 16, 40])
def test_masks_and_whole_numbers_of_several_sweeps(rows):
    torch.manual_seed(0)
    x = torch.randint(-50, 50, (rows, 60))
    same_as_eager(lambda x: torch.where((x > 3).any(-1, keepdim=True), x - x.amin(-1, keepdim=True), x.sum(-1, keepdim=True)), x)
    y = x.float()
    same_as_eager(lambda y, x: y / (y * y).sum(-1, keepdim=True) + x.sum(-1, keepdim=True), y, x)
