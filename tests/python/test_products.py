"""Matrix products of float32 and float64: bits that depend neither on other rows, layouts nor threads, and errors of
long sums."""
import pytest

import cresset as torch


both_types = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


@both_types
@pytest.mark.parametrize("k", [7, 64, 256, 300, 1000])
@pytest.mark.parametrize("n", [5, 16, 33, 200])
def test_rows_have_the_same_bits_in_every_product(n, k, dtype):
    torch.manual_seed(0)
    a, b = torch.randn(400, k, dtype=dtype), torch.randn(k, n, dtype=dtype)
    columns = b.t().contiguous().t()
    whole = a @ b
    for m in (9, 33, 257):
        if m * n * k > 2048:
            for x in (a[:m], a[:m].t().contiguous().t(), torch.nn.functional.pad(a, (3, 2))[:m, 3:-2]):
                assert torch.equal(x @ b, whole[:m]), m
                assert torch.equal(x @ columns, whole[:m]), m
                assert torch.equal(torch.addmm(torch.zeros(n, dtype=dtype), x, b), whole[:m]), m


@both_types
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_results_do_not_depend_on_threads(threads, dtype):
    torch.manual_seed(0)
    a, b, v = (torch.randn(*size, dtype=dtype) for size in ((130, 700), (700, 530), (700,)))
    long, few = torch.randn(70_000, 12, dtype=dtype), torch.randn(70_000, 3, dtype=dtype)
    products = lambda: (a @ b, a[:3] @ b, b.t() @ v, a.t()[:, :7].contiguous() @ a[:7], long.t() @ long, few.t() @ few[:, :2],
                        few.t() @ long, long.t() @ few[:, 0], torch.addmm(torch.ones(3), few.t(), few, beta=0.5, alpha=2)
                        if dtype == torch.float32 else few[:, 0] @ long)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = products()
        torch.set_num_threads(threads)
        assert all(torch.equal(x, y) for x, y in zip(alone, products()))
    finally:
        torch.set_num_threads(before)


@both_types
def test_long_sums_of_few_results_are_right(dtype):
    """Exact numbers: any order of a sum has one result."""
    torch.manual_seed(0)
    for k in (8191, 8192, 16_385, 40_000):
        for m, n in ((1, 1), (3, 2), (8, 4), (8, 9), (2, 40), (20, 3)):
            a, b = (torch.randint(-4, 5, size).to(dtype) for size in ((k, m), (k, n)))
            exact = (a.t().unsqueeze(2).long() * b.unsqueeze(0).long()).sum(1)
            for x in (a.t(), a.t().contiguous()):
                for y in (b, b.t().contiguous().t(), torch.nn.functional.pad(b, (1, 1))[:, 1:-1]):
                    assert torch.equal((x @ y).long(), exact)
                    assert torch.equal(torch.addmm(exact.to(dtype), x, y, beta=2, alpha=-1).long(), exact)


@pytest.mark.parametrize("shape", [(1, 1), (1, 3), (3, 1), (2, 5), (9, 2)])
@pytest.mark.parametrize("turned", [False, True])
def test_the_error_of_a_sum_does_not_grow_with_its_length(shape, turned):
    """Positive numbers: the relative error of a sum of n numbers may reach n times half a unit."""
    m, n = shape
    k = 3_000_000
    a, b = torch.rand(m, k), torch.rand(n, k).t() if turned else torch.rand(k, n)
    exact = a.double() @ b.double()
    assert ((a @ b).double() / exact - 1).abs().max().item() < 3e-6
