"""Scans, sorts and selections of torch.cuda on the stand-in of tests/fake_cuda, beside the host's bits."""
import os
import subprocess
import sys

import pytest

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def same(a, b):
    a = a.cpu()
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    nan = a != a
    return (a.dtype == b.dtype and torch.equal(nan, b != b) and
            torch.equal(a.masked_fill(nan, 0).contiguous().view(whole), b.masked_fill(nan, 0).contiguous().view(whole)))


def on_device(t):
    """The same elements and strides there."""
    return torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device="cuda").copy_(t)


def values(shape, dtype, seed=0):
    """Numbers with ties, zeros of both signs, infinities and NaN."""
    torch.manual_seed(seed)
    x = torch.randint(-4, 5, shape)
    if dtype.is_floating_point:
        x = (x.to(torch.float32) / 4).to(dtype)
        flat = x.view(-1)
        for i, special in ((3, float("nan")), (7, -0.0), (9, float("inf")), (11, -float("inf"))):
            flat[i::97] = special
    return x.to(dtype)


def on_the_host(program):
    """The entries that a program computes on the host, in a new process."""
    made = subprocess.run([sys.executable, "-c", "import cresset as torch\n" + program], capture_output=True, text=True,
                          env={**os.environ, "CR_LOG": "backend", "CR_HOST_FALLBACK": "1"})
    assert not made.returncode, made.stderr
    return [line for line in made.stderr.splitlines() if "is computed on the host" in line]


SCANS = {"cumsum": torch.cumsum, "cumprod": torch.cumprod, "cummax": torch.cummax, "cummin": torch.cummin}
# Tiles, blocks and runs that are cut; lines that are adjacent, or not; blocks that are folded first.
LINES = [((3, 300), 1), ((2, 4400), 1), ((17000,), 0), ((300, 5), 0), ((2, 1300, 3), 1), ((7, 17), -1), ((1,), 0), ((), 0)]


@pytest.mark.parametrize("name, dtypes", [("cumsum", (torch.float32, torch.bfloat16)), ("cumprod", (torch.complex64,)),
                                          ("cummax", (torch.float32, torch.uint8)), ("cummin", (torch.float16,))])
def test_scans(name, dtypes):
    f = SCANS[name]
    for shape, dim in LINES:
        for dtype in dtypes:
            torch.manual_seed(1)
            x = torch.randn(shape).to(dtype) if name == "cumsum" else torch.rand(shape, dtype=torch.float64).mul(0.1).add(0.95).to(dtype)
            x = values(shape, dtype) if name.startswith("cumm") and shape else x
            a, b = f(on_device(x), dim), f(x, dim)
            assert all(same(p, q) for p, q in zip(a, b)) if name.startswith("cumm") else same(a, b), (shape, dtype)


@pytest.mark.parametrize("dtype, names", [(torch.float64, "cummax"), (torch.int64, "cumsum"), (torch.complex128, "cumsum")], ids=str)
def test_scans_of_other_dtypes(dtype, names):
    torch.manual_seed(2)
    x = (torch.randn(3, 700, 2) * 2).to(dtype)
    for v, dim in ((x, 1), (x[:, :, 0], 1), (x.transpose(1, 2), 0), (x[::2], 1)):
        for name in names.split():
            a, b = SCANS[name](on_device(v), dim), SCANS[name](v, dim)
            assert all(same(p, q) for p, q in zip(a, b)) if name.startswith("cumm") else same(a, b), name


# One line, whose tiles are scanned by another launch.
@pytest.mark.parametrize("kind", ["normal", "positive", "double", "wide", "infinite", "zero", "whole"])
def test_a_long_scan_adds_in_order(kind):
    torch.manual_seed(9)
    x = torch.randn(2_200_000 if kind in ("normal", "positive", "double", "whole") else 70_000)
    if kind == "infinite":
        x[30_000], x[50_000] = float("inf"), -float("inf")
    x = {"positive": x.abs(), "double": torch.randn(x.shape, dtype=torch.float64), "wide": (x * 9).exp(), "zero": -torch.zeros(70_000), "whole": (x * 1e9).long()}.get(kind, x)
    assert same(x.cuda().cumsum(0), x.cumsum(0))


def test_logarithmic_sums():
    torch.manual_seed(3)
    for shape, dim in (((4, 600), 1), ((600, 3), 0)):
        x = torch.randn(shape)
        x[0], x[3, 1] = -float("inf"), float("inf")
        assert torch.allclose(on_device(x).logcumsumexp(dim).cpu(), x.logcumsumexp(dim), rtol=1e-6)


def both(f, x):
    a, b = f(on_device(x)), f(x)
    a, b = ([t] if isinstance(t, torch.Tensor) else t for t in (a, b))
    return all(p.stride() == q.stride() and same(p, q) for p, q in zip(a, b))


