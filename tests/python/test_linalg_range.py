"""Matrices with infinities and NaN, on which LAPACK's iterations may not end."""
import pytest

import cresset as torch

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
NAN, INF = float("nan"), float("inf")


def matrices(value, dtype):
    """Returns matrices of several shapes, with the value in several places."""
    g = torch.Generator().manual_seed(0)
    for m, n in ((1, 1), (2, 2), (3, 3), (7, 4), (4, 7), (30, 30)):
        for count in (1, 2, m * n):
            a = torch.randn(m, n, dtype=dtype, generator=g)
            a.view(-1)[torch.randperm(m * n, generator=g)[:count]] = value
            yield a


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [INF, -INF])
def test_singular_values_of_infinite_matrices_are_nan(value, dtype):
    for a in matrices(value, dtype):
        assert torch.linalg.svdvals(a).isnan().all()
        for full in (False, True):
            u, s, vh = torch.linalg.svd(a, full_matrices=full)
            assert u.isnan().all() and s.isnan().all() and vh.isnan().all()
        assert torch.linalg.matrix_norm(a, "nuc").isnan()


@pytest.mark.parametrize("dtype", DTYPES)
def test_nan_has_no_singular_values(dtype):
    for a in matrices(NAN, dtype):
        with pytest.raises(torch.linalg.LinAlgError, match="linalg.svd: The algorithm failed to converge because the "
                                                           "input matrix contained non-finite values"):
            torch.linalg.svdvals(a)
    batch = torch.ones(2, 3, 3, dtype=dtype)
    batch[1, 2, 0] = NAN
    with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 1\)"):
        torch.linalg.svd(batch)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("value", [INF, NAN])
@pytest.mark.parametrize("dtype", DTYPES)
def test_least_squares_refuse_nonfinite_elements(value, driver, dtype):
    for a in matrices(value, dtype):
        with pytest.raises(torch.linalg.LinAlgError, match="linalg.lstsq: .*non-finite values"):
            torch.linalg.lstsq(a, torch.ones(a.size(0), 1, dtype=a.dtype), driver=driver)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [INF, NAN])
def test_eigenvalues_of_nonfinite_matrices(value, dtype):
    for a in matrices(value, dtype):
        if a.size(0) != a.size(1):
            continue
        with pytest.raises(RuntimeError, match="torch.linalg.eig: input tensor should not contain infs or NaNs"):
            torch.linalg.eig(a)
        if value == INF:
            assert torch.linalg.eigvals(a).isnan().all()
        else:
            with pytest.raises(torch.linalg.LinAlgError, match="non-finite values"):
                torch.linalg.eigvals(a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_largest_finite_numbers_have_singular_values(dtype):
    most = torch.finfo(dtype).max / 8
    s = torch.linalg.svdvals(torch.eye(3, dtype=dtype) * most)
    assert torch.allclose(s / most, torch.ones(3, dtype=s.dtype))


def test_a_singular_matrix_and_its_factors():
    a = torch.ones(2, 2)
    with pytest.raises(RuntimeError, match=r"torch.linalg.lu_factor: U\[2,2\] is zero") as raised:
        torch.linalg.lu_factor(a)
    assert raised.type is RuntimeError
    assert torch.lu(a)[0].tolist() == [[1, 1], [1, 0]] and a.lu()[1].tolist() == [1, 2]
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.inv(a)
