"""Values, dtypes and strides of operators that differed from torch 2.13. Expected values are torch's."""
import numpy
import pytest

import cresset as torch
import cresset.nn.functional as F

inf, nan = float("inf"), float("nan")


def equal(got, want, atol=0.0, rtol=0.0):
    want = want if torch.is_tensor(want) else torch.tensor(want)
    assert got.dtype == want.dtype and got.shape == want.shape
    torch.testing.assert_close(got, want, equal_nan=True, atol=atol, rtol=rtol)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64", "bfloat16", "float32", "float64"])
def test_heaviside_gives_the_second_argument_at_zero(dtype):
    dtype = getattr(torch, dtype)
    x = torch.tensor([0, 1, 3, 0], dtype=dtype)
    equal(torch.heaviside(x, torch.tensor([5, 6, 7, 2], dtype=dtype)), torch.tensor([5, 1, 1, 2], dtype=dtype))


def test_heaviside_of_bool_and_nan():
    equal(torch.heaviside(torch.tensor([True, False]), torch.tensor([False, True])), [True, True])
    equal(torch.heaviside(torch.tensor([nan, -1.0]), torch.tensor([3.0, 3.0])), [0.0, 0.0])


def test_cosine_similarity_broadcasts_before_it_sums():
    x, y = torch.arange(6.0).view(2, 1, 3) + 1, torch.ones(4, 1)
    equal(F.cosine_similarity(x, y, dim=-1), torch.tensor([[0.925820], [0.986928]]).expand(2, 4), atol=1e-6)
    assert F.cosine_similarity(x, y, dim=2).shape == (2, 4)
    equal(F.cosine_similarity(torch.ones(5), torch.arange(10.0).view(2, 5), dim=0)[:2], [0.707107, 0.813733], atol=1e-6)


def test_cosine_similarity_has_a_gradient_at_zero():
    x = torch.zeros(4, requires_grad=True)
    y = torch.tensor([3.0, 0.0, 4.0, 0.0])
    F.cosine_similarity(x, y, dim=0).backward()
    equal(x.grad, y / 5 / 1e-8, rtol=1e-6)


def test_cosine_similarity_refuses_integers():
    with pytest.raises(RuntimeError, match="expected common dtype to be floating point, yet common dtype is Int"):
        F.cosine_similarity(torch.ones(2, 5, dtype=torch.int), torch.ones(2, 5, dtype=torch.int))


POINTS = [[0.0, 2.0, 1.0], [2.0, 0.0, 1.0]]


def test_cov_with_weights():
    both = torch.cov(torch.tensor(POINTS), fweights=torch.tensor([1, 2, 3]), aweights=torch.tensor([1.0, 2.0, 0.5]))
    equal(both, [[0.723077, -0.723077], [-0.723077, 0.723077]], atol=1e-5)


@pytest.mark.parametrize("weights, message", [
    ({"fweights": [1.0, 2.0, 3.0]}, "expected fweights to have integral dtype but got fweights with Float dtype"),
    ({"aweights": [1, 2, 3]}, "expected aweights to have floating point dtype but got aweights with Long dtype"),
    ({"fweights": [1, -2, 3]}, "fweights cannot be negative"),
    ({"aweights": [1.0, -2.0, 3.0]}, "aweights cannot be negative"),
    ({"aweights": [0.0, 0.0, 0.0]}, "weights sum to zero, can't be normalized"),
    ({"fweights": [1, 2]}, "the same numel as there are observations in the input but got 2 != 3"),
    ({"aweights": [[1.0, 2.0, 3.0]]}, "one or fewer dimensions but got aweights with 2 dimensions"),
])
def test_cov_refuses_weights(weights, message):
    with pytest.raises(RuntimeError, match=message):
        torch.cov(torch.tensor(POINTS), **{k: torch.tensor(v) for k, v in weights.items()})


def test_sum_to_size_without_dims_sums():
    assert torch.ones((), dtype=torch.bool).sum_to_size(()).dtype == torch.int64
    equal(torch.ones(2, 3, dtype=torch.bool).sum_to_size(1, 3), [[2, 2, 2]])
    x = torch.ones(2, 3, dtype=torch.bool)
    assert x.sum_to_size(2, 3) is x


def test_resize_keeps_strides_of_a_tensor_that_has_the_sizes():
    x = torch.zeros(3, 2).t()
    assert x.resize_as_(torch.zeros(2, 3)).stride() == (1, 2)
    assert x.resize_(2, 3).stride() == (1, 2)
    assert x.resize_as_(torch.zeros(2, 3), memory_format=torch.contiguous_format).stride() == (3, 1)
    assert x.resize_(3, 2).stride() == (2, 1)


