"""Wrong arguments are errors or give torch's answer, and never crash."""
import subprocess
import sys
import threading

import pytest

import cresset as torch
from cresset import _C

HUGE = 2**62
ITEM = "failed to unpack the object at pos 2 with error \"type must be tuple of ints,but got {}\""


@pytest.mark.parametrize("call, item", [
    (lambda: torch.zeros(2, [3]), "list"),
    (lambda: torch.ones(2, []), "list"),
    (lambda: torch.rand(2, ()), "tuple"),
    (lambda: torch.randn(2, [[]]), "list"),
    (lambda: torch.zeros(6).view(-1, [3]), "list"),
    (lambda: torch.zeros(6).reshape(2, (3,)), "tuple"),
    (lambda: torch.zeros(1).expand(2, "34"), "str"),
    (lambda: torch.zeros(1, 2).permute(0, [1]), "list"),
    (lambda: torch.zeros(1).new_zeros(2, [3]), "list"),
    (lambda: torch.zeros(6).resize_(2, [3]), "list"),
])
def test_a_list_among_sizes(call, item):
    with pytest.raises(TypeError, match=ITEM.format(item)):
        call()


@pytest.mark.parametrize("kind, message, call", [
    (RuntimeError, "cannot create std::vector larger than max_size", lambda: torch.zeros(3).tensor_split(HUGE)),
    (RuntimeError, "not enough memory for 1099511627776 tensors", lambda: torch.zeros(0).chunk(2**40)),
    (RuntimeError, "number of sections must be larger than 0", lambda: torch.zeros(3).tensor_split(-HUGE)),
    (TypeError, "missing 1 required positional arguments: \"dtype\"", lambda: torch.frombuffer(bytearray(8))),
    (ValueError, "must not be greater than actual buffer length",
     lambda: torch.frombuffer(bytearray(8), dtype=torch.float32, count=HUGE + 1)),
    (RuntimeError, "Storage size calculation overflowed", lambda: torch.zeros(3).as_strided((3, 3), (HUGE, HUGE))),
    (RuntimeError, "Storage size calculation overflowed", lambda: torch.empty_strided((2, 3), (HUGE, HUGE))),
    (RuntimeError, "out of bounds for storage", lambda: torch.zeros(3).as_strided((3,), (1,), 2**40)),
    (ValueError, r"\(upscale_factor\)\^2 overflowed: upscale_factor=4294967296",
     lambda: torch.pixel_shuffle(torch.zeros(1, 4, 2, 2), 2**32)),
    (RuntimeError, "pixel_shuffle: an upscale_factor of 2147483647 is too large",
     lambda: torch.pixel_shuffle(torch.zeros(0, 2, 2**40), 2**31 - 1)),
    (RuntimeError, "numel: integer multiplication overflow",
     lambda: torch.zeros(0, 1, 1).expand(0, 2**40, 2**40).flatten(1)),
    (RuntimeError, "is not divisible by 4611686018427387904",
     lambda: torch.pixel_shuffle(torch.zeros(1, 4, 2, 2), 2**31)),
    (RuntimeError, "should be < 9223372036854775807 but got 9223372036854775807",
     lambda: torch.bincount(torch.tensor([2**63 - 1]))),
    (RuntimeError, "can't allocate memory", lambda: torch.bincount(torch.tensor([1, 2]), minlength=2**50)),
    (RuntimeError, "derivative for aten::detach_copy is not implemented",
     lambda: torch.detach_copy(torch.zeros(2, requires_grad=True)).sum().backward()),
])
def test_a_refusal(kind, message, call):
    with pytest.raises(kind, match=message):
        call()


@pytest.mark.parametrize("call", [
    lambda target: torch.nn.functional.binary_cross_entropy(torch.full((2,), 0.5), target),
    lambda target: torch.nn.functional.binary_cross_entropy(torch.full((2,), 0.5), target, torch.ones(2), reduction="sum")])
