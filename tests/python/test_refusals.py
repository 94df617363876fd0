"""Arguments that do not fit together are refused before anything is read, in torch's words."""
import pytest

import cresset as torch
import cresset.nn.functional as F


def ints(*size):
    return torch.ones(size, dtype=torch.int32)


def bag(*weights_shape, dtype=torch.float32):
    return lambda: F.embedding_bag(torch.zeros(5, 5, dtype=torch.int64), torch.rand(10, 5), mode="sum",
                                   per_sample_weights=torch.ones(weights_shape, dtype=dtype))


def solve(pivots, *batch):
    return lambda: torch.linalg.ldl_solve(torch.rand(*batch, 5, 5), pivots, torch.rand(*batch, 5, 3))


def scatter(src, size, stride):
    return lambda: torch.as_strided_scatter(torch.rand(6), torch.rand(src), size, stride)


def reflect(tau, other, dtype=torch.float32):
    return lambda: torch.ormqr(torch.rand(2, 5, 3), torch.rand(tau), torch.rand(other, dtype=dtype))


def contract(a, b, *dims):
    return lambda: torch.tensordot(torch.rand(a), torch.rand(b), dims=dims)


REFUSED = [
    (contract((2, 4, 2), (), [0], [-1]), IndexError, "Dimension specified as -1 but tensor has no dimensions"),
    (contract((), (2,), [0], [0]), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
    (scatter((2, 2), (2, 2), (-1, 2)), RuntimeError,
     "as_strided: Negative strides are not supported at the moment, got strides: [-1, 2]"),
    (scatter((2, 2), (2, 2), (4, 2)), RuntimeError,
     "setStorage: sizes [2, 2], strides [4, 2], storage offset 0, and itemsize 4 requiring a storage size of 28 are out of "
     "bounds for storage of size 24"),
    (scatter((2, 2), (2, 2), (2**62, 2**62)), RuntimeError,
     f"Storage size calculation overflowed with sizes=[2, 2] and strides=[{2**62}, {2**62}]"),
    (scatter((1,) * 60, (1,) * 65, (1,) * 65), RuntimeError, "as_strided_scatter: a slice has at most 64 dimensions, not 65"),
    (reflect((2, 3), (2, 5, 4), torch.float64), RuntimeError,
     "torch.ormqr: Expected input and other to have the same dtype, but input has dtypeFloat and other has dtype Double"),
    (reflect((2, 3), (5, 4)), RuntimeError,
     "torch.ormqr: Expected other to have the same number of dimensions as input, but got other.ndim equal to 2 and "
     "input.ndim is equal to 3"),
    (reflect((2, 3), (3, 5, 4)), RuntimeError,
     "torch.ormqr: Expected batch dimensions of other to be equal to input.shape[:-2], but got [3]"),
    (reflect((3, 3), (2, 5, 4)), RuntimeError,
     "torch.ormqr: Expected batch dimensions of tau to be equal to input.shape[:-2], but got [3]"),
    (lambda: torch.linalg.householder_product(torch.rand(2, 5, 3), torch.rand(3, 3)), RuntimeError,
     "torch.linalg.householder_product: Expected batch dimensions of tau to be equal to input.shape[:-2], but got [3]"),
    (reflect((2, 2), (2, 5, 4)), RuntimeError,
     "torch.ormqr: tau.shape[-1] must be equal to min(other.shape[-2], input.shape[-1])"),
    (solve(ints(2, 4), 2), RuntimeError,
     "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape [2, 4] instead"),
    (solve(ints(5), 2), RuntimeError,
     "torch.linalg.ldl_solve: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape [5] instead"),
    (solve(torch.ones(5)), RuntimeError, "torch.linalg.ldl_solve: Expected pivots to be integers. Got Float"),
    (solve(ints(5) * 77), RuntimeError, "linalg.ldl_solve: pivots are expected to be between 1 and 5, but 77 was given. "
                                        "Did you properly pass the result of the factorization?"),
    # an odd number of rows is no number of blocks; one negative row is half of one
    (solve(ints(5) * -3), RuntimeError, "linalg.ldl_solve: the pivots of a block of two rows are expected to be negative, "
                                        "both of them. Did you properly pass the result of the factorization?"),
    (solve(torch.tensor([1, -2, 3, 4, 5])), RuntimeError,
     "linalg.ldl_solve: the pivots of a block of two rows are expected to be negative, both of them. "
     "Did you properly pass the result of the factorization?"),
    (bag(5, 5, dtype=torch.int32), RuntimeError,
     "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but type "
     "torch.FloatTensor does not equal torch.IntTensor (while checking arguments for embedding_bag)"),
    (bag(5, 5, dtype=torch.float64), RuntimeError,
     "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but type "
     "torch.FloatTensor does not equal torch.DoubleTensor (while checking arguments for embedding_bag)"),
    (lambda: torch.embedding_bag(torch.rand(10, 5), torch.zeros(25, dtype=torch.int64), torch.tensor([0, 5]),
                                 per_sample_weights=torch.ones(24)), RuntimeError,
     "Expected per_sample_weights.value().numel() == indices.numel() to be true, but got false.  (Could this error message be "
     "improved?  If so, please report an enhancement request to PyTorch.)")]


@pytest.mark.parametrize("call,cls,text", REFUSED)
def test_what_does_not_fit_is_refused(call, cls, text):
    with pytest.raises(cls) as raised:
        call()
    assert str(raised.value) == text


def test_pivots_of_any_integers_and_layouts_solve():
    torch.manual_seed(0)
    a, b = torch.randn(3, 6, 6, dtype=torch.float64), torch.randn(3, 6, 2, dtype=torch.float64)
    a = a + a.mT
    ld, pivots = torch.linalg.ldl_factor(a)
    assert (pivots < 0).any() and (pivots > 0).any()
    for given in (pivots, pivots.long(), pivots.mT.contiguous().mT):
        assert torch.allclose(a @ torch.linalg.ldl_solve(ld, given, b), b)