def test_numbers_that_do_not_fit_the_dtype_are_refused():
    x, mask = torch.zeros(2, dtype=torch.int8), torch.tensor([True, False])
    for call in (lambda: x.masked_fill(mask, 300), lambda: x.masked_fill_(mask, 300),
                 lambda: x.index_fill(0, torch.tensor([0]), 300), lambda: x.scatter(0, torch.tensor([0]), 300),
                 lambda: F.pad(x, (1, 1), value=300), lambda: x.clamp(-300, 3), lambda: x.clamp(max=300)):
        with pytest.raises(RuntimeError, match="value cannot be converted to type int8_t without overflow"):
            call()
    assert x.tolist() == [0, 0]
    equal(torch.zeros(2, dtype=torch.uint8).masked_fill(mask, -1), torch.tensor([255, 0], dtype=torch.uint8))
    equal(torch.zeros(2, dtype=torch.float16).masked_fill(mask, -inf), torch.tensor([-inf, 0], dtype=torch.float16))
    with pytest.raises(RuntimeError, match="type c10::Half without overflow"):
        torch.zeros(2, dtype=torch.float16).masked_fill(mask, 1e6)
    with pytest.raises(RuntimeError, match="type float without overflow"):
        torch.zeros(2).masked_fill(mask, 1j)


def test_masks_of_bytes():
    mask, x = torch.tensor([1, 0, 1], dtype=torch.uint8), torch.arange(3)
    message = "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"
    with pytest.raises(RuntimeError, match=message):
        x.masked_fill(mask, 7)
    with pytest.raises(RuntimeError, match=message):
        x[mask] = 7
    x[mask] = torch.tensor([7, 8])
    assert x.tolist() == [7, 1, 8]


NORMS = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, (4,), w, b),
    "group_norm": lambda x, w, b: F.group_norm(x, 2, w, b),
    "batch_norm": lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
}


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("input, weight, bias, message", [
    ("float32", "float64", "float64", "mixed dtype (CPU): expect parameter to have scalar type of Float"),
    ("bfloat16", "float32", "bfloat16", "mixed dtype (CPU): expect parameter to have scalar type of Float"),
    ("float64", "float32", "float32", "mixed dtype (CPU): all inputs must share same datatype."),
    ("bfloat16", "bfloat16", "float32", "expected scalar type BFloat16 but found Float"),
    ("float32", None, "bfloat16", "mixed dtype (CPU): expect parameter to have scalar type of Float"),
])
def test_norms_refuse_mixed_dtypes(norm, input, weight, bias, message):
    parameters = [None if d is None else torch.ones(4, dtype=getattr(torch, d)) for d in (weight, bias)]
    with pytest.raises(RuntimeError) as error:
        NORMS[norm](torch.ones(2, 4, 4, dtype=getattr(torch, input)), *parameters)
    assert str(error.value) == message


@pytest.mark.parametrize("norm", NORMS)
def test_norms_of_16_bit_inputs_round_once(norm):
    torch.manual_seed(0)
    x = (torch.randn(8, 4, 4) * 3).bfloat16()
    w, b = torch.rand(4).bfloat16(), torch.rand(4).bfloat16()
    want = NORMS[norm](x.float(), w.float(), b.float()).bfloat16()
    equal(NORMS[norm](x, w, b), want, atol=0.02)
    equal(NORMS[norm](x, w.float(), b.float()), want)


def test_statistics_have_the_dtype_of_the_parameters():
    x, w = torch.randn(2, 4, 4).bfloat16(), torch.ones(4)
    for call in (lambda x, w: torch.native_layer_norm(x, (4,), w, w, 1e-5),
                 lambda x, w: torch.native_group_norm(x, w, w, 2, 4, 4, 2, 1e-5),
                 lambda x, w: torch.native_batch_norm(x, w, w, None, None, True, 0.1, 1e-5),
                 lambda x, w: torch.native_batch_norm(x, w, w, w, w, False, 0.1, 1e-5)):
        assert [t.dtype for t in call(x, w)] == [torch.bfloat16, torch.float32, torch.float32]
        assert [t.dtype for t in call(x, w.bfloat16())] == [torch.bfloat16] * 3
        assert [t.dtype for t in call(x.double(), w.double())] == [torch.float64] * 3