@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), float("inf")])
def test_targets_that_are_no_probabilities(call, value):
    for run in call, torch.compile(call):
        with pytest.raises(RuntimeError, match="all elements of target should be between 0 and 1"):
            run(torch.tensor([0.5, value]))
        assert run(torch.tensor([0.0, 1.0])) > 0


@pytest.mark.parametrize("call", [
    lambda x, n: torch.nn.functional.threshold(x, 0, n),
    lambda x, n: x.index_add(0, torch.tensor([0]), x[:1], alpha=n), lambda x, n: torch.addmv(x, torch.stack([x, x]), x, alpha=n),
    lambda x, n: torch.addmv(x, torch.stack([x, x]), x, beta=n)])
@pytest.mark.parametrize("dtype, number", [("int16", 10 ** 12), ("uint8", 300), ("int32", 1e10), ("float16", 70000.5)])
def test_numbers_that_the_dtype_cannot_hold(call, dtype, number):
    x = torch.ones(2, dtype=getattr(torch, dtype))
    with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
        call(x, number)
    assert call(x, 2).dtype == x.dtype


@pytest.mark.parametrize("dtype, name", [("complex32", "ComplexHalf"), ("float8_e4m3fn", "Float8_e4m3fn"), ("float8_e5m2fnuz", "Float8_e5m2fnuz"),
                                         ("float8_e8m0fnu", "Float8_e8m0fnu")])
def test_nan_to_num_of_stored_dtypes(dtype, name):
    x = torch.ones(2).to(getattr(torch, dtype))
    for call in torch.nan_to_num, torch.Tensor.nan_to_num_, lambda x: torch.nan_to_num(x[:0], nan=1.0):
        with pytest.raises(NotImplementedError, match=f"\"nan_to_num\" not implemented for '{name}'"):
            call(x)


@pytest.mark.parametrize("dtype, taken, refused", [("float16", 1e10, 1e39), ("bfloat16", 3e38, 1e39), ("float32", 3e38, 1e39), ("uint8", 255, 300),
                                                   ("int32", 2**31 - 1, 2**31)])
def test_a_threshold_is_compared_in_float(dtype, taken, refused):
    x = torch.ones(2, dtype=getattr(torch, dtype))
    for call in torch.nn.functional.threshold, torch.compile(lambda x, n, v: torch.nn.functional.threshold(x, n, v)):
        assert call(x, taken, 3).tolist() == [3, 3]
        with pytest.raises(RuntimeError, match="value cannot be converted to type .* without overflow"):
            call(x, refused, 3)


def test_rsub_of_integers_takes_no_float():
    with pytest.raises(RuntimeError, match="argument alpha must not be a floating point number"):
        torch.rsub(torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.int32), alpha=2.5)


@pytest.mark.parametrize("call, size", [
    (lambda: torch.tril(torch.empty(2**33, 0)), (2**33, 0)),
    (lambda: torch.triu(torch.empty(3, 2**33, 0)), (3, 2**33, 0)),
    (lambda: torch.empty(2**40, 0).triu_(), (2**40, 0)),
    (lambda: torch.sort(torch.empty(2**40, 0))[0], (2**40, 0)),
    (lambda: torch.cumsum(torch.empty(2**33, 0), 1), (2**33, 0)),
    (lambda: torch.linalg.svdvals(torch.empty(2**33, 0, 3)), (2**33, 0)),
    (lambda: torch.linalg.eigvalsh(torch.empty(2**40, 0, 0)), (2**40, 0)),
    (lambda: torch.linalg.solve(torch.empty(0, 0), torch.empty(0, 2**33)), (0, 2**33)),
    (lambda: torch.linalg.pinv(torch.empty(2**33, 0)), (0, 2**33)),
    (lambda: torch.linalg.qr(torch.empty(0, 2**31 + 5))[0], (0, 0)),
    (lambda: torch.matmul(torch.empty(2**33, 1, 3, 0).mT, torch.ones(1, 4, 3, 4)), (2**33, 4, 0, 4)),
    (lambda: torch.nn.functional.adaptive_avg_pool2d(torch.zeros(3, 3, 3), (2**31, 0)), (3, 2**31, 0)),
    (lambda: _C.ops._adaptive_avg_pool_backward(torch.zeros(1, 2, 3, 2**33, 0), [1, 2, 3, 4, 5], 3), (1, 2, 3, 4, 5)),
    (lambda: torch.triu_indices(2**33, 2, 1), (2, 1)),
    (lambda: torch.tril_indices(2**33, 2, 1 - 2**33), (2, 1)),
    (lambda: torch.zeros(3).as_strided((2**33, 0), (HUGE, HUGE)), (2**33, 0)),
    (lambda: torch.empty_strided((0, 3), (HUGE, HUGE)), (0, 3)),
    (lambda: torch.combinations(torch.arange(70), 69), (70, 69)),
    (lambda: torch.diff(torch.randn(3000), n=2990), (10,)),
])
def test_huge_sizes_without_elements_and_long_loops(call, size):
    assert tuple(call().shape) == size


