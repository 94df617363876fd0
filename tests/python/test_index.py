"""Indexing and assignment."""
import numpy

import cresset as torch
import pytest


def grid():
    return torch.arange(24).reshape(2, 3, 4)


@pytest.mark.parametrize("index,shape", [
    (0, (3, 4)), (-1, (3, 4)), ((0, 1), (4,)), ((0, 1, 2), ()), (slice(1), (1, 3, 4)),
    ((slice(None), 1), (2, 4)), (None, (1, 2, 3, 4)), (Ellipsis, (2, 3, 4)), ((Ellipsis, 0), (2, 3)),
    ((0, Ellipsis, None), (3, 4, 1)), ((None, 0, None), (1, 1, 3, 4)), ((), (2, 3, 4)),
    ((slice(None), slice(0, 3, 2)), (2, 2, 4)), (True, (1, 2, 3, 4)), (False, (0, 2, 3, 4))])
def test_basic_indices(index, shape):
    assert grid()[index].shape == shape


def test_basic_indices_are_views():
    x = grid()
    x[0, 1:, ::2] += 100
    assert x[0, 1, 0] == 104 and x[0, 1, 1] == 5 and x[0, 0, 0] == 0
    assert x[...].data_ptr() == x.data_ptr()


@pytest.mark.parametrize("index,shape", [
    ([0, 1], (2, 3, 4)), ([], (0, 3, 4)), ([True, False], (1, 3, 4)), (range(2), (2, 3, 4)),
    (([0, 1], [0, 2]), (2, 4)), ((slice(None), [0, 2]), (2, 2, 4)), ((0, [0, 2]), (2, 4)),
    (([0], slice(None), [0]), (1, 3)), ((slice(None), None, [0, 1]), (2, 1, 2, 4))])
def test_lists_pick_elements(index, shape):
    assert grid()[index].shape == shape


def test_tensors_pick_elements():
    x = grid()
    at = torch.tensor([[0, 1], [1, 0]])
    assert x[at].shape == (2, 2, 3, 4) and x[:, at].shape == (2, 2, 2, 4)
    assert x[torch.tensor(1)].shape == (3, 4)
    assert x[torch.tensor([1]), torch.tensor([2]), torch.tensor([3])].tolist() == [23]
    assert x[at, at].tolist() == [[x[0, 0].tolist(), x[1, 1].tolist()],
                                  [x[1, 1].tolist(), x[0, 0].tolist()]]


def test_masks():
    x = grid()
    assert x[x > 20].tolist() == [21, 22, 23]
    mask = torch.ones(2, 3, dtype=torch.bool)
    assert x[mask].shape == (6, 4) and x[mask, 1:].shape == (6, 3) and x[mask, 0].shape == (6,)
    assert x[:, mask[0], 1:].shape == (2, 3, 3) and x[None, mask, 1].shape == (1, 6)
    assert x[torch.tensor(True)].shape == (1, 2, 3, 4)


@pytest.mark.parametrize("index,cls,text", [
    ((0, 0, 0, 0), IndexError, "too many indices for tensor of dimension 3"),
    (2, IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
    ((0, 3), IndexError, "index 3 is out of bounds for dimension 1 with size 3"),
    ((slice(None), -4), IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
    (1.5, IndexError, r"only integers, slices \(`:`\), ellipsis \(`...`\), None and long or byte "
                      r"Variables are valid indices \(got float\)"),
    (slice(None, None, -1), ValueError, "step must be greater than zero"),
    (slice(None, None, 0), ValueError, "slice step cannot be zero")])
def test_wrong_indices(index, cls, text):
    with pytest.raises(cls, match=text):
        grid()[index]


def test_zero_dimensions():
    x = torch.tensor(5.0)
    assert x[...].shape == () and x[None].shape == (1,) and x[()].shape == ()
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor. Use `tensor.item"):
        x[0]
    with pytest.raises(IndexError, match="slice.. cannot be applied to a 0-dim tensor."):
        x[:]


def test_assignment_to_views():
    x = torch.zeros(2, 3)
    x[0] = 1
    x[:, 2] = torch.tensor([5.0, 6.0])
    x[1, :2] = torch.tensor(7)
    assert x.tolist() == [[1.0, 1.0, 5.0], [7.0, 7.0, 6.0]]
    x[...] = 0
    x[None] = torch.ones(1, 1, 2, 3)
    assert x.sum() == 6
    x[False] = 9
    assert x.sum() == 6
    x[True] = 2
    assert x.sum() == 12


def test_assignment_through_indices():
    x = torch.zeros(2, 3)
    x[x == 0] = torch.arange(6.0)
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    x[[0, 1], [0, 2]] = torch.tensor([9.0, 8.0])
    assert x[0, 0] == 9 and x[1, 2] == 8
    x[:, [0, 1]] = 0
    assert x.sum() == 10
    x[x > 1] = -1
    assert x.min() == -1


def test_wrong_assignments():
    x = torch.zeros(2, 3)
    with pytest.raises(TypeError, match="can't assign a list to a torch.FloatTensor"):
        x[0] = [1, 2, 3]
    with pytest.raises(TypeError, match="Tensor does not support deleting items"):
        del x[0]
    with pytest.raises(IndexError, match="index 5 is out of bounds for dimension 0 with size 2"):
        x[5] = 1
    with pytest.raises(RuntimeError):
        x[0] = torch.ones(2)


def test_gradients_through_indices():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    (x[0] * 2).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3, [0.0] * 3]
    x.grad = None
    x[[0, 0], [1, 1]].sum().backward()
    assert x.grad.tolist() == [[0.0, 2.0, 0.0], [0.0] * 3]
    y = torch.zeros(3)
    w = torch.tensor(2.0, requires_grad=True)
    y[1] = w
    (y * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert w.grad == 10 and y.requires_grad


@pytest.mark.parametrize("sizes", [(), (0,), (7,), (3, 4), (2, 3, 0), (2, 3, 5)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_nonzero_static(sizes, dtype):
    x = (torch.arange(torch.Size(sizes).numel()).reshape(sizes) % 3).to(dtype)
    for y in (x, x.movedim(0, -1) if sizes else x):
        want = numpy.argwhere(y.numpy()) if sizes else numpy.empty((1, 0), dtype=int)
        for size in (0, 1, len(want), len(want) + 3):
            rows = want.tolist()[:size]
            rows += [[-5] * len(sizes)] * (size - len(rows))
            for call in (torch.nonzero_static, torch.compile(torch.nonzero_static)):
                made = call(y, size=size, fill_value=-5)
                assert made.tolist() == rows and made.shape == (size, len(sizes)) and made.dtype == torch.int64 and made.is_contiguous()
            assert torch.nonzero_static(y.to("meta"), size=size).shape == made.shape
    with pytest.raises(RuntimeError, match="Expected out tensor to have scalar type Long but got scalar typeFloat"):
        torch.nonzero_static(x, size=2, out=torch.empty(2, len(sizes)))
