"""svd_lowrank, pca_lowrank, and scans by functions."""
import pytest

import cresset as torch
from cresset._higher_order_ops import associative_scan


def matrix(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("shape", [(9, 4), (4, 9), (2, 6, 5), (3, 3)])
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_a_matrix_of_small_rank_is_found_exactly(shape, dtype):
    A = matrix(*shape[:-1], 2).to(dtype) @ matrix(*shape[:-2], 2, shape[-1]).to(dtype)
    U, S, V = torch.svd_lowrank(A, q=3)
    assert S.shape == (*shape[:-2], 3) and U.shape == (*shape[:-1], 3)
    assert torch.allclose(U @ torch.diag_embed(S).to(dtype) @ V.mH, A, atol=1e-10)
    assert torch.allclose(S[..., :2], torch.linalg.svdvals(A)[..., :2])


def test_numbers_are_those_of_torch():
    torch.manual_seed(0)
    A = torch.randn(5, 3)
    torch.manual_seed(1)
    S = torch.svd_lowrank(A, q=2)[1]
    assert torch.allclose(S, torch.tensor([3.2381510734558105, 1.9953033924102783]))
    torch.manual_seed(1)
    S = torch.pca_lowrank(A)[1]
    assert torch.allclose(S, torch.tensor([2.47558856010437, 1.7859805822372437, 0.8241005539894104]))
    torch.manual_seed(1)
    S = torch.svd_lowrank(A, q=2, M=torch.full((3,), 0.1))[1]
    assert torch.allclose(S, torch.tensor([3.3323922157287598, 1.9825111627578735]))


def test_gradients_pass():
    A = matrix(6, 4).requires_grad_()
    torch.svd_lowrank(A, q=4)[1].sum().backward()
    U, S, Vh = torch.linalg.svd(A.detach(), full_matrices=False)
    assert torch.allclose(A.grad, U @ Vh)


def test_principal_components_are_centered():
    A = matrix(8, 3) + 100
    assert torch.allclose(torch.pca_lowrank(A)[1], torch.linalg.svdvals(A - A.mean(0)))
    assert torch.pca_lowrank(A, center=False)[1][0] > 400
    with pytest.raises(ValueError, match=r"q\(=4\) must be non-negative integer"):
        torch.pca_lowrank(A, q=4)
    with pytest.raises(ValueError, match=r"niter\(=-1\)"):
        torch.pca_lowrank(A, niter=-1)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 16, 33])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scans_equal_cumulative_sums(size, dim):
    x = matrix(size, size, size)
    add = lambda a, b: a + b
    assert torch.allclose(associative_scan(add, x, dim), x.cumsum(dim))
    assert torch.allclose(associative_scan(add, x, dim, reverse=True, combine_mode="generic"),
                          x.flip(dim).cumsum(dim).flip(dim))


def test_scans_of_trees_keep_the_order():
    a, b = matrix(5).sigmoid(), matrix(5)
    got = associative_scan(lambda x, y: {"a": x["a"] * y["a"], "b": y["a"] * x["b"] + y["b"]},
                           {"a": a, "b": b}, 0)
    state = torch.zeros((), dtype=torch.float64)
    for i in range(5):
        state = a[i] * state + b[i]
        assert torch.allclose(got["b"][i], state)


@pytest.mark.parametrize("arguments, message", [
    ((3, torch.ones(2), 0), "Combine_fn must be a callable"),
    ((max, [], 0), "at least 1 xs leaf"), ((max, torch.ones(2), 0, False, "x"), "Combine_mode"),
    ((max, [torch.ones(2), torch.ones(3)], 0), "same size"), ((max, torch.ones(2), 0.5), "Dim must")])
def test_refused_scans(arguments, message):
    with pytest.raises(ValueError, match=message):
        associative_scan(*arguments)


def test_memory_is_pinned_for_a_device_only():
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        torch.ones(1).pin_memory()
