"""Factorizations and solvers of matrices on a device, by cuSOLVER and cuBLAS, beside the host's LAPACK."""
import pytest

import cresset as torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
L = torch.linalg
FAKE = torch.cuda.is_available() and torch.cuda.get_device_name() == "Fake GPU"


def compare(f, *values, tolerance=2e-3):
    """Results of f, or its error, on both devices."""
    found = []
    for device in ("cpu", "cuda"):
        try:
            out = f(*[v.to(device) for v in values])
        except RuntimeError as e:
            found.append((type(e), str(e)))
            continue
        out = list(out) if isinstance(out, (tuple, list)) else [out]
        assert all(o.device.type == device for o in out)
        found.append([o.cpu() for o in out])
    if isinstance(found[0], tuple):
        assert found[0] == found[1]
        return
    assert len(found[0]) == len(found[1])
    for a, b in zip(*found):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert torch.allclose(a, b, tolerance, tolerance, equal_nan=True)


def product_of_lu(a, b):
    lu, pivots = L.lu_factor(a)
    return L.lu_solve(lu, pivots, b)


def reflectors(x, c):
    a, tau = torch.geqrf(x)
    return L.householder_product(a, tau).abs(), torch.ormqr(a, tau, c).abs()


def parts_of_svd(x, full):
    u, s, v = L.svd(x, full_matrices=full)
    k = s.shape[-1]
    return s, (u[..., :k] * s.to(u.dtype).unsqueeze(-2)) @ v[..., :k, :], u.abs()[..., :k], v.abs()[..., :k, :]


def parts_of_eig(x):
    w, v = L.eig(x)
    return (v * w.unsqueeze(-2)) @ L.inv(v)


def gradient_of_solve(a, b):
    a = a.detach().clone().requires_grad_()
    L.solve(a, b).abs().sum().backward()
    return a.grad


def sizes(x):
    return [t.abs() for t in x]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_square_matrices(dtype):
    torch.manual_seed(1)
    a, b = torch.randn(2, 4, 4, dtype=dtype), torch.randn(2, 4, 3, dtype=dtype)
    p = a @ a.mH + torch.eye(4, dtype=dtype)
    for f, *values in ((L.cholesky, p), (lambda x: L.cholesky(x, upper=True), p), (L.cholesky, -p), (lambda x: L.cholesky_ex(x).info, -p), (L.inv, a),
                       (L.inv, torch.zeros(2, 3, 3, dtype=dtype)), (L.solve, a, b), (L.lu_factor, a), (product_of_lu, a, b),
                       (lambda x, y: L.solve(x, y, left=False), a, b.mT), (L.lu, torch.randn(5, 3, dtype=dtype)),
                       (lambda x, y: L.solve_triangular(x.triu(), y, upper=True), p, b), (parts_of_eig, a),
                       (lambda x, y: L.solve_triangular(x.tril(), y, upper=False, left=False), p, b.mT), (L.eigvalsh, p),
                       (lambda x: sizes(L.eigh(x)), p), (gradient_of_solve, a, b), (L.det, a)):
        compare(f, *values)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 2e-3), (torch.float64, 1e-9)], ids=str)
def test_batches_of_small_matrices(dtype, tolerance):
    """All at once, with a thread for each; one of the matrices is singular, or has no root."""
    torch.manual_seed(4)
    for n in (1, 7):
        a, b = torch.randn(2, 3, n, n, dtype=dtype), torch.randn(2, 3, n, 2, dtype=dtype)
        p = a @ a.mT + torch.eye(n, dtype=dtype)
        bad = a.clone()
        bad[1, 0] = 0
        wide = torch.randn(5, n, n + 2, dtype=dtype)
        for f, *values in ((L.cholesky, p), (lambda x: L.cholesky(x, upper=True), p), (L.cholesky, -p), (L.cholesky_ex, bad @ bad.mT),
                           (L.inv, a), (L.inv, bad), (L.inv_ex, bad), (L.solve, a, b), (L.solve, a.mT, b[0]), (L.solve, a, b[..., 0]),
                           (lambda x, y: L.solve(x, y, left=False), a, b.mT), (L.solve, bad, b), (lambda x, y: L.solve_ex(x, y).info, bad, b),
                           (L.lu_factor, a), (L.lu_factor, bad), (L.lu_factor_ex, bad), (L.lu_factor, wide), (L.lu_factor, wide.mT),
                           (product_of_lu, a, b), (L.det, a), (L.det, bad), (gradient_of_solve, a, b)):
            compare(f, *values, tolerance=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (0, 3)])