def test_windows_much_larger_than_the_input():
    x = torch.arange(17.0)[None]
    most = 2 ** 31 - 1
    assert torch.nn.functional.avg_pool1d(x, most, ceil_mode=True, count_include_pad=False).tolist() == [[8.0]]
    wide = torch.nn.functional.max_pool1d(x, most, padding=2 ** 30 - 1, stride=1)
    assert wide.tolist() == [[16.0] * 17]


@pytest.mark.parametrize("call, size", [
    (lambda t: t + 1, (1, 2)), (lambda t: t[:, :1], (1, 1)), (lambda t: t.unsqueeze(1), (1, 1, 2)),
    (lambda t: t[:0].unsqueeze(0), (1, 0, 2)), (lambda t: t.expand(3, 2)[1:].clone(), (2, 2)),
    (lambda t: torch.cat([t, t], 0), (2, 2)), (lambda t: t.split(1, 1)[1], (1, 1)),
    (lambda t: t.index_add(0, torch.tensor([0]), torch.ones(1, 2)), (1, 2))])
def test_any_stride_of_a_dimension_of_size_1(call, size):
    t = torch.arange(2.0).as_strided((1, 2), (2**63 - 1, 1))
    u = torch.arange(2.0).reshape(1, 2)
    assert call(t).shape == size and call(t).tolist() == call(u).tolist()


def test_triangle_indices_against_numpy():
    import numpy
    for rows in range(5):
        for columns in range(5):
            for offset in range(-6, 7):
                for ours, theirs in (torch.tril_indices, numpy.tril_indices), (torch.triu_indices, numpy.triu_indices):
                    want = numpy.stack(theirs(rows, offset, columns))
                    got = ours(rows, columns, offset).numpy()
                    assert got.shape == want.shape and (got == want).all(), (rows, columns, offset)


def test_sums_of_integers_wrap():
    x = torch.full((1, 1, 4), 2**62)
    assert torch.nn.functional.avg_pool1d(x, 4).tolist() == [[[0]]]
    least = torch.full((1, 1, 2, 2), -2**63)
    assert torch.nn.functional.avg_pool2d(least, 1, divisor_override=-1).flatten().tolist() == [-2**63] * 4
    assert _C.ops._pool_scatter(least, t(1, 1, 2, 2, dtype=i64), [1, 1, 1, 1], 2).tolist() == [[[[0]]]]


@pytest.mark.parametrize("change", [lambda y: y[:, :2].mul_(3), lambda y: y[..., 1:].add_(2), lambda y: y[0:0].zero_()])
@pytest.mark.parametrize("make", [lambda x: x * 2, lambda x: (x * 2).transpose(0, 1).contiguous().transpose(0, 1)])
def test_a_slice_of_an_empty_batch_changed_in_place(change, make):
    x = torch.zeros(0, 3, requires_grad=True)
    y = make(x)
    change(y)
    y.sum().backward()
    assert x.grad.shape == (0, 3)