def both_places(x):
    """nonzero() writes rows on the device, columns on the host."""
    a, b = on_device(x).nonzero(), x.nonzero()
    return a.is_contiguous() and b.mT.is_contiguous() and same(a, b)


@pytest.mark.parametrize("shape, dim", [((3, 60), 1), ((4, 30, 2), 1), ((), 0)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_sorts(shape, dim, dtype):
    x = values(shape, dtype) if shape else torch.tensor(3, dtype=dtype)
    for down in (False, True):
        assert both(lambda t: t.sort(dim=dim, stable=True, descending=down), x)
    torch.manual_seed(4)
    y = torch.randperm(max(x.numel(), 1)).reshape(shape).to(dtype)
    assert both(lambda t: t.sort(dim), y) and both(lambda t: t.argsort(dim, True), y)
    if shape:
        assert both(lambda t: t.topk(5, dim), y) and both(lambda t: t.topk(7, dim, largest=False), y)
        assert both(lambda t: t.kthvalue(9, dim), y) and both(lambda t: t.median(dim, True), y)
        assert both(lambda t: t.median(dim), x) and both(lambda t: t.nanmedian(dim), x)


# In shared memory with one and several rounds of digits, and by keys of 64 bits.
@pytest.mark.parametrize("shape, dtype", [((2, 130), torch.float32), ((1, 300), torch.float32), ((1, 130), torch.int64), ((2100,), torch.float32),
                                          ((2, 2060), torch.int16), ((2100,), torch.int64)], ids=str)
def test_sorts_of_longer_lines(shape, dtype):
    x = values(shape, dtype)
    if dtype == torch.int64:
        x[..., ::3] += 2 ** 40
    assert both(lambda t: t.sort(stable=True, descending=dtype == torch.float32), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.int64, torch.float64], ids=str)
def test_the_first_of_long_lines(dtype):
    """Some are chosen before they are ordered: distinct elements, ties that end inside, NaN, and other strides."""
    for x in (torch.randn(2, 2500).mul(999).to(dtype), values((3, 2300), dtype), values((2100, 2), dtype).t()):
        for k, largest in ((7, True), (1000, False), (1, True)):
            v, i = x.cuda().topk(k, 1, largest)
            order = x.sort(dim=1, descending=largest, stable=True)
            assert same(v, order[0][:, :k]) and same(i, order[1][:, :k])


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.bfloat16, torch.float64], ids=str)
def test_sorts_of_other_dtypes(dtype):
    x = values((3, 20), dtype)
    assert both(lambda t: t.sort(stable=True), x) and both(lambda t: t.t().sort(dim=0, stable=True, descending=True), x)
    if dtype == torch.float64:
        assert both(lambda t: t.median(), x) and both(lambda t: t.nanmedian(), x)


def test_modes_and_permutations():
    for x in (torch.randint(0, 4, (5, 12)), torch.randint(0, 9, (3, 14)).float()):
        assert both(lambda t: t.mode(1), x) and both(lambda t: t.mode(0, True), x)
    for n in (0, 1, 60):
        p = torch.randperm(n, device="cuda")
        assert p.sort().values.tolist() == list(range(n)) and (n < 60 or p.tolist() != list(range(n)))
    assert torch.randperm(9, dtype=torch.int32, device="cuda").dtype == torch.int32


def test_searches():
    torch.manual_seed(5)
    rows = torch.randn(3, 4, 9).sort().values
    x = torch.randn(3, 4, 5)
    x[0, 0, :3] = rows[0, 0, :3]
    for right in (False, True):
        assert same(torch.searchsorted(rows.cuda(), x.cuda(), right=right), torch.searchsorted(rows, x, right=right))
        assert same(torch.bucketize(x.cuda(), rows[0, 0].cuda(), right=right), torch.bucketize(x, rows[0, 0], right=right))
    mixed = torch.randn(2, 7)
    order = mixed.argsort()
    assert same(torch.searchsorted(mixed.cuda(), x[0, :2].cuda(), sorter=order.cuda(), out_int32=True),
                torch.searchsorted(mixed, x[0, :2], sorter=order, out_int32=True))
    with pytest.raises(RuntimeError, match="sorter index out of range"):
        torch.searchsorted(mixed.cuda(), x[0, :2].cuda(), sorter=order.cuda() + 7).cpu()
    for a, b in ((torch.tensor([1, 5, 2, 7]), torch.tensor([7, 1])), (x, rows[0]), (x, rows[:0]), (x > 0, torch.tensor([True]))):
        assert same(torch.isin(a.cuda(), b.cuda()), torch.isin(a, b))
        assert same(torch.isin(a.cuda(), b.cuda(), invert=True), torch.isin(a, b, invert=True))


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64], ids=str)
def test_places_of_true_elements(dtype):
    torch.manual_seed(6)
    for shape in ((4200,), (3, 7, 5), (2, 0, 3), (1,), ()):
        x = (torch.randint(-1, 2, shape) * torch.randint(0, 2, shape)).to(dtype)
        assert both_places(x)
        if x.dim() == 3:
            assert both_places(x.transpose(0, 2))
            assert all(map(same, torch.nonzero(on_device(x), as_tuple=True), torch.nonzero(x, as_tuple=True)))


