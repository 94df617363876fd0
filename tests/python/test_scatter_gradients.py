"""Gradients of scatters whose index is smaller than their source: elements that are not read get zero."""
import pytest

import cresset as torch
from cresset.autograd import gradcheck, gradgradcheck

INDEX = torch.tensor([[0, 1, 1], [2, 0, 0]])
CALLS = {"scatter": lambda a, b: a.scatter(1, torch.tensor([[0, 1, 3], [2, 0, 1]]), b),
         "scatter_add": lambda a, b: a.scatter_add(0, INDEX, b)}
for _reduce in ("sum", "prod", "mean", "amax", "amin"):
    for _self in (True, False):
        CALLS[f"{_reduce} {_self}"] = lambda a, b, reduce=_reduce, own=_self: a.scatter_reduce(0, INDEX, b, reduce, include_self=own)


@pytest.mark.parametrize("name", CALLS)
def test_gradients(name):
    torch.manual_seed(0)
    a = (torch.rand(3, 4, dtype=torch.float64) + 0.5).requires_grad_()
    b = (torch.rand(4, 5, dtype=torch.float64) + 0.5).requires_grad_()
    assert gradcheck(CALLS[name], (a, b)) and gradgradcheck(CALLS[name], (a, b))
    CALLS[name](a, b).sum().backward()
    assert b.grad[2:].count_nonzero() == 0 and b.grad[:, 3:].count_nonzero() == 0
