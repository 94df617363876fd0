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
                          env={**os.environ, "CR_LOG": "backend"})
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


def test_logarithmic_sums():
    torch.manual_seed(3)
    for shape, dim in (((4, 600), 1), ((600, 3), 0)):
        x = torch.randn(shape)
        x[0], x[3, 1] = -float("inf"), float("inf")
        assert torch.allclose(on_device(x).logcumsumexp(dim).cpu(), x.logcumsumexp(dim), rtol=1e-6)


def test_nothing_is_computed_on_the_host():
    assert on_the_host("""
x = torch.linspace(-1, 1, 24, device="cuda").reshape(4, 6)
x.cumsum(0), x.long().cumsum(1), x.cummax(0)
""") == []