def test_rms_norm_has_the_dtype_of_its_input():
    assert F.rms_norm(torch.randn(2, 3), (3,), torch.ones(3).double()).dtype == torch.float32
    assert F.rms_norm(torch.randn(2, 3).bfloat16(), (3,), torch.ones(3)).dtype == torch.bfloat16


def test_batch_norm_of_a_vector():
    empty = torch.ones(0)
    assert F.batch_norm(empty, empty, empty).shape == (0,)
    with pytest.raises(RuntimeError, match="running_mean should contain 0 elements not 1"):
        F.batch_norm(torch.ones(3), torch.ones(1), torch.ones(1))


@pytest.mark.parametrize("name", ["dropout", "alpha_dropout", "feature_alpha_dropout", "dropout2d"])
@pytest.mark.parametrize("p, training", [(0.0, True), (0.5, False)])
def test_inactive_dropout_in_place_changes_nothing(name, p, training):
    x = torch.ones(2, 3, 4, 4)
    assert getattr(F, name)(x, p, training, inplace=True) is x and x._version == 0
    leaf = torch.ones(2, 3, 4, 4, requires_grad=True)
    y = leaf * 2
    node, version = y.grad_fn, y._version
    assert getattr(F, name)(y, p, training, inplace=True).grad_fn is node and y._version == version
    assert getattr(F, name)(leaf, p, training, inplace=True) is leaf
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        getattr(F, name)(leaf, 0.5, True, inplace=True)


def test_none_stands_for_an_empty_list_of_dims():
    x = torch.arange(6.0).view(2, 3)
    equal(torch.amax(x, dim=None), 5.0)
    equal(x.amin(None, True), [[0.0]])
    equal(torch.roll(x, 1, None), [[5.0, 0.0, 1.0], [2.0, 3.0, 4.0]])
    with pytest.raises(RuntimeError, match="shifts and dimensions must align. shifts: 2, dims:0"):
        torch.roll(x, (1, 2), None)
    with pytest.raises(TypeError, match="must be tuple of ints, not NoneType"):
        torch.rot90(x, 1, None)


def test_assigned_values_may_have_leading_ones():
    x = torch.zeros(3, 2)
    x[torch.tensor([0, 1])] = torch.ones(1, 1, 2, 2)
    x[x == 0] = torch.full((1, 1, 2), 2.0)
    x[0, torch.tensor([1])] = torch.full((1, 1, 1), 3.0)
    equal(x, [[1.0, 3.0], [1.0, 1.0], [2.0, 2.0]])
    with pytest.raises(RuntimeError, match="shape mismatch"):
        x[torch.tensor([0, 1])] = torch.ones(2, 1, 2, 2)
    values = torch.ones(1, 1, 2, requires_grad=True)
    x[[0, 1], [0, 0]] = values
    x.sum().backward()
    assert values.grad.shape == (1, 1, 2) and values.grad.sum() == 2


def test_gradcheck_stays_a_function():
    from cresset.autograd.gradcheck import GradcheckError
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(torch.sin, (x,)) and issubclass(GradcheckError, RuntimeError)


def test_tensor_types_in_annotations():
    import types
    union = torch.LongTensor | None
    assert isinstance(union, types.UnionType) and repr(union) == f"{torch.__name__}.LongTensor | None"
    assert isinstance(torch.tensor([1]), union) and not isinstance(torch.tensor([1.0]), union)
    assert not issubclass(torch.LongTensor, torch.Tensor)
    assert torch.LongTensor([1, 2]).dtype == torch.LongTensor.dtype == torch.int64
    with pytest.raises(TypeError, match="is not an acceptable base type"):
        type("Mine", (torch.FloatTensor,), {})


F32, F64 = torch.float32, torch.float64
X, INDEX = torch.arange(6.0), torch.tensor([0, 1])