def test_an_expanded_empty_batch_changed_in_place():
    x = torch.zeros(3, requires_grad=True)
    y = (x * 1).expand(0, 3)
    y[..., :2].add_(3)
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


def t(*size, **kwargs):
    return torch.zeros(size, **kwargs)


i64 = torch.int64


@pytest.mark.parametrize("name, args", [
    ("_convolution_input_grad", (t(1, 3, 9), t(3, 2, 3), [1, 2, 5], [1], [1], [1], 1)),
    ("_convolution_input_grad", (t(1, 7, 5), t(3, 2, 3), [1, 2, 5], [1], [1], [1], 1)),
    ("_convolution_input_grad", (t(1, 3, 5), t(3, 2, 3).double(), [1, 2, 5], [1], [1], [1], 1)),
    ("_convolution_input_grad", (t(1, 3, 5), t(3, 2, 3), [1, 2, -5], [1], [1], [1], 1)),
    ("_convolution_weight_grad", (t(1, 3, 5), t(1, 2, 2), [3, 2, 3], [1], [1], [1], 1)),
    ("_convolution_weight_grad", (t(1, 3, 5), t(1, 2, 5), [3, 2, 3], [1], [1], [1], 0)),
    ("_convolution_output", (t(1, 2, 5), t(3, 2, 3), [1, 3, 50], [1], [1], [1], 1)),
    ("_avg_pool_backward", (t(1, 2, 5), [1, 2, 6], [2], [2], [0], False, True, None, 1)),
    ("_avg_pool_backward", (t(1, 2, 3), [1, 2, 6], [2], [2], [0], False, True, None, 2**40)),
    ("_adaptive_avg_pool_backward", (t(1, 2, 3), [1, 2, 0], 1)),
    ("_adaptive_avg_pool_backward", (t(9, 2, 3), [1, 2, 6], 1)),
    ("_pool_scatter", (t(1, 2, 3), t(1, 2, 4, dtype=i64), [1, 2, 6], 1)),
    ("_pool_scatter", (t(5, 2, 3), t(5, 2, 3, dtype=i64), [1, 2, 6], 1)),
    ("_pool_gather", (t(1, 2, 3), t(4, 2, 3, dtype=i64), 1)),
    ("_upsample_backward", (t(1, 2, 5), [1, 9, 3], 2, False, None, 1)),
    ("_upsample_backward", (t(1, 2, 5), [1, 2, 3], 17, False, None, 1)),
    ("_grid_sampler_input_grad", (t(1, 2, 3, 3), t(1, 4, 4, 2), [1, 2, 5, 5], 0, 0, False)),
    ("_grid_sampler_grid_grad", (t(1, 2, 3, 3), t(1, 2, 5, 5), t(1, 4, 4, 2), 0, 0, False)),
    ("_ctc_loss_backward", (t(2), t(5, 1, 4), t(1, 2, dtype=i64), [5], [2], 0, t(1))),
    ("nll_loss_backward", (t(2), t(3, 4), t(3, dtype=i64), None, 0, -100, t())),
    ("nll_loss_backward", (t(), t(3, 4), t(3, dtype=i64), None, 1, -100, t(0))),
    ("reflection_pad1d_backward", (t(2, 9), t(2, 3), [3, 3])),
    ("replication_pad2d_backward", (t(2), t(2), [1, 1, 1, 1])),
    ("embedding_dense_backward", (t(3, 4), t(5, dtype=i64), 6, -1, False)),
    ("embedding_dense_backward", (t(5, 4), t(5, dtype=i64) + 9, 6, -1, False)),
    ("embedding_dense_backward", (t(5, 4, dtype=i64), t(5, dtype=i64), 6, -1, True)),
    ("_embedding_bag_dense_backward",
     (t(2, 4), t(3, dtype=i64), t(3, dtype=i64) + 7, t(2, dtype=i64), t(2, 4, dtype=i64), 5, False, 0, None)),
    ("_embedding_bag_samples_backward", (t(2, 4), t(3, 4), t(3, dtype=i64) + 3, t(3, dtype=i64))),
    ("select_backward", (t(7), [3, 4], 0, 1)),
    ("slice_backward", (t(4, 4), [3, 4], 0, 1, None, 2)),
    ("diagonal_backward", (t(7), [3, 4], 0, 0, 1)),
    ("unfold_backward", (t(1, 2, 1), [2], 1000, 3, 1)),
    ("as_strided_backward", (t(3), t(3), [3], [HUGE], 2)),
    ("as_strided_backward", (t(3), t(3), [3, 1], [1], 0)),
    ("as_strided_backward", (t(4), t(3), [3], [1], 0)),
    ("split_with_sizes_backward", ([t(1), t(1), None], [1], [1, 4], 0)),
    ("_la_reflect", (t(3, 3), t(3, 3), t(3), 3, 2, True)),
    ("_la_lstsq", (t(4), t(1), 1.0, "gels")),
    ("_sum_leading", (t(3, 3), -HUGE)),
    ("_per_channel", (t(3), HUGE)),
    ("_combination_indices", (2, HUGE, True)),
])
def test_steps_of_derivatives_called_by_hand(name, args):
    with pytest.raises((RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)) as error:
        getattr(_C.ops, name)(*args)
    assert str(error.value)