def test_places_in_many_tiles():
    torch.manual_seed(6)
    x = torch.randn(300, 1000)
    for y in (x, x.t(), x[::2]):
        assert same((on_device(x) > 1).nonzero(), (x > 1).nonzero())
        assert same(on_device(y).masked_select(on_device(y) > 0), y.masked_select(y > 0)) and both_places(y.gt(1).t())


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_sums_of_integers(dtype):
    """Few and many places, sums that wrap around, several columns, an index out of range."""
    torch.manual_seed(10)
    for n, places in ((9, 4), (6000, 250), (6000, 9000), (50, 9000)):
        at, x = torch.randint(0, places, (n,)), torch.randint(-2 ** 31, 2 ** 31 - 1, (n, 3)).to(dtype) * 3
        assert both(lambda t: t.new_zeros(places, 3).index_add(0, at.to(t.device), t, alpha=5), x)
        assert both(lambda t: t.new_zeros(3, places).t().scatter_add(0, at.to(t.device)[:, None].expand(-1, 2), t), x)
        assert both(torch.bincount, at.to(dtype))
    with pytest.raises(RuntimeError, match="index 4 is out of bounds"):
        x.new_zeros(4).cuda().index_add(0, torch.tensor([0, 4]).cuda(), x[:2, 0].cuda()).cpu()


def test_selections():
    torch.manual_seed(7)
    x, mask = torch.randn(4, 6, 5), torch.rand(4, 6, 5) > 0.5
    for dtype in (torch.float32, torch.complex128):
        y = x.to(dtype)
        assert same(y.cuda()[mask.cuda()], y[mask]) and same(y.cuda().masked_select(mask.cuda()), y.masked_select(mask))
    assert same(x.cuda().masked_select(mask[0, :, :1].cuda()), x.masked_select(mask[0, :, :1]))
    rows, i = mask[:, :, 0], torch.tensor([0, 2])
    for index in ((rows,), (slice(None), rows[0]), (mask[:, 0, 0], slice(None), 2)):
        there = tuple(t.cuda() if isinstance(t, torch.Tensor) else t for t in index)
        assert same(x.cuda()[there], x[index]) and same(x.cuda()[index], x[index])
        a, b = x.cuda(), x.clone()
        a[there], b[index] = 3.5, 3.5
        assert same(a, b)
    a, b = x.cuda().requires_grad_(), x.clone().requires_grad_()
    a[mask.cuda()].square().sum().backward(), b[mask].square().sum().backward()
    assert same(a.grad, b.grad)
    with pytest.raises(IndexError, match="The shape of the mask"):
        x.cuda()[mask[:3].cuda()]
    for size, first in (((3, 2731), 0), ((8193,), 0), ((9, 16), 0), ((70,), 1)):  # sixteen elements of a mask are one access
        some = torch.rand(size) > 0.5
        assert both_places(some[first:]) and both_places(some[first:].to(torch.uint8) * 128)


def test_groups_of_equal_elements():
    torch.manual_seed(8)
    for x in (torch.randint(0, 9, (4, 10)), values((60,), torch.float32), torch.randint(0, 2, (7,)) > 0, torch.zeros(0)):
        for f in (torch.unique, torch.unique_consecutive):
            assert both(lambda t: f(t, return_inverse=True, return_counts=True), x) and both(f, x)
    for x in (torch.randint(0, 9, (50,)), torch.randint(0, 9, (50,), dtype=torch.int32), torch.zeros(0, dtype=torch.int64)):
        assert both(torch.bincount, x) and both(lambda t: torch.bincount(t, minlength=20), x)
    at = torch.randint(0, 3, (900,))
    for weights in (torch.randn(900), torch.randn(900, dtype=torch.float64)):
        assert torch.allclose(torch.bincount(at.cuda(), weights.cuda()).cpu(), torch.bincount(at, weights), rtol=1e-5)
    assert both(lambda t: torch.bincount(t.to(torch.uint8), t), at)
    with pytest.raises(RuntimeError, match="bincount only supports 1-d non-negative"):
        torch.bincount(torch.tensor([1, -1], device="cuda"))