@pytest.mark.parametrize("call, dtype, message", [
    (lambda out: torch.mm(torch.ones(2, 2), torch.ones(2, 2), out=out), F64,
     "Expected out tensor to have dtype float, but got double instead"),
    (lambda out: torch.argmax(X, 0, out=out), torch.int32,
     "Expected out tensor to have dtype long int, but got int instead"),
    (lambda out: torch.max(X, 0, out=(torch.empty(0), out)), torch.int32,
     "Expected out tensor to have dtype long int, but got int instead"),
    (lambda out: torch.amax(X, 0, out=out), F64,
     "Expected the dtype for input and out to match, but got Float for input's dtype and Double for out's dtype."),
    (lambda out: torch.gather(X, 0, INDEX, out=out), F64,
     "Expected out tensor to have dtype float, but got double instead"),
    (lambda out: torch.take(X, INDEX, out=out), F64,
     "take(): self and out expected to have the same dtype, but got self.dtype = Float and out.dtype = Double"),
    (lambda out: torch.neg(X, out=out), F64, "Found dtype Double but expected Float"),
    (lambda out: torch.add(X, X, out=out), torch.int32,
     "result type Float can't be cast to the desired output type Int"),
    (lambda out: torch.sum(X, 0, dtype=F64, out=out), F32,
     "Expected out tensor to have dtype double, but got float instead"),
    (lambda out: torch.zeros(6, dtype=F32, out=out), F64, "dtype Float does not match dtype of out parameter (Double)"),
    (lambda out: torch.softmax(X, 0, out=out), F64, "Expected out tensor to have dtype float, but got double instead"),
])
def test_out_of_another_dtype_is_refused(call, dtype, message):
    with pytest.raises(RuntimeError) as error:
        call(torch.empty(0, dtype=dtype))
    assert str(error.value) == message


def test_out_of_another_dtype_is_taken():
    equal(torch.add(X, X, out=torch.empty(6, dtype=F64)), torch.arange(6.0).double() * 2)
    equal(torch.eq(X, X, out=torch.empty(6)), torch.ones(6))
    equal(torch.sum(torch.tensor([1.5, 1.5]), 0, out=torch.empty((), dtype=torch.int64)), 2)
    equal(torch.cumsum(torch.tensor([1.5, 1.5]), 0, out=torch.empty(2, dtype=torch.int64)), [1, 2])
    with pytest.raises(TypeError, match="input types can't be cast to the desired output type Int"):
        torch.cat([X, X], out=torch.empty(12, dtype=torch.int32))


OVERLAPPING = {
    "add": lambda x: torch.add(x[:5], 1, out=x[1:]),
    "exp": lambda x: torch.exp(x[:5], out=x[1:]),
    "where": lambda x: torch.where(x[:5] > 1, x[:5], x[:5], out=x[1:]),
    "lerp": lambda x: torch.lerp(x[:5], x[:5], 0.5, out=x[1:]),
    "add_": lambda x: x[1:].add_(x[:5]),
    "add_ transposed": lambda x: x[:4].view(2, 2).add_(x[:4].view(2, 2).t()),
    "copy_": lambda x: x[1:].copy_(x[:5]),
    "cat": lambda x: torch.cat([x[:3], x[:2]], out=x[1:]),
    "cumsum": lambda x: torch.cumsum(x[:5], 0, out=x[1:]),
    "gather": lambda x: torch.gather(x, 0, INDEX, out=x[:2]),
    "gather itself": lambda x: torch.gather(x[:2], 0, INDEX, out=x[:2]),
    "index_select": lambda x: torch.index_select(x, 0, INDEX, out=x[:2]),
    "take": lambda x: torch.take(x, INDEX, out=x[:2]),
    "index_add_": lambda x: x.index_add_(0, INDEX, x[:2]),
    "scatter_": lambda x: x.scatter_(0, INDEX, x[2:4]),
}


@pytest.mark.parametrize("name", OVERLAPPING)
def test_writing_to_part_of_an_argument_is_refused(name):
    x = torch.arange(6.0)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a"):
        OVERLAPPING[name](x)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_writing_to_all_of_an_argument_is_allowed():
    x = torch.arange(4.0)
    equal(torch.add(x, 1, out=x), [1.0, 2.0, 3.0, 4.0])
    equal(x[::2].add_(x[::2]), [2.0, 6.0])
    equal(torch.add(x[::2], 1, out=x[1::2]), [3.0, 7.0])


def test_truncating_division_of_16_bit_floats_rounds_before_it_truncates():
    x, y = (torch.tensor(v, dtype=torch.bfloat16) for v in ([7.0, -7.0, 100.0, 3.3], [2.0, 2.0, 0.3, 0.1]))
    equal(torch.div(x, y, rounding_mode="trunc"), torch.tensor([3.0, -3.0, 332.0, 33.0], dtype=torch.bfloat16))


def test_logcumsumexp_at_complex_infinities():
    x = torch.tensor([complex(-inf, 0), 1 + 1j, complex(-inf, 2), complex(inf, 1), complex(2, 3)])
    equal(torch.logcumsumexp(x, 0), torch.tensor([complex(-inf, 0), 1 + 1j, 1 + 1j, complex(inf, 1), complex(inf, 1)]))


