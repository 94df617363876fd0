"""Scripts make sparse tensors of parts, as torch 2.13 does."""
import io
from typing import List

import pytest

import cresset as torch
from cresset import Tensor


def coo(indices: Tensor, values: Tensor):
    return torch.sparse_coo_tensor(indices, values)


def coo_sized(indices: Tensor, values: Tensor, size: List[int]):
    return torch.sparse_coo_tensor(indices, values, size)


def coo_named(indices: Tensor, values: Tensor, size: List[int]):
    return torch.sparse_coo_tensor(indices=indices, values=values, size=size, dtype=torch.float32,
                                   device=values.device, is_coalesced=True)


def csr(a: Tensor, b: Tensor, values: Tensor, size: List[int]):
    return torch.sparse_csr_tensor(crow_indices=a, col_indices=b, values=values, size=size, device=values.device)


def csc(a: Tensor, b: Tensor, values: Tensor, size: List[int]):
    return torch.sparse_csc_tensor(ccol_indices=a, row_indices=b, values=values, size=size, dtype=torch.float32)


def bsr(a: Tensor, b: Tensor, values: Tensor, size: List[int]):
    return torch.sparse_bsr_tensor(a, b, values, size)


def bsc(a: Tensor, b: Tensor, values: Tensor, size: List[int]):
    return torch.sparse_bsc_tensor(a, b, values, size)


def compressed(a: Tensor, b: Tensor, values: Tensor, size: List[int]):
    return torch.sparse_compressed_tensor(a, b, values, size, layout=torch.sparse_csr)


def compressed_without_layout(a: Tensor, b: Tensor, values: Tensor, size: List[int]):
    return torch.sparse_compressed_tensor(a, b, values, size)


def again(fn):
    """The scripted function, and the one that a file of it gives."""
    scripted = torch.jit.script(fn)
    file = io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    return scripted, torch.jit.load(file)


def same(got, want):
    assert got.layout == want.layout and got.dtype == want.dtype and got.shape == want.shape
    assert torch.equal(got.to_dense(), want.to_dense())
    if got.layout == torch.sparse_coo:
        assert got.is_coalesced() == want.is_coalesced()


INDICES = torch.tensor([[0, 0, 2], [1, 2, 0]])
VALUES = torch.tensor([1., -2., 3.])


@pytest.mark.parametrize("fn, size", [(coo, None), (coo_sized, [4, 3]), (coo_named, [3, 5])], ids=["plain", "sized", "named"])
def test_coo(fn, size):
    args = [INDICES, VALUES] + ([] if size is None else [size])
    dense = torch.zeros(size or [3, 3])
    for i, j, v in zip(*INDICES.tolist(), VALUES.tolist()):
        dense[i, j] = v
    for run in again(fn):
        same(run(*args), fn(*args))
        assert torch.equal(run(*args).to_dense(), dense)


@pytest.mark.parametrize("fn", [csr, csc, bsr, bsc, compressed], ids=lambda fn: fn.__name__)
def test_compressed(fn):
    blocks = fn in (bsr, bsc)
    args = (torch.tensor([0, 1, 3]), torch.tensor([1, 0, 1]),
            torch.arange(1., 13.).reshape(3, 2, 2) if blocks else VALUES, [4, 4] if blocks else [2, 2])
    for run in again(fn):
        same(run(*args), fn(*args))


def test_gradients_reach_the_values():
    values = VALUES.clone().requires_grad_()
    (torch.jit.script(coo_sized)(INDICES, values, [3, 3]).to_dense() * torch.arange(9.).reshape(3, 3)).sum().backward()
    assert values.grad.tolist() == [1., 2., 6.]


def test_parts_that_do_not_fit_raise_as_in_a_plain_call():
    args = (INDICES[:, :2], VALUES, [3, 3])
    with pytest.raises(RuntimeError) as plain:
        coo_sized(*args).coalesce().to_dense()
    with pytest.raises(RuntimeError) as scripted:
        torch.jit.script(coo_sized)(*args).coalesce().to_dense()
    assert str(plain.value).splitlines()[0] in str(scripted.value)


def test_a_layout_is_needed():
    with pytest.raises((RuntimeError, torch.jit.Error), match="expected sparse compressed tensor layout but got none"):
        torch.jit.script(compressed_without_layout)(torch.tensor([0, 1]), torch.tensor([0]), VALUES[:1], [1, 1])


def is_csc(x: Tensor):
    return x.layout == torch.sparse_csc


def to_csc(x: Tensor):
    return x.to_sparse(layout=torch.sparse_csc)


def number(x: Tensor):
    return str(x.layout)


# Torch 2.13's numbers of layouts in scripts; 3 is that of oneDNN's blocked tensors.
NUMBERS = {"strided": 0, "sparse_coo": 1, "sparse_csr": 2, "sparse_csc": 4, "sparse_bsr": 5, "sparse_bsc": 6}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_layouts_are_those_of_torch(name):
    x = torch.eye(4)
    if name != "strided":
        x = x.to_sparse(layout=getattr(torch, name), blocksize=(2, 2) if "_bs" in name else None)
    assert torch.jit.script(number)(x) == str(NUMBERS[name])
    assert torch.jit.script(is_csc)(x) == (name == "sparse_csc")


def test_conversions_to_a_layout():
    for run in again(to_csc):
        same(run(torch.eye(3)), torch.eye(3).to_sparse_csc())


def _product(s, x):
    return torch.sparse.mm(s, x)


def _largest(s, x):
    return torch.sparse.mm(s.to_sparse_csr(), x, "amax")


def _sum_of_products(s, x):
    return torch.sparse.addmm(x, s, x, beta=2, alpha=3)


def _shares(s, x):
    return torch.sparse.softmax(s, 1)


def _logarithms_of_shares(s, x):
    return torch.sparse.log_softmax(s, 1)


def _sampled(s, x):
    return torch.sparse.sampled_addmm(s.to_sparse_csr(), x, x, alpha=2.0)


FUNCTIONS = {  # with the results for s = [[1, 0], [0, 2]] and x = [[1, 2], [3, 4]]
    _product: [[1, 2], [6, 8]], _largest: [[1, 2], [6, 8]], _sum_of_products: [[5, 10], [24, 32]], _shares: [[1, 0], [0, 1]],
    _logarithms_of_shares: [[0, 0], [0, 0]], _sampled: [[15, 0], [0, 46]]}


@pytest.mark.parametrize("fn, want", FUNCTIONS.items(), ids=lambda x: getattr(x, "__name__", ""))
def test_functions_of_torch_sparse_are_operators_of_programs(fn, want):
    s, x = torch.tensor([[1.0, 0.0], [0.0, 2.0]]).to_sparse(), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    compiled = torch.jit.script(fn)
    got = compiled(s, x)
    assert (got.to_dense() if got.layout != torch.strided else got).tolist() == want
    assert "sparse" in compiled.code and "__torch__" not in compiled.code
