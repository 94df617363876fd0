"""Arguments that do not fit together are refused before anything is read, in torch's words."""
import pytest

import cresset as torch
import cresset.nn.functional as F


MOST = 2**63 - 1


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


def sparse_scalar(name, *arguments):
    return lambda: getattr(torch.tensor(3.).to_sparse(), name)(*arguments)


REFUSED = [
    (lambda: torch.sparse_coo_tensor(torch.tensor([[MOST, 0]]), torch.ones(2)), RuntimeError,
     f"found index {MOST} for dim 0, which no size has"),
    (sparse_scalar("narrow_copy", -1, -2**63 + 1, 0), RuntimeError, "narrow() cannot be applied to a 0-dim tensor."),
    (sparse_scalar("index_select", 0, torch.tensor([0])), IndexError, "index_select() cannot be applied to a 0-dim tensor."),
    (sparse_scalar("select", 0, 0), IndexError, "select() cannot be applied to a 0-dim tensor."),
    (sparse_scalar("unbind"), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
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
    (solve(ints(5) * 77), RuntimeError,
     "Pivots given to ldl_solve must all satisfy |pivot| <= LD.size(-2). Did you properly pass the result of ldl_factor?"),
    (solve(ints(5) * 0), RuntimeError,
     "Pivots given to ldl_solve must all satisfy |pivot| >= 1. Did you properly pass the result of ldl_factor?"),
    (lambda: torch.linalg.lu_solve(torch.eye(3), ints(3) * 0, torch.ones(3, 1)), RuntimeError,
     "Pivots given to lu_solve must all be greater or equal to 1. Did you properly pass the result of lu_factor?"),
    (lambda: torch.linalg.lu_solve(torch.eye(3), ints(3) * 9, torch.ones(3, 1)), RuntimeError,
     "Pivots given to lu_solve must all be smaller or equal to LU.size(-2). Did you properly pass the result of lu_factor?"),
    (lambda: torch.lu_unpack(torch.eye(3), ints(3) * 9), RuntimeError,
     "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive.Did you properly pass the result of lu_factor?"),
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
     "improved?  If so, please report an enhancement request to PyTorch.)"),
    (lambda: torch.embedding_bag(torch.ones(4, 2), torch.tensor([0, 9]), torch.tensor([0])), RuntimeError,
     "Index 1 of input takes value 9 which is not in the valid range [0, 4)"),
    (lambda: torch.embedding_bag(torch.ones(4, 2), torch.tensor([0, -1]), torch.tensor([0]), mode=2), RuntimeError,
     "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be -1"),
    (lambda: torch.embedding_bag(torch.ones(4, 2), torch.tensor([0, 1]), torch.tensor([0, 3])), RuntimeError,
     "offsets[-1] can not be greater than input's length 2 but got offsets[-1] of 3"),
    (lambda: torch.embedding_bag(torch.ones(4), torch.tensor([0, 1]), torch.tensor([0])), RuntimeError,
     "weight has to be a 2D Tensor, but got Tensor of dimension 1"),
    (lambda: torch.embedding_bag(torch.ones(4, 2), torch.tensor([0, 1]), torch.tensor([[0]])), RuntimeError,
     "offsets has to be a 1D Tensor, but got Tensor of dimension 2"),
    (lambda: torch.embedding_bag(torch.ones(4, 2), torch.tensor([0, 1]), torch.tensor([0]), mode=3), RuntimeError,
     "`mode` must be sum, mean, or max."),
    (lambda: torch.embedding_bag(torch.ones(4, 2).long(), torch.tensor([0, 1]), torch.tensor([0])), RuntimeError,
     "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got "
     "torch.LongTensor instead (while checking arguments for embedding_bag)"),
    (lambda: F.embedding_bag(torch.tensor([0, 1]), torch.ones(4, 2), torch.tensor([0]), padding_idx=4), RuntimeError,
     "padding_idx must be within the number of embeddings, -4 through 3, but got 4"),
    (lambda: torch.cholesky_inverse(torch.tensor([[0., 0.], [1., 1.]])), torch.linalg.LinAlgError,
     "cholesky_inverse: The diagonal element 1 is zero, the inversion could not be completed because the input matrix is singular."),
    (lambda: torch.cholesky_inverse(torch.tensor([[[1., 0.], [1., 1.]], [[1., 0.], [1., 0.]]])), torch.linalg.LinAlgError,
     "cholesky_inverse: (Batch element 1): The diagonal element 2 is zero, the inversion could not be completed because the input "
     "matrix is singular."),
    (lambda: torch.linalg.matrix_norm(torch.ones(2, 2) * 1j, dtype=torch.float32), RuntimeError,
     "linalg.matrix_norm: dtype should be complex for complex inputs, but got Float"),
    (lambda: torch.tril_indices(2, 2, dtype=torch.int8), NotImplementedError, "\"tril_indices\" not implemented for 'Char'"),
    (lambda: torch.ones(2).resize(1), RuntimeError,
     "requested resize to 1 (1 elements in total), but the given tensor has a size of 2 (2 elements). autograd's resize can only "
     "change the shape of a given tensor, while preserving the number of elements. "),
    # sizes that 64 bits do not hold
    (lambda: torch.ones(1).expand(MOST, 3), RuntimeError, "numel: integer multiplication overflow"),
    (lambda: torch.zeros(0, MOST, MOST), RuntimeError, "Stride calculation overflowed"),
    (lambda: torch.ones(3).repeat(MOST), RuntimeError, f"repeat(): integer overflow with {MOST} and 3"),
    (lambda: F.pad(torch.ones(3), (MOST, MOST)), RuntimeError,
     f"constant_pad_nd(): integer overflow with {MOST} and {MOST}"),
    (lambda: torch.ones(4).split([2**62] * 3 + [2**62 + 4]), RuntimeError,
     "split_with_sizes expects split_sizes to sum exactly to 4 (input tensor's size at dimension 0), but got "
     f"split_sizes=[{2**62}, {2**62}, {2**62}, {2**62 + 4}]"),
    (lambda: torch.ones(3, dtype=torch.uint8).as_strided((), (), MOST), RuntimeError,
     "Storage size calculation overflowed with sizes=[] and strides=[]"),
    (lambda: torch.repeat_interleave(torch.tensor([2**62] * 4)), RuntimeError,
     "repeat_interleave: the repeats are more than a size may be"),
    (lambda: F.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 3), dilation=MOST), RuntimeError, "integer out of range"),
    (lambda: F.fold(torch.ones(1, 4, 1), (2, 2), (2**32, 2**32)), RuntimeError, "integer out of range"),
    # calls that would read or write out of bounds
    (lambda: torch.linalg.lstsq(torch.ones(3, 3).half(), torch.ones(3, 3).half()), RuntimeError,
     "This function doesn't handle types other than float and double"),
    (lambda: F.pad(torch.zeros(1, 1, 4), (-5, 2), mode="circular"), RuntimeError,
     "Negative padding value is resulting in an empty dimension"),
    (lambda: torch.ones(3)[(torch.tensor(True),) * 65], RuntimeError, "a tensor has at most 64 dimensions"),
    (lambda: torch.ops.aten.index(torch.ones(3), [torch.tensor(True)] * 65), IndexError,
     "at most 64 tensors can be used as indices"),
    (lambda: torch.ops.aten._la_lstsq(torch.ones(3, 3).half(), torch.ones(3, 3).half(), 1e-3, "gelsy"), NotImplementedError,
     "\"linalg.lstsq\" not implemented for 'Half'"),
    (lambda: torch.convolution(torch.ones((2,) * 6), torch.ones((2,) * 6), None, [1] * 4, [0] * 4, [1] * 4, False, [0] * 4, 1),
     RuntimeError, "convolution: weight has 6 dimensions, at most five are supported"),
    (lambda: torch.ops.aten.upsample_nearest2d.vec(torch.zeros(1, 1, 4, 4), [4, 4], [2.0]), RuntimeError,
     "It is expected scale_factors equals to 2, but got size 1"),
    (lambda: torch.ctc_loss(torch.zeros(3, 2, 4), torch.zeros(0, dtype=torch.int64), [0, 3], [-1, 1]), RuntimeError,
     "Expected target_lengths to have value at least 0, but got value -1 "
     "(while checking arguments for ctc_loss_allocate_outputs)"),
    (lambda: torch.ops.aten.unfold_backward(torch.ones(1, 10), [4], 0, 10, 1), RuntimeError,
     "unfold_backward: grad_in has not the sizes of windows of input_sizes")]