def test_other_matrices(dtype, shape):
    torch.manual_seed(2)
    x, b = torch.randn(2, *shape, dtype=dtype), torch.randn(2, shape[0], 2, dtype=dtype)
    for f, *values in ((lambda t: sizes(L.qr(t)), x), (lambda t: sizes(L.qr(t, mode="complete")), x), (L.svdvals, x),
                       (lambda t: parts_of_svd(t, True), x), (lambda t: parts_of_svd(t, False), x)):
        compare(f, *values)
    if shape[0]:
        compare(lambda t, c: L.lstsq(t, c, driver="gels").solution, x, b)
        compare(reflectors, x[0], b[0])


@pytest.mark.skipif(not FAKE, reason="the library may round pivots otherwise")
def test_elimination_without_exchanges_and_wrong_pivots():
    torch.manual_seed(3)
    a = torch.randn(2, 4, 4)
    compare(lambda x: L.lu_factor(x, pivot=False), a @ a.mT + torch.eye(4))
    with pytest.raises(RuntimeError, match="pivots are expected to be between 1 and 3, but 9 was given"):
        L.lu_solve(torch.eye(3).cuda(), torch.tensor([1, 9, 3], dtype=torch.int32).cuda(), torch.ones(3, 1).cuda()).cpu()


@pytest.mark.skipif(not FAKE, reason="the library does not fail on request")
@pytest.mark.parametrize("name, f", [
    ("potrf", L.cholesky), ("potrf", L.cholesky_ex), ("getrf", L.inv), ("getrf", L.inv_ex), ("getrs", L.inv),
    ("getrf", L.lu_factor_ex), ("getrf", lambda x: L.solve(x, x)), ("getrs", lambda x: L.lu_solve(*L.lu_factor(x), x)),
    ("trsm", lambda x: L.solve_triangular(x, x, upper=True)), ("geqrf", L.qr), ("geqrf", torch.geqrf), ("gqr", L.qr),
    ("mqr", lambda x: torch.ormqr(x, x[0], x)), ("evd", L.eigh), ("gesvdj", L.svd), ("Xgeev", L.eig),
    *((part, lambda x: L.lstsq(x, x, driver="gels")) for part in ("geqrf", "mqr", "trsm"))])
def test_a_call_of_the_library_that_fails(name, f, monkeypatch):
    x = torch.eye(3).cuda()
    f(x)
    monkeypatch.setenv("FAKE_CUSOLVER_FAILS", name)
    with pytest.raises(RuntimeError, match="cublas error" if name == "trsm" else "cusolver error: CUSOLVER_STATUS_INTERNAL_ERROR"):
        f(x)
    monkeypatch.undo()
    f(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128])
@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_infinities_and_nan(dtype, number):
    for place in range(3):
        x = torch.eye(3, dtype=dtype)
        x[place, place] = number
        for f in (L.eig, L.eigvals, L.svdvals, L.svd):
            compare(f, x)
        if FAKE or number != number:  # the root of an infinity fails in the library and not in LAPACK
            compare(L.cholesky, x)
            compare(lambda t: L.cholesky_ex(t).info, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
def test_factors_of_nan_are_not_finite(dtype):
    """cuSOLVER's are: what the library then solves would look like results."""
    torch.manual_seed(9)
    for n, batch in ((3, ()), (40, (2,))):
        x = torch.randn(*batch, n, n, dtype=dtype) + n * torch.eye(n, dtype=dtype)
        x[..., 1, 0] = float("nan")
        there = x.cuda()
        assert L.lu_factor_ex(there).LU.isnan().any() and L.det(there).isnan().all()
        assert L.inv_ex(there).inverse.isnan().any() and L.solve_ex(there, torch.ones(*batch, n, 1, dtype=dtype, device="cuda")).result.isnan().any()
        if batch:  # the other matrix keeps its factors
            x[0], whole = torch.eye(n, dtype=dtype), torch.eye(n, dtype=dtype, device="cuda")
            assert torch.equal(L.lu_factor_ex(x.cuda()).LU[0], whole)
