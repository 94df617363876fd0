"""Folds of halves in any layout on the stand-in of tests/fake_cuda: the host's bits.

The host converts halves before it folds them, a device reads them in place; the order of the sums is the same."""
import itertools
import random

import pytest

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")

# (sizes, strides): expanded dims have the stride 0; elements overlap, or have gaps between them.
LAYOUTS = [((40, 30), (0, 1)), ((40, 30), (1, 0)), ((40, 30), (0, 0)), ((40, 30), (1, 1)), ((40, 30), (33, 1)), ((40, 30), (2, 80)),
           ((3, 40, 30), (0, 30, 1)), ((3, 40, 30), (1, 0, 3)), ((3, 40, 30), (1300, 31, 1)), ((3, 40, 30), (1, 3, 0)),
           ((40, 1, 30), (0, 7, 1)), ((600, 3), (0, 1)), ((3, 600), (1, 0)), ((9000, 2), (2, 0))]


def drawn(count):
    """Random layouts of up to four dims."""
    draw = random.Random(5)
    for _ in range(count):
        size = [draw.choice((1, 2, 3, 5, 8, 17, 40)) for _ in range(draw.randint(2, 4))]
        while torch.Size(size).numel() > 20000:
            size[size.index(max(size))] //= 2
        yield tuple(size), tuple(draw.choice((0, 0, 1, 2, 3, 7, n, 3 * n, 17)) for n in size)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_of_halves_in_any_layout(dtype):
    differ, sums = [], 0
    for size, stride in LAYOUTS + list(drawn(40)):
        torch.manual_seed(len(size))
        x = torch.randn(1 + sum((n - 1) * s for n, s in zip(size, stride))).to(dtype)
        there = x.cuda().as_strided(size, stride)
        for k in range(1, len(size) + 1):
            for dim in itertools.combinations(range(len(size)), k):
                sums += 1
                if not torch.equal(there.sum(dim, dtype=torch.float32).cpu(), x.as_strided(size, stride).sum(dim, dtype=torch.float32)):
                    differ.append((size, stride, dim))
    assert not differ, f"{len(differ)} of {sums}: {differ[:8]}"


# Elements near their row's greatest and far from it, in one warp and in others; NaN and infinities.
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_exponentials_of_rows_of_halves(dtype):
    torch.manual_seed(3)
    for columns in (1024, 8192, 700, 384):
        x = torch.randn(12, columns) * 4
        x[0, ::3], x[2], x[4, 1], x[3, 3] = -float("inf"), -float("inf"), float("inf"), float("nan")
        x[1, 5:7], x[5] = torch.tensor([-89., 0.]), -87.
        x[5, 3], x[6, :7], x[7], x[8] = 0., -100., -0.0, x[8] * 20
        x = x.to(dtype)
        for f in (lambda t: t.softmax(1), lambda t: t.log_softmax(1), lambda t: t.amax(1), lambda t: t.amin(1)):
            there, here = f(x.cuda()).cpu(), f(x)
            assert torch.equal(there.isnan(), here.isnan()) and torch.equal(there.nan_to_num(), here.nan_to_num())
