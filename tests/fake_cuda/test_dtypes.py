"""Dtypes that NVIDIA's libraries lack, complex factors, LDL factors and Bessel functions on a device; beside NumPy or the host."""
import numpy as np
import pytest

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def close(a, b, dtype):
    wide = dtype in (torch.float64, torch.complex128)
    return np.allclose(a.cpu().numpy(), b, rtol=1e-11 if wide else 1e-4, atol=1e-11 if wide else 1e-4)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("beta, alpha", [(0.5 - 1j, 2 + 3j), (0, 1j), (1, 0.5j), (2j, 3)])
def test_products_with_complex_factors(beta, alpha, dtype):
    torch.manual_seed(1)
    a, b, c = torch.randn(5, 4, 3, dtype=dtype), torch.randn(5, 3, 6, dtype=dtype), torch.randn(4, 6, dtype=dtype)
    at, bt, ct = a.numpy(), b.numpy(), c.numpy()
    there = [t.cuda() for t in (a, b, c)]
    how = {"beta": beta, "alpha": alpha}
    assert close(torch.addmm(there[2], there[0][0], there[1][0], **how), beta * ct + alpha * (at[0] @ bt[0]), dtype)
    assert close(torch.addbmm(there[2], there[0], there[1], **how), beta * ct + alpha * (at @ bt).sum(0), dtype)
    assert close(torch.baddbmm(there[2], there[0], there[1], **how), beta * ct + alpha * (at @ bt), dtype)
    column = torch.tensor([1j, 2, 3, 4], dtype=dtype)
    assert close(torch.addmm(column[:, None].cuda(), there[0][0], there[1][0], **how),
                 beta * column.numpy()[:, None] + alpha * (at[0] @ bt[0]), dtype)


CONVOLUTIONS = [((2, 4, 9), (6, 4, 3), {}), ((2, 4, 9), (6, 2, 3), {"groups": 2, "stride": 2, "padding": 1}),
                ((1, 3, 7, 8), (5, 3, 2, 3), {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}),
                ((2, 4, 5, 5), (4, 1, 3, 3), {"groups": 4, "padding": 1}),
                ((1, 2, 4, 5, 3), (3, 2, 2, 2, 2), {"padding": (0, 1, 1), "stride": (1, 2, 1)})]


def numbers(shape, dtype):
    if dtype.is_complex:
        return torch.randn(shape, dtype=dtype)
    return torch.randint(0 if dtype == torch.uint8 else -9, 9, shape).to(dtype)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("size, kernel, how", CONVOLUTIONS)
def test_convolutions_that_the_library_lacks(size, kernel, how, dtype):
    torch.manual_seed(2)
    dims = len(size) - 2
    forward = getattr(torch.nn.functional, f"conv{dims}d")
    back = getattr(torch.nn.functional, f"conv_transpose{dims}d")
    x, w, bias = numbers(size, dtype), numbers(kernel, dtype), numbers(kernel[:1], dtype)
    y = forward(x, w, bias, **how)
    wide = forward(x.to(torch.complex128 if dtype.is_complex else torch.float64),
                   w.to(torch.complex128 if dtype.is_complex else torch.float64), **how)
    for last in (False, True):
        xt, wt = x.cuda(), w.cuda()
        if last and dims == 2:
            xt, wt = xt.to(memory_format=torch.channels_last), wt.to(memory_format=torch.channels_last)
        got = forward(xt, wt, bias.cuda(), **how)
        plain = forward(xt, wt, **how)
        assert got.shape == y.shape and got.dtype == dtype
        if dtype.is_complex:
            assert close(plain, wide.numpy(), dtype) and close(got, y.numpy(), dtype)
            assert close(back(y.cuda(), wt, **how), back(y, w, **how).numpy(), dtype)
        else:
            assert torch.equal(plain.cpu(), wide.to(torch.int64).to(dtype)) and torch.equal(got.cpu(), y)
            assert torch.equal(back(y.cuda(), wt, **how).cpu(), back(y, w, **how))


@pytest.mark.parametrize("size, kernel, how", CONVOLUTIONS)
def test_gradients_of_complex_convolutions(size, kernel, how):
    torch.manual_seed(3)
    f = getattr(torch.nn.functional, f"conv{len(size) - 2}d")
    x, w = (torch.randn(s, dtype=torch.complex128, requires_grad=True) for s in (size, kernel))
    xt, wt = (t.detach().cuda().requires_grad_() for t in (x, w))
    g = torch.randn(f(x, w, **how).shape, dtype=torch.complex128)
    for here, there in zip(torch.autograd.grad(f(x, w, **how), (x, w), g),
                           torch.autograd.grad(f(xt, wt, **how), (xt, wt), g.cuda())):
        assert close(there, here.numpy(), torch.complex128)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("hermitian", [False, True])
def test_ldl_factors(n, dtype, hermitian):
    torch.manual_seed(n)
    a = torch.randn(3, 2, n, n, dtype=dtype)
    a = a + (a.mH if hermitian else a.mT)
    a[0, 0].diagonal().zero_()  # blocks of two rows
    b = torch.randn(3, 2, n, 4, dtype=dtype)
    a[1, 1] *= 1e3
    there = torch.linalg.ldl_factor_ex(a.cuda(), hermitian=hermitian)
    here = torch.linalg.ldl_factor_ex(a, hermitian=hermitian)
    assert torch.equal(there.pivots.cpu(), here.pivots) and torch.equal(there.info.cpu(), here.info)
    scale = here.LD.abs().amax().item()
    wide = dtype in (torch.float64, torch.complex128)
    assert np.allclose(there.LD.cpu().numpy(), here.LD.numpy(), atol=scale * (1e-10 if wide else 2e-3))
    if n == 1:  # the first one is zero
        assert there.info[0, 0].item() == 1
        return
    x = torch.linalg.ldl_solve(there.LD, there.pivots, b.cuda(), hermitian=hermitian).cpu().numpy()
    want = np.linalg.solve(a.numpy(), b.numpy())
    assert np.allclose(x, want, rtol=1e-6 if wide else 0.05, atol=np.abs(want).max() * (1e-8 if wide else 5e-3))


def test_ldl_factors_that_are_wrong():
    a = torch.eye(3, device="cuda")
    a[1, 1] = 0
    with pytest.raises(torch.linalg.LinAlgError, match="the diagonal element 2 is exactly zero"):
        torch.linalg.ldl_factor(a)
    ld, _ = torch.linalg.ldl_factor(torch.eye(3, device="cuda"))
    for pivots in ([1, 2, 4], [0, 2, 3], [1, 2, -3], [-1, 2, 3], [1, -2, -9]):
        with pytest.raises(RuntimeError, match="pivots are expected to be rows between 1 and 3"):
            torch.linalg.ldl_solve(ld, torch.tensor(pivots, dtype=torch.int32, device="cuda"), torch.ones(3, 1, device="cuda")).cpu()
    assert torch.ones(2, device="cuda").sum().item() == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["modified_bessel_k0", "modified_bessel_k1", "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "airy_ai"])
def test_bessel_functions_have_the_bits_of_the_host(name, dtype):
    x = torch.cat([torch.linspace(-3, 12, 301), torch.tensor([0.0, -0.0, 1e-30, 1e-9, 150.0, 1e4, float("inf"), float("-inf"), float("nan")])]).to(dtype)
    f = getattr(torch.special, name)
    here, there = f(x), f(x.cuda()).cpu()
    assert torch.equal(here.isnan(), there.isnan()) and torch.equal(here.nan_to_num(), there.nan_to_num())