def test_groups_of_equal_rows():
    torch.manual_seed(9)
    torn = torch.randint(0, 2, (9, 3)).float()
    torn[2, 1] = torn[5, 0] = torn[6, 0] = float("nan")
    for x in (torch.randint(0, 2, (12, 3)), torch.randint(0, 2, (2, 7, 3)) > 0, torn, torch.zeros(0), torch.tensor(4)):
        for dim in range(-1, max(x.ndim, 1)):
            for f in (torch.unique, torch.unique_consecutive):
                assert both(lambda t: f(t, dim=dim, return_inverse=True, return_counts=True), x) and both(lambda t: f(t, dim=dim), x)
    with pytest.raises(RuntimeError, match="There are 0 sized dimensions, and they aren't selected"):
        torch.unique(torch.zeros(3, 0, device="cuda"), dim=0)


def test_logarithms_of_running_sums_of_complex_numbers():
    x = torch.randn(2, 600, dtype=torch.complex64)
    x[0, 3] = x[0, 0] = complex(-float("inf"), 0)
    for t, dim in ((x, 1), (x, 0), (x.to(torch.complex128), 1)):
        assert torch.allclose(on_device(t).logcumsumexp(dim).cpu().exp(), t.logcumsumexp(dim).exp(), rtol=1e-4)


def test_nothing_is_computed_on_the_host():
    assert on_the_host("""
x = torch.linspace(-1, 1, 24, device="cuda").reshape(4, 6)
x.cumsum(0), x.long().cumsum(1), x.cummax(0)
x.sort(), x.sort(stable=True), x.argsort(0), x.topk(2), x.kthvalue(2), x.median(), x.median(1), x.nanmedian(1), x.mode(1)
torch.randperm(5, device="cuda"), torch.searchsorted(x, x), torch.isin(x, x), x.nonzero(), x[x > 0], x.masked_select(x > 0)
x[x > 0.5] = 1
x.unique(), x.unique_consecutive(return_counts=True), torch.bincount((x + 1).long().flatten())
""") == []


@pytest.mark.parametrize("n, dtype, descending", [(2049, torch.bfloat16, False), (8192, torch.uint8, True), (2100, torch.float64, False)])
def test_many_long_lines_are_sorted_in_shared_memory(n, dtype, descending):
    """Blocks of 1,024 threads, a block for a line."""
    x = values((32, n), dtype)
    made, places = x.cuda().sort(dim=-1, descending=descending, stable=True)
    want, at = x.sort(dim=-1, descending=descending, stable=True)
    assert same(made, want) and torch.equal(places.cpu(), at)


def test_repeats_are_added_up_on_the_device():
    rows, flat = torch.arange(12).reshape(4, 3), torch.tensor([2, 0, 3, 1])
    for counts in (flat, flat.int(), torch.tensor(2), torch.tensor([3]), flat.flip(0)):
        assert same(torch.repeat_interleave(rows.cuda(), counts.cuda(), 0), torch.repeat_interleave(rows, counts, 0))
    many = torch.arange(70000) % 5
    for counts in (many, many[::3], many[:0]):
        assert same(torch.repeat_interleave(counts.cuda()), torch.repeat_interleave(counts))
    assert same(torch.repeat_interleave(rows.cuda(), flat.cuda(), dim=0, output_size=6), torch.repeat_interleave(rows, flat, dim=0))
    assert same(torch.tensor(5).cuda().repeat_interleave(torch.tensor(3).cuda()), torch.tensor([5, 5, 5]))
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.repeat_interleave(torch.tensor([1, -1]).cuda())
    with pytest.raises(RuntimeError, match="repeats must have the same size as input along dim"):
        torch.repeat_interleave(rows.cuda(), flat[:3].cuda(), 0)
    with pytest.raises(RuntimeError, match="repeats are more than a size may be"):
        torch.repeat_interleave(torch.tensor([2 ** 62, 2 ** 62]).cuda())
    assert not on_the_host("torch.repeat_interleave(torch.ones(3, 2).cuda(), torch.tensor([1, 2, 0]).cuda(), 0)")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_numbers_beside_nan_are_found(dtype):
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([1.5, nan, inf, -inf, 2., -nan], dtype=dtype)
    for among in (x[:2], x, x.flip(0)[:4], x[1:2], torch.tensor([nan, 2., nan, nan], dtype=dtype)):
        want = (x[:, None] == among).any(1)
        assert torch.equal(torch.isin(x, among), want)
        assert torch.equal(torch.isin(x.cuda(), among.cuda()).cpu(), want)
        assert torch.equal(torch.isin(x.cuda(), among.cuda(), invert=True).cpu(), ~want)