def test_gradient_of_values_on_a_grid():
    x = torch.tensor([1, 5, 4])
    equal(torch.gradient(x)[0], [4.0, 1.5, -1.0])
    equal(torch.gradient(x, spacing=(torch.tensor([0, 1, 3]),))[0], [4.0, 2.5, -0.5])
    equal(torch.gradient(x.double(), spacing=(torch.tensor([0.0, 1, 3]).double(),), edge_order=2)[0],
          torch.tensor([5.5, 2.5, -3.5], dtype=torch.float64), atol=1e-12)
    grid = torch.arange(12.0).view(3, 4) ** 2
    rows, columns = torch.gradient(grid, spacing=(2.0, 0.5))
    equal(torch.gradient(grid, spacing=2.0, dim=0)[0], rows)
    equal(torch.gradient(grid, spacing=0.5, dim=-1)[0], columns)
    equal(columns[0], [2.0, 4.0, 8.0, 10.0])
    for given, message in (({"spacing": (1.0, 2.0, 3.0)}, "or a list of length equal to 'self.dim\\(\\) = 2'"),
                           ({"edge_order": 3}, "only supports edge_order=1 and edge_order=2"),
                           ({"dim": (0, -2)}, "dim 0 appears multiple times in the list of dims")):
        with pytest.raises(RuntimeError, match=message):
            torch.gradient(grid, **given)
    with pytest.raises(RuntimeError, match="each dimension size to be at least edge_order\\+1"):
        torch.gradient(torch.ones(2), edge_order=2)


