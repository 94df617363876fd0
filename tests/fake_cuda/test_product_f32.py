"""Products of float32 that have much work: sums of products of bfloat16 parts, as exact as float32."""
import os
import subprocess
import sys

import pytest

import cresset as torch

LAYOUTS = {"rows": lambda t: t, "columns": lambda t: t.transpose(-2, -1).contiguous().transpose(-2, -1)}


def drawn(*size):
    """Elements of many magnitudes."""
    return torch.randn(size) * torch.exp2(torch.randint(-20, 20, size))


@pytest.mark.parametrize("a_layout, b_layout, batch, m, n, k", [
    ("rows", "columns", 1, 132, 68, 908),   # splits, vectors of four elements
    ("rows", "rows", 2, 130, 66, 478),      # vectors of two
    ("columns", "rows", 1, 193, 129, 327),   # single elements
    ("columns", "columns", 1, 128, 128, 512)])
def test_large_products_are_as_exact_as_float32(a_layout, b_layout, batch, m, n, k):
    torch.manual_seed(0)
    a, b, c = drawn(batch, m, k), drawn(batch, k, n), torch.randn(batch, m, n)
    on_device = [LAYOUTS[how](t).cuda() for how, t in ((a_layout, a), (b_layout, b))]
    got = torch.baddbmm(c.cuda(), *on_device, beta=0.5, alpha=-2).cpu().double()
    want = torch.baddbmm(c.double(), a.double(), b.double(), beta=0.5, alpha=-2)
    most = 2 * torch.bmm(a.double().abs(), b.double().abs()) + c.double().abs()
    assert ((got - want).abs() / most).max() < 1e-6
    plain = torch.bmm(*on_device).cpu().double()
    assert ((plain - torch.bmm(a.double(), b.double())).abs() / most).max() < 1e-6


def test_a_bias_is_added_to_large_products():
    torch.manual_seed(1)
    x, w, b = torch.randn(200, 201), torch.randn(204, 201), torch.randn(204)
    got = torch.nn.functional.linear(x.cuda(), w.cuda(), b.cuda()).cpu().double()
    want = torch.nn.functional.linear(x.double(), w.double(), b.double())
    assert (got - want).abs().max() < 2e-5


def test_parts_of_infinities_make_no_nan():
    torch.manual_seed(2)
    a, b = torch.randn(260, 124), torch.ones(124, 256)
    a[3, 5], a[70, 0], a[259, 123], a[100, 7] = float("inf"), -float("inf"), 3.4e38, float("nan")
    a[200, 1], a[200, 2] = float("inf"), -float("inf")
    b[5, 9] = -2
    got, want = (a.cuda() @ b.cuda()).cpu(), a.double() @ b.double()
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-4, equal_nan=True)
    assert got[3, 9] == -float("inf") and got[3, 8] == float("inf") and got[200].isnan().all()


def test_parts_make_no_infinity():
    x = 2.0**63 * (2 - 2.0**-9)  # its bfloat16 is 2**64
    a, b = torch.zeros(260, 128), torch.zeros(128, 256)
    a[1, 3], b[3, 2], a[200, 100], b[100, 9] = x, x, -x, x
    a[259, 5], b[5, 255] = 2 * x, x
    got = (a.cuda() @ b.cuda()).cpu()
    assert got[1, 2] == torch.tensor(x * x) and got[200, 9] == torch.tensor(-x * x)
    assert got[259, 255] == float("inf") and got.isfinite().sum() == got.numel() - 1


@pytest.mark.skipif("FAKE_CUDA_SIMT" not in os.environ, reason="the capability of a stand-in")
@pytest.mark.parametrize("capability, parts", [(75, False), (80, True), (86, False), (89, False), (90, True), (120, False)])
def test_parts_are_for_devices_of_fast_tensor_cores(capability, parts):
    """Parts of numbers near 2**-125 have few bits."""
    code = """import cresset as torch
torch.manual_seed(3)
a, b = torch.randn(256, 512) * 2.0**-125, torch.randn(512, 256)
got, want = (a.cuda() @ b.cuda() * 2.0**100).cpu().double() * 2.0**25, (a.double() @ b.double()) * 2.0**125
print((got - want).abs().max().item() > 1e-3)"""
    r = subprocess.run([sys.executable, "-c", code], env={**os.environ, "FAKE_CUDA_CAPABILITY": str(capability)},
                       capture_output=True, text=True, timeout=120)
    assert r.returncode == 0 and r.stdout == f"{parts}\n", r.stderr
