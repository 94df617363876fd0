"""Writes that combine many entries of few for each destination, by the buckets of emit/place.cuh, with the host's bits."""
import pytest
from test_cuda import same

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


# Entries of one dim, and of two; destinations of no, few and many entries; a bucket that is too small for its entries.
@pytest.mark.parametrize("how, dtype, spread", [
    *((how, torch.float32, spread) for how in ("sum", "amax") for spread in ("even", "some", "one", "outside")),
    ("prod", torch.float64, "even"), ("sum", torch.bfloat16, "even"), ("sum", torch.complex64, "even"), ("amin", torch.uint8, "even")], ids=str)
def test_many_entries_of_few_for_a_destination(how, dtype, spread):
    torch.manual_seed(7)
    rows, columns, n = 1100, 120, 300
    index = torch.randint(0, n, (rows, columns))
    if spread == "some":  # of more than a block
        index[::9] = 17
    elif spread == "one":
        index[:, :100] = 17
        index[:900, 100:] = 18
    x = (torch.rand(rows, columns, dtype=torch.float64) + 0.5).mul(10 if how[0] == "a" else 1).to(dtype)
    to = torch.ones(n, columns, dtype=dtype)
    if spread == "outside":
        index[70, 3] = n
        with pytest.raises(RuntimeError, match="out of bounds"):
            to.cuda().scatter_reduce(0, index.cuda(), x.cuda(), how).cpu()
        return
    for dim, (a, b, c) in ((0, (to, index, x)), (1, (to.t().contiguous(), index.t().contiguous(), x.t()))):
        if how == "sum":
            have, want = (p.scatter_add(dim, q, r) for p, q, r in ((a.cuda(), b.cuda(), c.cuda()), (a, b, c)))
        else:
            have, want = (p.scatter_reduce(dim, q, r, how) for p, q, r in ((a.cuda(), b.cuda(), c.cuda()), (a, b, c)))
        assert same(have.cpu(), want), dim


# An index along a dim between others, and along the last one: tiles have parts of several dims, and columns that are not a multiple of theirs.
@pytest.mark.parametrize("sizes, dim, n", [((5, 900, 31), 1, 300), ((3, 4, 11100), 2, 700), ((1 << 18,), 0, 1 << 16), ((8200, 17), 0, 550)], ids=str)
def test_entries_of_lines(sizes, dim, n):
    torch.manual_seed(8)
    index, x = torch.randint(0, n, sizes), torch.rand(sizes)
    to = torch.rand([n if d == dim else size for d, size in enumerate(sizes)])
    assert same(to.cuda().scatter_add(dim, index.cuda(), x.cuda()).cpu(), to.scatter_add(dim, index, x))


# Destinations without entries, in buckets of so many destinations that each has two slots.
@pytest.mark.parametrize("how", ["amax", "amin"])
def test_destinations_of_two_slots(how):
    torch.manual_seed(9)
    n = 1 << 17
    index, x, to = torch.randint(0, 2 * n, (n,)), torch.randn(n), torch.zeros(2 * n)
    assert same(to.cuda().scatter_reduce(0, index.cuda(), x.cuda(), how).cpu(), to.scatter_reduce(0, index, x, how))


# Entries with columns: destinations of no, few and many entries (of several blocks), and more than a bucket has room for.
@pytest.mark.parametrize("how, dtype, columns", [
    ("sum", torch.float32, 64), ("sum", torch.float32, 3), ("sum", torch.bfloat16, 300), ("sum", torch.complex64, 2), ("sum", torch.float32, 1),
    ("prod", torch.float64, 5), ("amax", torch.float32, 12), ("amin", torch.uint8, 4), ("sum", torch.complex128, 3)], ids=str)
@pytest.mark.parametrize("spread", ["even", "some", "one", "far"])
def test_rows_of_few_for_a_destination(how, dtype, columns, spread):
    torch.manual_seed(11)
    rows, n = 2600, 90000 if spread == "far" else 300
    index = torch.randint(0, n, (rows,))
    if spread == "some":
        index[::20], index[1::9] = 17, 18
    elif spread == "one":
        index[:2000] = 17
    x = (torch.rand(rows, columns, dtype=torch.float64) + 0.5).mul(10 if how[0] == "a" else 1).to(dtype)
    to = torch.ones(n, columns, dtype=dtype)
    if how == "sum":
        assert same(to.cuda().index_add(0, index.cuda(), x.cuda()).cpu(), to.index_add(0, index, x))
        x, to = x.t().contiguous(), to.t().contiguous()  # columns are far apart
        assert same(to.cuda().index_add(1, index.cuda(), x.cuda()).cpu(), to.index_add(1, index, x))
    else:
        assert same(to.cuda().index_reduce(0, index.cuda(), x.cuda(), how).cpu(), to.index_reduce(0, index, x, how))


def test_a_row_outside():
    index = torch.arange(3000) % 700
    index[2999] = 700
    with pytest.raises(RuntimeError, match="index 700 is out of bounds"):
        torch.zeros(700, 8).cuda().index_add(0, index.cuda(), torch.ones(3000, 8).cuda()).cpu()


def test_buckets_that_are_too_small():
    torch.manual_seed(12)
    index, x, to = torch.randint(0, 100, (16400, 8)), torch.randn(16400, 8), torch.randn(9000, 8)
    index[:3000, 3] = 5  # of many blocks
    assert same(to.cuda().scatter_add(0, index.cuda(), x.cuda()).cpu(), to.scatter_add(0, index, x))
    assert same(to.t().contiguous().cuda().scatter_add(1, index.t().cuda(), x.t().cuda()).cpu(), to.t().scatter_add(1, index.t(), x.t()))
