"""Extremes with their indices inside of compiled functions: the bits of eager."""
import cresset as torch
import pytest


def numbers(*sizes):
    return torch.randint(-5, 6, sizes, generator=torch.Generator().manual_seed(3)).to(torch.float32)


def same(function, *args):
    compiled = torch.compile(function)
    want, first = leaves(function(*args)), leaves(compiled(*args))
    for entry in compiled._entries:
        entry.runner.wait(60.0)  # for native code
    for have in first, leaves(compiled(*args)):
        assert len(want) == len(have)
        for a, b in zip(want, have):
            assert a.dtype == b.dtype and torch.equal(a, b)


def leaves(result):
    return tuple(result) if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("columns", [1, 7, 16, 64, 65, 1500])
def test_a_row_has_its_extreme_index_and_sum(columns):
    x = numbers(300, columns)
    x[3, columns // 2] = float("nan")
    x = x.nan_to_num(nan=9.0)

    def rows(x):
        y = x * 2 + 1
        values, indices = y.max(1)
        return values, indices, y.argmin(-1), y.sum(1), y.amax(1, keepdim=True)

    same(rows, x)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_any_dim(dim):
    same(lambda x: (x * 3).max(dim), numbers(20, 30, 40))
    same(lambda x: (x - 1).argmin(dim), numbers(20, 30, 40))


def test_the_extremes_of_a_value_that_is_also_a_result():
    """The index is found in a second pass: the result must not have replaced what this pass reads."""

    def both(x):
        y = x * 2
        z = y + 1
        return z, z.argmax(1), z.min(1)[0]

    same(both, numbers(50, 3000))


def test_an_index_as_a_value():
    same(lambda x: (x.argmax(1) + 1, x.argmax(1, keepdim=True) * 2.5), numbers(30, 100))
    same(lambda x: torch.arange(100) == x.argmax(1, keepdim=True), numbers(30, 100))


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.int32, torch.uint8, torch.bfloat16, torch.float16])
def test_dtypes(dtype):
    x = numbers(40, 50).abs().to(dtype)
    same(lambda x: (x + x).max(1), x)
    same(lambda x: (x + x).max(0), x)


def test_nearest_centroids():
    x, c = torch.randn(1000, 8), torch.randn(16, 8)
    same(lambda x, c: ((x * x).sum(1, keepdim=True) - 2 * (x @ c.t()) + (c * c).sum(1)).min(1), x, c)


def test_derivative_of_the_largest():
    def loss(x):
        return (x * x).max(1)[0].sum()

    x = torch.randn(20, 30, requires_grad=True)
    loss(x).backward()
    want, x.grad = x.grad, None
    torch.compile(loss)(x).backward()
    assert torch.equal(want, x.grad)