def test_cdist_takes_torchs_modes():
    x, y = torch.tensor([[0.0, 0.0], [3.0, 4.0]]), torch.tensor([[0.0, 0.0]])
    equal(torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist"), [[0.0], [5.0]])
    assert torch.cdist is torch.functional.cdist
    with pytest.raises(ValueError, match="mean is not a valid value for compute_mode"):
        torch.cdist(x, y, compute_mode="mean")


@pytest.mark.parametrize("loss", [F.multi_margin_loss, F.multilabel_margin_loss])
def test_margin_losses_of_numbers_and_empty_inputs(loss):
    equal(loss(torch.ones(()), torch.tensor(0)), 0.0)
    assert loss(torch.ones(()), torch.tensor(0), reduction="none").shape == ()
    with pytest.raises(RuntimeError, match=r"with optional 0-dim batch size, but got: \[5, 0\]"):
        loss(torch.ones(5, 0), torch.zeros(5, 0, dtype=torch.int64))


def test_the_derivative_of_hardsigmoid_has_torchs_constant():
    x = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    F.hardsigmoid(x).backward()
    assert x.grad.item() == 0.1666666716337204


def test_storages_of_files(tmp_path):
    path = tmp_path / "bytes"
    shared = torch.UntypedStorage.from_file(str(path), True, 16)
    torch.empty(0, dtype=torch.int32).set_(shared).fill_(7)
    assert path.read_bytes() == b"\7\0\0\0" * 4 and shared.filename == str(path)
    private = torch.UntypedStorage.from_file(str(path), shared=False, nbytes=8)
    x = torch.empty(0, dtype=torch.int32).set_(private)
    assert x.tolist() == [7, 7] and private.filename is None
    x.fill_(8)
    assert path.read_bytes()[:4] == b"\7\0\0\0"
    assert torch.IntStorage.from_file(str(path), False, 2).tolist() == [7, 7]
    assert torch.from_file(str(path), size=4, dtype=torch.int32).tolist() == [7] * 4
    assert torch.from_file(str(path), True, 5, dtype=torch.int32)[4] == 0 and path.stat().st_size == 20
    with pytest.raises(RuntimeError, match="in read-only mode: No such file or directory \\(2\\)"):
        torch.UntypedStorage.from_file(str(tmp_path / "none"), False, 16)
    with pytest.raises(RuntimeError, match="size <20> is smaller than the required mapping size <160>"):
        torch.UntypedStorage.from_file(str(path), False, 160)


@pytest.mark.parametrize("mean, std", [("float16", "float32"), ("bfloat16", "float16"), ("float32", "float64"), ("float64", "float16")])
def test_normal_has_the_dtype_of_the_means(mean, std):
    mean, std = torch.zeros(2, dtype=getattr(torch, mean)), torch.ones(2, dtype=getattr(torch, std))
    assert torch.normal(mean, std).dtype == mean.dtype and torch.normal(0.0, std).dtype == std.dtype
    assert torch.distributions.Normal(mean, std).sample().dtype == mean.dtype


@pytest.mark.parametrize("n", (2, 63, 64, 130))
@pytest.mark.parametrize("dtype", ("float32", "float64", "complex64", "float16"))
def test_a_product_without_a_factor_is_not_read(n, dtype):
    """alpha=0 leaves out the product, at any size; half types multiply."""
    dtype = getattr(torch, dtype)
    a, c = torch.full((n, n), nan, dtype=dtype), torch.ones(n, n, dtype=dtype)
    for got in (torch.addmm(c, a, a, alpha=0), torch.baddbmm(c[None], a[None], a[None], alpha=0)[0],
                torch.addbmm(c, a[None], a[None], alpha=0), torch.addmv(c[0], a, a[0], alpha=0)):
        assert bool(got.isnan().all()) == (dtype == torch.float16) and (dtype == torch.float16 or bool((got == 1).all()))
    assert torch.addmm(a, c, c, beta=0).isfinite().all()


def test_tensor_takes_every_number_of_a_floating_dtype_as_its_nearest_value():
    for dtype, most in ((torch.float16, inf), (torch.bfloat16, inf), (torch.float32, inf), (torch.float8_e5m2, inf),
                        (torch.float8_e4m3fn, 448.0)):
        for value in (-1e300, 1e300):
            made = [torch.tensor(value, dtype=dtype), torch.tensor([[value]], dtype=dtype)]
            assert all(x == (most if value > 0 else -most) for t in made for x in t.float().flatten().tolist()), dtype
    assert torch.tensor(-5e7, dtype=torch.float16).item() == -inf and torch.tensor(70000, dtype=torch.float16).item() == inf
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        with pytest.raises(RuntimeError, match="without overflow"):
            torch.full((2,), 1e300, dtype=dtype)
    assert torch.tensor(1j, dtype=torch.bool).item() is True
    with pytest.raises(TypeError, match="'complex' object cannot be interpreted as an integer"):
        torch.tensor(1j, dtype=torch.int8)


def test_tensor_takes_every_complex_number():
    for given, dtype in (([1e200 + 1j], None), ([1e200], torch.complex64), ([complex(1, -1e200)], torch.complex64)):
        made = torch.tensor(given, dtype=dtype)
        assert made.dtype == torch.complex64
        numpy.testing.assert_array_equal(made.numpy(), numpy.array(given, dtype="complex128").astype("complex64"))


def test_ldexp_of_exponents_whose_power_overflows():
    x = torch.tensor([1.5, 1e-30, 3e38, -0.0, inf])
    e = torch.tensor([127, 200, -300, 2000, -2000])
    equal(torch.ldexp(x, e), [1.5 * 2.0**127, torch.tensor(1e-30).item() * 2.0**200, 0.0, -0.0, inf])
    equal(torch.ldexp(torch.ones(2).double(), torch.tensor([1000, -1074])), torch.tensor([2.0**1000, 5e-324], dtype=torch.float64))
    equal(torch.ldexp(torch.ones(1).half(), torch.tensor([3])), torch.tensor([8.0]).half())
    equal(torch.ldexp(torch.ones(1).double(), torch.tensor(0.5)), torch.tensor([2**0.5], dtype=torch.float64), rtol=1e-15)


def test_ldexp_of_complex_numbers():
    equal(torch.ldexp(torch.tensor([1 + 1j]), torch.tensor([2])), [4 + 4j])
    equal(torch.ldexp(torch.tensor([1j]), torch.tensor([1.0])), [2j])
    for x in (torch.tensor([2]), torch.tensor([2.0])):
        equal(torch.ldexp(x, torch.tensor([1j])), [2 * 2**1j], rtol=1e-6)


@pytest.mark.parametrize("dtype", (torch.float16, torch.float32, torch.float64, torch.int64))
def test_a_number_is_searched_with_all_its_bits(dtype):
    row = torch.tensor([1, 2, 3]).to(dtype)
    for number, at in ((1e39, 3), (-1e39, 0), (2, 1), (1 + 1e-12, int(dtype == torch.float64)))[:3 + dtype.is_floating_point]:
        assert torch.bucketize(number, row).item() == torch.searchsorted(row, number).item() == at


@pytest.mark.parametrize("row", ([0, 2, 3], [1, 0, 3], [0, 0, 3], [0, 0, 0], [0, 2, 0, 3, 0], [2, 3, 4]))
def test_second_derivative_of_running_products_with_zeros(row):
    x = torch.tensor(row).double()
    weight = torch.arange(1.0, 1 + len(row)).double() ** 2

    def products(t):
        parts = [t[0]]
        for k in range(1, len(row)):
            parts.append(parts[-1] * t[k])
        return torch.stack(parts)
    for derivative in (torch.func.hessian, lambda f: torch.func.jacfwd(torch.func.jacfwd(f))):
        equal(derivative(lambda t: (t.cumprod(0) * weight).sum())(x), derivative(lambda t: (products(t) * weight).sum())(x))


@pytest.mark.parametrize("row, want", (
    ([0, *[2] * 200], [inf, *[0] * 200]), ([0, 0, *[2] * 200], [1, *[0] * 201]), ([1, 1, 0, *[2] * 200], [2, 1, inf, *[0] * 200]),
    ([0, inf, 2], [inf, 0, 0]), ([2, 0, inf, 3], [1, inf, 0, 0]), ([0, nan, 2], [nan, 0, 0]), ([2, 0, nan], [1, nan, 0]),
    ([nan, 0, 2], [nan, nan, 0]), ([inf, 0, 2], [nan, inf, 0]), ([2, inf, 3], [inf, nan, inf])))
def test_derivative_of_running_products_that_overflow_behind_zeros(row, want):
    x = torch.tensor(row, dtype=torch.float32, requires_grad=True)
    equal(torch.autograd.grad(x.cumprod(0).sum(), x)[0], torch.tensor(want, dtype=torch.float32))


WRITES = {
    "scatter": lambda x, s, i: x.scatter(0, i, s), "index_put": lambda x, s, i: x.index_put((i,), s), "put": lambda x, s, i: x.put(i, s),
    "index_copy": lambda x, s, i: x.index_copy(0, i, s), "scatter_": lambda x, s, i: x.clone().scatter_(0, i, s),
    "put and add": lambda x, s, i: x.put(i, s, accumulate=True), "index_put and add": lambda x, s, i: x.index_put((i,), s, accumulate=True),
    "index_add": lambda x, s, i: x.index_add(0, i, s), "scatter_add": lambda x, s, i: x.scatter_add(0, i, s),
}


@pytest.mark.parametrize("name", WRITES)
def test_tangents_of_writes_with_equal_indices(name):
    x, s, i = torch.arange(1.0, 6.0), torch.tensor([10.0, 20.0, 30.0]), torch.tensor([1, 1, 3])
    dx, ds = x * 0.5, torch.tensor([0.5, 1.0, 1.5])
    out, tangent = torch.func.jvp(lambda x, s: WRITES[name](x, s, i), (x, s), (dx, ds))
    equal(out, WRITES[name](x, s, i))
    equal(tangent, WRITES[name](dx, ds, i))


@pytest.mark.parametrize("name", WRITES)
def test_second_derivatives_of_writes_with_equal_indices(name):
    """The gradient of s is that of the written places, also for elements that others replace."""
    i = torch.tensor([1, 1, 3])
    s = torch.tensor([1.0, 3.0, 2.0], requires_grad=True)
    f = lambda s: (WRITES[name](torch.zeros(5), s, i) ** 2).sum()
    g, = torch.autograd.grad(f(s), s, create_graph=True)
    equal(g, [8.0, 8.0, 4.0] if "add" in name else [6.0, 6.0, 4.0])
    for k, want in enumerate(([2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 2.0])):
        equal(torch.autograd.grad(g[k], s, retain_graph=True)[0], want)
    forward = torch.func.jacfwd(torch.func.grad(f))(s.detach())  # tangents replace elements
    equal(forward[:, 0], [2.0, 2.0, 0.0] if "add" in name else [0.0, 0.0, 0.0])


@pytest.mark.parametrize("reduce", ("amax", "amin"))
def test_an_extreme_without_self_has_no_share_for_self(reduce):
    x, s = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor([2.0, 2.0], requires_grad=True)
    for y in (x.scatter_reduce(0, torch.tensor([1, 1]), s, reduce, include_self=False), x.index_reduce(0, torch.tensor([1, 1]), s, reduce, include_self=False)):
        dx, ds = torch.autograd.grad(y.sum(), (x, s))
        equal(dx, [1.0, 0.0, 1.0])
        equal(ds, [0.5, 0.5])


def test_the_gradient_of_a_mean_can_be_written():
    x = torch.ones(2, 3, 4, requires_grad=True)
    for y in (x.mean(), x.mean(1), F.adaptive_avg_pool2d(x, 1)):
        g, = torch.autograd.grad(y.sum(), x)
        g.mul_(2)
        assert g.is_contiguous() and not (g - g[0, 0, 0]).any()


@pytest.mark.parametrize("pool", (lambda x: F.avg_pool2d(x, 2), lambda x: F.adaptive_avg_pool2d(x, 2), lambda x: F.max_pool2d(x, 2)))
def test_gradients_of_pools_keep_the_memory_format(pool):
    x = torch.ones(2, 3, 4, 6).contiguous(memory_format=torch.channels_last).requires_grad_()
    y = pool(x)
    g, = torch.autograd.grad(y, x, torch.ones_like(y))
    assert g.is_contiguous(memory_format=torch.channels_last)


def test_noise_around_a_complex_mean_is_complex():
    for spread in (2.0, torch.tensor(2.0)):
        torch.manual_seed(1)
        x = torch.normal(torch.full((4,), 1 + 1j), spread)
        equal(x, torch.tensor([1.935293 + 1.377488j, 1.087225 + 1.878675j, 0.360909 + 0.765056j, -1.153520 + 1.539782j]), atol=1e-5)


def test_a_derivative_of_zero_needs_no_values():
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    for f in (torch.sign, torch.floor, torch.round):
        y = f(x)
        y.sum().backward()
        y.sum().backward()
        equal(x.grad, [0.0, 0.0])


def test_handlers_are_asked_by_deletions_and_second_arguments():
    asked = []

    class Asking(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})
    x, plain = torch.ones(2).as_subclass(Asking).requires_grad_(), torch.ones(2, dtype=torch.float64)
    asked.clear()
    x.grad = torch.ones(2)
    del x.grad
    assert plain.type_as(x).dtype == torch.float32 and plain.is_same_size(x) and x.grad is None
    assert asked == ["__set__", "__delete__", "type_as", "__get__", "is_same_size", "__get__"]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype, mean", [(torch.float32, 1e7), (torch.float32, 1e5), (torch.float64, 1e15), (torch.complex64, 1e6 - 3e6j)])