@pytest.mark.parametrize("call,cls,text", REFUSED)
def test_arguments_that_do_not_fit_are_refused(call, cls, text):
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


def test_extremes_that_have_an_answer():
    x = torch.ones(3, 3)
    assert x[0].split(MOST)[0].equal(x[0]) and x.triu(MOST).equal(0 * x) and x.tril(MOST).equal(x)
    assert x[0].chunk(MOST)[0].shape == (1,) and x[0][::MOST].shape == (1,)
    assert torch.empty(2**62, 0).nonzero().shape == (0, 2)
    assert torch.ops.aten._upsample_bilinear2d_aa(torch.ones(1, 1, 4, 4), [17, 17], False, 0.5, 0.5).shape == (1, 1, 17, 17)
    many = F.fold(torch.ones(1, 300, 1, dtype=torch.bool), (15, 20), (15, 20)), F.fold(
        torch.ones(1, 4, 600, dtype=torch.bool), (3, 301), (2, 2))
    assert all(m.view(torch.uint8).max() == 1 for m in many)
    nothing = F.linear(torch.zeros(3, 2, 0).transpose(0, 1), torch.zeros(5, 0))
    assert nothing.equal(torch.zeros(2, 3, 5))


# the largest n whose numbers the dtype holds, and the text for the next n
PERMUTED = [(torch.uint8, 256, "value cannot be converted to type uint8_t without overflow"),
            (torch.int8, 128, "value cannot be converted to type int8_t without overflow"),
            (torch.int16, 2**15, "value cannot be converted to type int16_t without overflow"),
            (torch.float16, 2049, "n cannot be greater than 2049 for Half type.")]


@pytest.mark.parametrize("dtype,most,text", PERMUTED)
def test_permutations_fit_their_dtype(dtype, most, text):
    numbers = torch.randperm(most, dtype=dtype)
    assert torch.equal(numbers.to(torch.int64).sort().values, torch.arange(most))
    for permuted in (lambda: torch.randperm(most + 1, dtype=dtype),
                     lambda: torch.randperm(most + 1, out=torch.empty(0, dtype=dtype))):
        with pytest.raises(RuntimeError) as raised:
            permuted()
        assert str(raised.value) == text


@pytest.mark.parametrize("dtype,most,text", [
    (torch.int32, 2**31, "value cannot be converted to type int without overflow"),
    (torch.float32, 2**24 + 1, "n cannot be greater than 2^24+1 for Float type.")])
def test_permutations_of_large_dtypes_are_refused_before_memory_is_taken(dtype, most, text):
    with pytest.raises(RuntimeError) as raised:
        torch.randperm(most + 1, dtype=dtype)
    assert str(raised.value) == text
