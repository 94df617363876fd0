"""repeat_interleave's output_size: results and refusals as recorded with torch 2.13."""
import pytest

import cresset as torch

X = torch.arange(6.0).view(2, 3)
NONE = torch.zeros(0, dtype=torch.int64)
repeat = torch.repeat_interleave

NUMBERS = [((X, 2), dict(dim=1, output_size=5), "expected 6 but got 5"), ((X, 2), dict(output_size=11), "expected 12 but got 11"),
           ((X, 0), dict(dim=1, output_size=1), "expected 0 but got 1"), ((X, 2), dict(dim=1, output_size=-1), "expected 6 but got -1"),
           ((X[:0], 2), dict(dim=0, output_size=1), "expected 0 but got 1"), ((X[:0], 2), dict(output_size=3), "expected 0 but got 3"),
           ((torch.tensor(3.0), 2), dict(output_size=-1), "expected 2 but got -1")]


@pytest.mark.parametrize("given, named, text", NUMBERS)
def test_a_number_of_repeats_checks_the_size(given, named, text):
    call = lambda: repeat(*given, **named)  # noqa: E731
    compiled = torch.compile(call)
    for f in (call, lambda: given[0].repeat_interleave(given[1], **named), compiled, compiled):
        with pytest.raises(RuntimeError, match=f"repeat_interleave: Invalid output_size, {text}"):
            f()


def test_a_number_of_repeats_takes_the_right_size():
    assert repeat(X, 2, dim=1, output_size=6).tolist() == [[0, 0, 1, 1, 2, 2], [3, 3, 4, 4, 5, 5]]
    assert repeat(X, 2, output_size=12).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert repeat(X, 0, dim=1, output_size=0).shape == (2, 0)
    with pytest.raises(RuntimeError, match="Repeats must be non-negative"):
        repeat(X, -2, dim=1, output_size=5)
    x = X.clone().requires_grad_()
    repeat(x, 3, dim=0, output_size=6).sum().backward()
    assert x.grad.eq(3).all()


COUNTS = [((torch.tensor([1, 2]),), dict(output_size=-1), "[-1]"), ((torch.tensor([1, -2]),), dict(output_size=-1), "[-1]"),
          ((X, torch.tensor([1, 2])), dict(dim=0, output_size=-2), "[-2]"), ((X, torch.tensor([2])), dict(dim=0, output_size=-5), "[-5]")]


@pytest.mark.parametrize("given, named, text", COUNTS)
def test_a_negative_size_is_refused(given, named, text):
    with pytest.raises(RuntimeError) as found:
        repeat(*given, **named)
    assert str(found.value).endswith(f"Trying to create tensor with negative dimension {text[1:-1]}: {text}")


@pytest.mark.parametrize("size", (0, 2, -1))
def test_without_elements_the_size_is_not_read(size):
    assert repeat(NONE, output_size=size).shape == (0,)
    assert repeat(X[:0], NONE, dim=0, output_size=size).shape == repeat(X[:0], torch.tensor([2]), dim=0, output_size=size).shape == (0, 3)