def test_variances_far_from_zero(dtype, mean, compiled):
    """The mean is rounded to the dtype; its error is no part of the variance."""
    small = torch.tensor([[0, 1, 2, 3], [5, 1, 7, 2], [3, 3, 3, 4]])
    x = small + torch.tensor(mean, dtype=dtype)  # exact
    near = {"rtol": 3e-7 if dtype != torch.float64 else 1e-15}
    for d, correction in ((None, 1), (0, 1), (1, 0), (1, 1)):
        want = numpy.var(small.numpy(), axis=d, ddof=correction)
        functions = {torch.var: want, torch.std: want ** 0.5, lambda x, **k: torch.var_mean(x, **k)[0]: want,
                     lambda x, **k: torch.std_mean(x, **k)[0]: want ** 0.5}
        for function, value in functions.items():
            run = torch.compile(function) if compiled else function
            for _ in range(3 if compiled else 1):
                numpy.testing.assert_allclose(run(x, dim=d, correction=correction).numpy(), value, **near)


def test_variances_at_the_edges_of_floats():
    assert torch.var(torch.full((1001,), 0.1)).item() == 0 and torch.var_mean(torch.full((1001,), 0.1))[0].item() == 0
    assert torch.var(torch.tensor([1e30, 1e30 * (1 + 1.2e-7), 1e30 * (1 + 2.4e-7)])).item() == float("inf")
    assert torch.var(torch.tensor([1.0, float("inf")])).isnan() and torch.var(torch.ones(0)).isnan()


def test_a_tensor_takes_no_storage_of_another_device_or_dtype():
    host, meta = torch.ones(2), torch.ones(2, device="meta")
    for x, y, source in ((host, meta, meta), (meta, host, host), (host, meta, meta.untyped_storage()), (meta, host, host.untyped_storage())):
        with pytest.raises(RuntimeError) as error:
            x.set_(source)
        assert str(error.value) == (f'Attempted to set the storage of a tensor on device "{x.device}" to a storage on different device "{y.device}".  '
                                    "This is no longer allowed; the devices must match.")
    with pytest.raises(RuntimeError, match="^Could not set tensor of type long int to a tensor of type float$"):
        host.set_(torch.ones(2, dtype=torch.int64))
    assert host.tolist() == [1, 1] and host.device.type == "cpu" and meta.is_meta
