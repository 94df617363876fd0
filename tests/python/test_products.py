"""float32 matrix products: bits that depend neither on other rows nor on layouts, and errors of long sums."""
import pytest

import cresset as torch


@pytest.mark.parametrize("k", [7, 64, 256, 300, 1000])
@pytest.mark.parametrize("n", [5, 16, 33, 200])
def test_rows_have_the_same_bits_in_every_product(n, k):
    torch.manual_seed(0)
    a, b = torch.randn(400, k), torch.randn(k, n)
    columns = b.t().contiguous().t()
    whole = a @ b
    for m in (9, 33, 257):
        if m * n * k > 2048:
            for x in (a[:m], a[:m].t().contiguous().t(), torch.nn.functional.pad(a, (3, 2))[:m, 3:-2]):
                assert torch.equal(x @ b, whole[:m]), m
                assert torch.equal(x @ columns, whole[:m]), m
                assert torch.equal(torch.addmm(torch.zeros(n), x, b), whole[:m]), m


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_do_not_depend_on_threads(threads):
    torch.manual_seed(0)
    a, b, v = torch.randn(130, 700), torch.randn(700, 530), torch.randn(700)
    products = lambda: (a @ b, a[:3] @ b, b.t() @ v, a.t()[:, :7].contiguous() @ a[:7])
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = products()
        torch.set_num_threads(threads)
        assert all(torch.equal(x, y) for x, y in zip(alone, products()))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (2, 5), (9, 2)])
@pytest.mark.parametrize("turned", [False, True])
def test_the_error_of_a_sum_does_not_grow_with_its_length(shape, turned):
    """Positive numbers: the relative error of a sum of n numbers may reach n times half a unit."""
    m, n = shape
    k = 3_000_000
    a, b = torch.rand(m, k), torch.rand(n, k).t() if turned else torch.rand(k, n)
    exact = a.double() @ b.double()
    assert ((a @ b).double() / exact - 1).abs().max().item() < 3e-6
