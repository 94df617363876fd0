"""Programs that differentiate, seed and convert: operators without an entry in the table."""
import io

import pytest

import cresset as torch
from cresset import Tensor
from typing import List, Optional, Tuple


def same(a, b):
    assert a.dtype == b.dtype and a.tolist() == b.tolist()


def saved(f):
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(f), file)
    file.seek(0)
    return torch.jit.load(file)


def both(f):
    return [torch.jit.script(f), saved(f)]


def power(x: Tensor, n: int) -> Tuple[Optional[Tensor], bool]:
    y = x
    for _ in range(n - 1):
        y = y * x
    y.retain_grad()
    y.sum().backward()
    return x.grad, y.retains_grad


def test_backward_adds_to_the_leaves():
    for f in both(power):
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        for times in (1, 2):
            grad, retains = f(x, 3)
            same(grad, torch.tensor([12.0, 27.0]) * times)
            assert retains
    assert "torch.autograd.backward(torch.sum(y" in torch.jit.script(power).code


def slopes(x: Tensor, y: Tensor, unused: bool) -> List[Optional[Tensor]]:
    ends = [(x * x).sum(), x.sum() * 2]
    given: List[Optional[Tensor]] = [None, torch.tensor(3.0)]
    return torch.autograd.grad(ends, [x, y], given, allow_unused=unused)


def second(x: Tensor) -> Tensor:
    first = torch.autograd.grad([(x ** 3).sum()], [x], create_graph=True)[0]
    assert first is not None
    then = torch.autograd.grad([first.sum()], [x])[0]
    assert then is not None
    return then


def test_grad_gives_gradients_of_several_ends():
    for f in both(slopes):
        x, y = (torch.tensor([2.0, 3.0], requires_grad=True) for _ in range(2))
        given = f(x, y, True)
        same(given[0], torch.tensor([10.0, 12.0]))
        assert given[1] is None and x.grad is None
        with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
            f(x, y, False)
    for f in both(second):
        same(f(torch.tensor([2.0, 3.0], requires_grad=True)), torch.tensor([12.0, 18.0]))


def test_gradients_that_do_not_fit_are_refused():
    def wrong(x: Tensor) -> List[Optional[Tensor]]:
        given: List[Optional[Tensor]] = [torch.tensor(1.0), torch.tensor(1.0)]
        return torch.autograd.grad([x.sum()], [x], given)
    with pytest.raises(RuntimeError, match="got 1 tensors and 2 gradients"):
        torch.jit.script(wrong)(torch.ones(2, requires_grad=True))


def drawn(seed: int) -> Tensor:
    torch.manual_seed(seed)
    return torch.rand(3)


def test_a_program_seeds_the_generator():
    for f in both(drawn):
        torch.manual_seed(5)
        want = torch.rand(3)
        same(f(5), want)
        assert f(6).tolist() != want.tolist()


def converted(x: Tensor, l: List[int]) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return torch.as_tensor(x), torch.as_tensor(x, dtype=torch.int64), torch.as_tensor(l), torch.as_tensor(2.5), \
        torch.as_tensor(True, dtype=torch.float64)


def test_as_tensor_keeps_a_tensor_that_fits():
    for f in both(converted):
        x = torch.tensor([1.5, -2.5])
        kept, *others = f(x, [1, 2])
        assert kept.data_ptr() == x.data_ptr()
        for got, want in zip(others, (torch.tensor([1, -2]), torch.tensor([1, 2]), torch.tensor(2.5),
                                      torch.tensor(1.0, dtype=torch.float64))):
            same(got, want)


def kinds(x: Tensor) -> Tuple[bool, bool]:
    return x.is_sparse, x.is_sparse_csr


def bytes_of(x: Tensor) -> int:
    return x.nbytes


def test_layouts_and_sizes_are_told():
    f, x = torch.jit.script(kinds), torch.eye(3)
    assert f(x) == (False, False) and f(x.to_sparse()) == (True, False) and f(x.to_sparse_csr()) == (False, True)
    assert torch.jit.script(bytes_of)(x) == 36


def spread(x: Tensor, n: int) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    return x.std(), x.std(0, keepdim=True), x.var(0, correction=n), torch.std_mean(x, unbiased=False)[0]


def test_deviations_are_the_overloads_of_torch():
    f = torch.jit.script(spread)
    for line in ("torch.std(x)\n", "torch.std(x, [0], True, True)", "torch.var(x, [0], correction=n)", "torch.std_mean(x, False)"):
        assert line in f.code, f.code
    x = torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    for got, want in zip(f(x, 0), (x.std(), x.std(0, keepdim=True), x.var(0, correction=0), x.std(unbiased=False))):
        same(got, want)