def test_rows_of_other_sizes_broadcast_without_the_fused_kernel():
    g, y = torch.randn(1, 4), torch.randn(3, 4)
    got = _C.ops._log_softmax_backward_data(g, y, 1, torch.float32)
    assert torch.allclose(got, g - y.exp() * g.sum(1, True))
    with pytest.raises(RuntimeError):
        _C.ops._layer_norm_backward_input(t(3, 4), t(2, 3), [4], t(3, 4), t(3, 4), t(4))


REENTRANT = """
import cresset as torch

class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.n = n
        return x * 2

    @staticmethod
    def backward(ctx, g):
        if ctx.n:
            with torch.enable_grad():
                Again.apply(torch.ones(1, requires_grad=True), ctx.n - 1).sum().backward()
        return g * 2, None

x = torch.ones(1, requires_grad=True)
try:
    Again.apply(x, {}).sum().backward()
    print(x.grad.item())
except RecursionError:
    print("RecursionError")
"""


@pytest.mark.parametrize("depth, answer", [(300, "2.0"), (3000, "RecursionError")])
def test_backward_within_backward(depth, answer):
    done = subprocess.run([sys.executable, "-c", REENTRANT.format(depth)], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == answer, done.stderr


SHORT = """
import resource, signal
import cresset as torch

x = torch.ones(300, 300)
now = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (now + {} * 2**20,) * 2)
signal.alarm(60)
assert torch.mm(x, x)[0, 0] == 300
try:
    print(torch.linalg.inv(torch.eye(200)).sum().item())
except RuntimeError as e:
    print(e)
"""


@pytest.mark.parametrize("megabytes", [150, 250, 400])
def test_libraries_without_address_space(megabytes):
    """OpenBLAS tries for ever to map its buffers."""
    done = subprocess.run([sys.executable, "-c", SHORT.format(megabytes)], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "200.0" or "not enough memory" in done.stdout, (done.returncode, done.stderr)


MOST = 2**63 - 1


def test_one_hot_of_the_largest_number():
    with pytest.raises(RuntimeError, match="negative dimension -9223372036854775808: \\[1, -9223372036854775808\\]"):
        torch.nn.functional.one_hot(torch.tensor([MOST]))


def test_pads_that_cut_more_than_the_input():
    x = torch.arange(24.0).reshape(1, 2, 3, 4)
    y = torch.nn.functional.pad(x, (-MOST - 1, MOST - 1, 0, 0), mode="replicate")
    assert y.shape == (1, 2, 3, 2) and (y == x[..., 3:]).all()


@pytest.mark.parametrize("call", [
    lambda: torch.ops.aten.empty.memory_format([2, MOST], layout=torch.sparse_csc), lambda: torch.zeros(MOST, 2, layout=torch.sparse_csr),
    lambda: torch.sparse_coo_tensor(torch.tensor([[1], [0]]), torch.ones(1), (MOST, 2)).to_sparse_csr(),
    lambda: torch.sparse.mm(*[torch.sparse_coo_tensor(torch.tensor([[1], [1]]), torch.ones(1), s) for s in ((2, MOST), (MOST, 2))])])
def test_sparse_tensors_of_more_rows_than_can_be_counted(call):
    with pytest.raises(RuntimeError, match="of 9223372036854775807 rows has more row starts than a size can tell|numel: integer multiplication overflow"):
        call()


def test_a_single_element_may_have_any_stride():
    x = torch.as_strided(torch.tensor([3, 5]), (1,), (MOST - 1,))
    assert torch.bincount(x, torch.tensor([2.0])).tolist() == [0, 0, 0, 2]


def test_steps_past_the_end():
    assert torch.slice_scatter(torch.zeros(3), torch.ones(1), 0, None, None, MOST).tolist() == [1, 0, 0]
    x = torch.ones(3, 4, requires_grad=True)
    x.unfold(0, 2, MOST).sum().backward()
    assert x.grad.sum(1).tolist() == [4, 4, 0]


def test_bytes_of_more_elements_than_a_size_can_tell():
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        torch.zeros(0, 2**62, dtype=torch.float64).view(torch.uint8)


def test_differences_of_nothing_are_taken_at_once():
    assert torch.diff(torch.zeros(1, 2**33, 0), 2**31 - 1, dim=1).shape == (1, 2**33 - 2**31 + 1, 0)


def test_matrices_of_more_rows_than_lapack_counts():
    assert torch.linalg.lu_factor(torch.zeros(2, 2**31 + 1, 0))[1].shape == (2, 0)
    with pytest.raises(RuntimeError, match="at most 2147483647 rows and columns, but got 2147483649"):
        torch.linalg.svdvals(torch.zeros(1, 1).expand(2**31 + 1, 1))


def test_blocks_of_huge_planes():
    with pytest.raises(RuntimeError, match="expected size of input's dimension 2 to match the calculated number"):
        torch.nn.functional.fold(torch.zeros(1, 8, 9), (3, MOST), 2, padding=1, stride=2)
    with pytest.raises(RuntimeError, match="numel: integer multiplication overflow"):
        torch.nn.functional.unfold(torch.zeros(0, 2**58, 4, 4), (2**3, 2**3), padding=4)


def test_instance_norm_of_a_number():
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.instance_norm(torch.tensor(1.0), None, None, None, None, True, 0.1, 1e-5, False)


def test_shifts_and_degrees_near_the_largest_integer():
    x = torch.arange(6.0)
    assert torch.equal(x.roll(MOST), x.roll(MOST % 6)) and torch.equal(x.roll(-MOST - 1), x.roll((-MOST - 1) % 6))
    rows = x.reshape(3, 2)
    assert torch.equal(rows.roll(-MOST - 1, 0), rows.roll((-MOST - 1) % 3, 0))
    assert torch.special.shifted_chebyshev_polynomial_w(torch.tensor([-2.0]), torch.tensor([1e19])).isnan().all()


def test_normal_numbers_around_complex_means():
    x = torch.normal(torch.full((64,), 5 + 0j, dtype=torch.complex128), 0.0)
    assert (x == 5).all()


def test_an_empty_result_gives_its_target_strides_without_zeros():
    out = torch.empty(0)
    torch.mul(torch.zeros(2, 0, 3), 1, out=out)
    assert out.shape == (2, 0, 3) and out.stride() == (3, 3, 1)


def test_extremes_along_a_dim_of_one_element_with_a_huge_stride():
    x = torch.tensor([3.0, 4.0]).as_strided((1, 2), (MOST, 1))
    assert x.min(0).values.tolist() == [3.0, 4.0] and x.argmax(0).tolist() == [0, 0]


def test_positions_in_planes_are_int64():
    with pytest.raises(RuntimeError, match="expected int64 indices, but got Float"):
        torch._C.ops._pool_gather(torch.zeros(3, 3), torch.zeros(3, 3), 1)


class Changing(list):
    """A list of n numbers; reading the first as a number changes the list."""

    def __init__(self, n, change):
        super().__init__([2] * n)
        owner = self

        class Item:
            def __index__(self):
                change(owner)
                return 2

            def __float__(self):
                return float(self.__index__())
        self[0] = Item()


def lists_of_numbers():
    """Returns (name, argument) for each parameter that is a list of numbers."""
    kinds = ("int[]", "float[]", "Scalar[]")
    return sorted({(e["name"], p["name"]) for e in torch._C._records() for p in e["params"]
                   if p["type"].split("?")[0] in kinds or "int[" in p["type"]})


@pytest.mark.parametrize("change", [lambda x: x.clear(), lambda x: x.__delitem__(slice(1, None)),
                                    lambda x: x.extend([3] * 50), lambda x: x.__setitem__(slice(1, 3), [object()])],
                         ids=["clear", "shorten", "extend", "replace"])
def test_a_list_that_its_items_change(change):
    assert len(lists_of_numbers()) > 50
    for name, p in lists_of_numbers():
        entry = getattr(torch._C.ops, name)
        for first in ([], [torch.ones(2, 2)], [torch.ones(2, 2), torch.ones(2)]):
            for given in (first + [Changing(5, change)],):
                try:
                    entry(*given)
                except Exception as e:
                    assert not isinstance(e, SystemError)
            try:
                entry(*first, **{p: Changing(5, change)})
            except Exception as e:
                assert not isinstance(e, SystemError)
    for call in (torch.zeros, torch.tensor, torch.Size, torch.ones(2, 2).new_zeros, torch.ones(2, 2).view):
        try:
            call(Changing(5, change))
        except (RuntimeError, TypeError):
            pass


def test_a_list_of_sizes_that_becomes_shorter_is_an_error():
    with pytest.raises(RuntimeError, match="the list changed its size"):
        torch.zeros(Changing(5, lambda x: x.clear()))


def test_a_list_of_tensors_is_kept_while_a_call_reads_it():
    tensors = [torch.ones(4), torch.ones(4)]

    class Dim:
        def __index__(self):
            tensors.clear()
            return 0
    assert torch.cat(tensors, Dim()).tolist() == [1.0] * 8 and tensors == []


def test_a_list_that_another_thread_clears_while_a_call_reads_it():
    for _ in range(20):
        tensors = [torch.ones(100000) for _ in range(20)]
        thread = threading.Thread(target=tensors.clear)
        thread.start()
        try:
            joined = torch.cat(tensors)
        except (RuntimeError, ValueError):
            joined = None  # the list was empty before
        thread.join()
        assert joined is None or joined.sum().item() == joined.numel()


@pytest.mark.parametrize("device", [object(), 3.5, [1], torch.float32, "nowhere"])
def test_devices_that_are_none(device):
    for call in (lambda: torch.UntypedStorage(8, device), lambda: torch.UntypedStorage(8, device=device),
                 lambda: torch.Generator(device)):
        with pytest.raises((TypeError, RuntimeError)):
            call()


def test_regions_of_an_empty_batch():
    for name, more in ("roi_pool", ()), ("roi_align", (-1, False)), ("ps_roi_pool", ()), ("ps_roi_align", (-1,)):
        call = getattr(torch.ops.torchvision, name)
        for image in (-0.5, 0.0, -0.0, 0.9, -1e-30):
            with pytest.raises((IndexError, RuntimeError)):
                call(torch.zeros(0, 4, 4, 4), torch.tensor([[image, 0, 0, 1, 1]]), 1.0, 2, 2, *more)


def test_functions_of_the_extension_called_by_hand():
    for call in (lambda: torch._C._outline(3), lambda: torch._C._disabled_torch_function_impl(torch.Tensor, 3, 3),
                 lambda: torch._C._disabled_torch_function_impl(len, (), (), 3),
                 lambda: torch.Tensor.__torch_function__(len, (), (), 3),
                 lambda: torch._C._disable_saved_tensors_hooks(1.5)):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("name, gates", [("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)])
def test_recurrent_functions_refuse_states_of_another_batch(name, gates):
    h = torch.ones(1, 5, 2)
    params = [torch.ones(2 * gates, 3), torch.ones(2 * gates, 2), torch.ones(2 * gates), torch.ones(2 * gates)]
    for _ in range(20):
        with pytest.raises(RuntimeError):
            getattr(torch, name)(torch.ones(4, 3, 3), (h, h) if name == "lstm" else h, params, True, 1, 0.0, False, False, False)


@pytest.mark.parametrize("spec", [3, None, (".2f",), b".2f", torch.ones(1).untyped_storage()])
def test_a_format_is_a_string(spec):
    with pytest.raises(TypeError, match=r"__format__\(\) argument must be str"):
        torch.ones(()).__format__(spec)
    assert torch.ones(()).__format__(".2f") == "1.00"


@pytest.mark.parametrize("name", ["numel", "is_floating_point", "is_complex", "is_signed", "is_inference", "is_conj", "is_neg",
                                  "get_device"])
def test_functions_of_one_tensor_take_it_by_name(name):
    f, x = getattr(torch, name), torch.ones(2)
    assert f(input=x) == f(x)
    for args, named, text in (((), {}, 'missing 1 required positional arguments: "input"'),
                              ((), {"x": x}, 'missing 1 required positional arguments: "input"'),
                              ((x, x), {}, "takes 1 positional argument but 2 were given"),
                              ((x,), {"input": x}, "got multiple values for argument 'input'"),
                              ((x,), {"x": x}, "got an unexpected keyword argument 'x'"),
                              ((1,), {}, r"argument 'input' \(position 1\) must be Tensor, not int"),
                              ((), {"input": 1}, "argument 'input' must be Tensor, not int")):
        with pytest.raises(TypeError, match=text):
            f(*args, **named)


@pytest.mark.parametrize("sizes, weight, bias, stride, dilation, groups, message", [  # torch's order of checks
    ((1, 2, 5), (2, 2, 3), None, 1, 0, 1, "dilation should be greater than zero"),
    ((1, 3, 5), (2, 2, 3), None, 1, 0, 1, "Given groups=1, weight of size .2, 2, 3., expected input.1, 3, 5. to have 2 channels"),
    ((1, 2, 5), (3, 1, 3), None, 1, 0, 2, "Given groups=2, expected weight to be divisible by 2 at dimension 0"),
    ((1, 2, 5), (2, 2, 3), (3,), 1, 0, 1, "expected bias to be 1-dimensional with 2 elements"),
    ((1, 3, 5), (2, 2, 3), None, 0, 0, 1, "non-positive stride is not supported"),
    ((1, 2, 3), (2, 2, 0), None, 1, 1, 1, "kernel size should be greater than zero"),
    ((1, 2, 3, 3), (2, 2, 0, 1), None, 1, 1, 1, "kernel size should be greater than zero"),
])
def test_which_argument_of_a_convolution_is_named(sizes, weight, bias, stride, dilation, groups, message):
    spatial = len(sizes) - 2
    for transposed in (False, True) if len(set(sizes[1:2] + weight[:2])) == 1 and bias is None else (False,):
        with pytest.raises(RuntimeError, match=message):
            torch.convolution(torch.ones(sizes), torch.ones(weight), None if bias is None else torch.ones(bias), [stride] * spatial,
                              [0] * spatial, [dilation] * spatial, transposed, [0] * spatial, groups)
