"""Products of float32 that have much work: sums of products of bfloat16 parts, as exact as float32."""
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
