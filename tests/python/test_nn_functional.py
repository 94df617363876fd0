"""Functions: errors, warnings, and cases that layers do not cover."""
import math
import warnings

import cresset as torch
import cresset.nn.functional as F
import pytest
from cresset import nn
from cresset.nn.utils import rnn as packing


def message(kind, function):
    with pytest.raises(kind) as caught:
        function()
    return str(caught.value)


def numbers(tensor):
    return tensor.reshape(-1).tolist()


def close(tensor, expected):
    return numbers(tensor) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax, F.softmin])
def test_a_missing_dimension_warns_where_it_is_missing(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(torch.ones(2, 3))
    assert [str(w.message) for w in caught] == [
        f"Implicit dimension choice for {function.__name__} has been deprecated. Change the call "
        "to include dim=X as an argument."]
    assert caught[0].category is UserWarning and caught[0].filename == __file__


def test_the_missing_dimension_is_the_old_one():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shape, dim in (((3,), 0), ((2, 3), 1), ((2, 3, 2), 0), ((1, 2, 2, 2), 1)):
            x = torch.arange(float(math.prod(shape))).reshape(shape).sin()
            assert torch.equal(F.softmax(x), F.softmax(x, dim))


def test_softmax_can_compute_in_another_type():
    out = F.softmax(torch.tensor([1.0, 2.0]), 0, dtype=torch.float64)
    assert out.dtype == torch.float64
    assert close(out, [0.2689414213699951, 0.7310585786300049])


@pytest.mark.parametrize("call, kind, text", [
    (lambda: F.dropout(torch.ones(1), 2.0), ValueError,
     "dropout probability has to be between 0 and 1, but got 2.0"),
    (lambda: F.alpha_dropout(torch.ones(1), -0.1), ValueError,
     "dropout probability has to be between 0 and 1, but got -0.1"),
    (lambda: F.glu(torch.tensor(1.0)), RuntimeError,
     "glu does not support scalars because halving size must be even"),
    (lambda: F.hardtanh(torch.ones(1), 1, 0), ValueError,
     "min_val cannot be greater than max_val"),
    (lambda: F.embedding(torch.tensor([0]), torch.ones(2, 2), padding_idx=2), AssertionError,
     "Padding_idx must be within num_embeddings"),
    (lambda: F.embedding_bag(torch.tensor([0]), torch.ones(2, 2)), ValueError,
     "offsets has to be a 1D Tensor but got None"),
    (lambda: F.embedding_bag(torch.tensor([[0]]), torch.ones(2, 2), mode="x"), ValueError,
     "mode has to be one of sum, mean or max"),
    (lambda: F.mse_loss(torch.ones(1), torch.ones(1), reduction="x"), ValueError,
     "x is not a valid value for reduction"),
    (lambda: F.binary_cross_entropy(torch.ones(2), torch.ones(1)), ValueError,
     "Using a target size (torch.Size([1])) that is different to the input size "
     "(torch.Size([2])) is deprecated. Please ensure they have the same size."),
    (lambda: F.binary_cross_entropy_with_logits(torch.ones(2), torch.ones(1)), ValueError,
     "Target size (torch.Size([1])) must be the same as input size (torch.Size([2]))"),
    (lambda: F.batch_norm(torch.ones(1, 2), None, None, training=True), ValueError,
     "Expected more than 1 value per channel when training, got input size torch.Size([1, 2])"),
    (lambda: F.batch_norm(torch.ones(2, 2), None, None, training=True, eps=0.0), ValueError,
     "batch_norm eps must be positive during training, but got 0.0"),
    (lambda: F.instance_norm(torch.ones(2, 2, 1)), ValueError,
     "Expected more than 1 spatial element when training, got input size torch.Size([2, 2, 1])"),
    (lambda: F.group_norm(torch.ones(2), 1), RuntimeError,
     "Expected at least 2 dimensions for input tensor but received 1"),
    (lambda: F.gaussian_nll_loss(torch.ones(2), torch.ones(2), torch.tensor([1.0, -1.0])),
     ValueError, "var has negative entry/entries"),
    (lambda: F.gaussian_nll_loss(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 2)),
     ValueError, "var is of incorrect size"),
    (lambda: F.interpolate(torch.ones(1, 1, 2)), ValueError,
     "either size or scale_factor should be defined"),
    (lambda: F.interpolate(torch.ones(1, 1, 2), 3, 2.0), ValueError,
     "only one of size or scale_factor should be defined"),
    (lambda: F.interpolate(torch.ones(1, 1, 2), 3, mode="bilinear"), NotImplementedError,
     "Got 3D input, but bilinear mode needs 4D input"),
    (lambda: F.interpolate(torch.ones(1, 1, 2), 3, align_corners=True), ValueError,
     "align_corners option can only be set with the interpolating modes: linear | bilinear | "
     "bicubic | trilinear"),
    (lambda: F.grid_sample(torch.ones(1, 1, 2, 2), torch.ones(1, 2, 2, 2), "x"), ValueError,
     "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but "
     "got: 'x'"),
    (lambda: F.triplet_margin_loss(*[torch.ones(1, 2)] * 3, margin=0), ValueError,
     "margin must be greater than 0, got 0"),
    (lambda: F.multi_margin_loss(torch.ones(1, 2), torch.tensor([0]), p=3), ValueError,
     "only p == 1 and p == 2 supported"),
    (lambda: F.max_unpool2d(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 2, 2, dtype=torch.int64),
                            2, output_size=(9, 9)), ValueError,
     'invalid output_size "(9, 9)" (dim 0 must be between 2 and 6)'),
    (lambda: F.multi_head_attention_forward(
        *[torch.ones(2, 1, 4)] * 3, 5, 2, None, None, None, None, False, 0.0, None, None),
     AssertionError, "was expecting embedding dimension of 5, but got 4"),
])
def test_errors(call, kind, text):
    assert message(kind, call) == text


@pytest.mark.parametrize("call, text", [
    (lambda: F.mse_loss(torch.ones(2, 1), torch.ones(2)),
     "Using a target size (torch.Size([2])) that is different to the input size (torch.Size([2, "
     "1])). This will likely lead to incorrect results due to broadcasting. Please ensure they "
     "have the same size."),
    (lambda: F.l1_loss(torch.ones(2), torch.ones(2), size_average=False),
     "size_average and reduce args will be deprecated, please use reduction='sum' instead."),
    (lambda: F.l1_loss(torch.ones(2), torch.ones(2), reduction="elementwise_mean"),
     "reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead."),
    (lambda: F.upsample(torch.ones(1, 1, 2), 4),
     "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead."),
    (lambda: F.gumbel_softmax(torch.ones(2), eps=1.0),
     "`eps` parameter is deprecated and has no effect."),
    (lambda: F.dropout2d(torch.ones(2, 2)),
     "dropout2d: Received a 2-D input to dropout2d, which is deprecated and will result in an "
     "error in a future release. To retain the behavior and silence this warning, please use "
     "dropout instead. Note that dropout2d exists to provide channel-wise dropout on inputs with "
     "2 spatial dimensions, a channel dimension, and an optional batch dimension (i.e. 3D or 4D "
     "inputs)."),
    (lambda: nn.init.normal(torch.ones(1)),
     "`nn.init.normal` is now deprecated in favor of `nn.init.normal_`."),
    (lambda: nn.init.kaiming_normal_(torch.ones(0, 2)),
     "Initializing zero-element tensors is a no-op"),
])
def test_warnings(call, text):
    with pytest.warns() as caught:
        call()
    assert [str(w.message) for w in caught] == [text]


# All public functions of torch.nn.functional, except those for quantized training.
NAMES = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
adaptive_max_pool1d_with_indices adaptive_max_pool2d adaptive_max_pool2d_with_indices
adaptive_max_pool3d adaptive_max_pool3d_with_indices alpha_dropout avg_pool1d
avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy binary_cross_entropy_with_logits
celu celu_ channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d
conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy dropout dropout1d
dropout2d dropout3d elu elu_ embedding embedding_bag feature_alpha_dropout fold
gaussian_nll_loss gelu glu grid_sample group_norm
gumbel_softmax hardshrink hardsigmoid hardswish hardtanh hardtanh_ hinge_embedding_loss huber_loss
instance_norm interpolate kl_div l1_loss layer_norm leaky_relu leaky_relu_ linear
linear_cross_entropy local_response_norm log_softmax logsigmoid lp_pool1d lp_pool2d lp_pool3d
margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices
max_pool3d max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d mish mse_loss
multi_head_attention_forward multi_margin_loss multilabel_soft_margin_loss
nll_loss normalize one_hot pad pairwise_distance pixel_shuffle pixel_unshuffle
poisson_nll_loss prelu relu relu6 relu_ rms_norm scaled_dot_product_attention selu
selu_ sigmoid silu smooth_l1_loss soft_margin_loss softmax softmin softplus softshrink softsign
tanh tanhshrink threshold threshold_ triplet_margin_loss triplet_margin_with_distance_loss unfold
upsample upsample_bilinear upsample_nearest
"""


@pytest.mark.parametrize("name", NAMES.split())
def test_the_function_exists(name):
    assert callable(getattr(F, name))


def test_weights_of_differences():
    a, b, w = torch.tensor([1.0, 4.0]), torch.zeros(2), torch.tensor([3.0, 1.0])
    assert F.mse_loss(a, b, weight=w).item() == pytest.approx(19 / 4)
    assert F.l1_loss(a, b, weight=w).item() == pytest.approx(7 / 4)
    assert F.huber_loss(a, b, weight=w).item() == pytest.approx((3 * 0.5 + 3.5) / 2)
    assert F.mse_loss(a, b, weight=w, reduction="none").tolist() == [3.0, 16.0]


def test_normalize_divides_by_the_norm():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    assert close(F.normalize(x), [0.6, 0.8, 0.0, 0.0])
    assert close(F.normalize(x, p=1, dim=0), [1.0, 1.0, 0.0, 0.0])


def test_gumbel_softmax_is_a_sample():
    torch.manual_seed(0)
    logits = torch.zeros(4, 3, requires_grad=True)
    hard = F.gumbel_softmax(logits, hard=True)
    assert hard.sum(1).tolist() == pytest.approx([1.0] * 4)
    assert sorted(set(round(v) for v in numbers(hard))) == [0, 1]
    (hard * torch.arange(3.0)).sum().backward()
    assert logits.grad.abs().sum() > 0


def test_linear_cross_entropy_is_both():
    x, w = torch.arange(6.0).view(2, 3).sin(), torch.arange(12.0).view(4, 3).cos()
    target = torch.tensor([1, 3])
    assert F.linear_cross_entropy(x, w, target).item() == pytest.approx(
        F.cross_entropy(F.linear(x, w), target).item())


def test_attention_masks():
    torch.manual_seed(0)
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.arange(12.0).view(1, 3, 4).sin()
    hidden = torch.tensor([[False, False, True]])
    out, weights = attention(x, x, x, key_padding_mask=hidden)
    assert weights[0, :, 2].tolist() == [0.0] * 3
    assert torch.allclose(out, attention(x, x[:, :2], x[:, :2])[0], atol=1e-6)
    causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
    out, weights = attention(x, x, x, attn_mask=causal, average_attn_weights=False)
    assert weights.shape == (1, 2, 3, 3) and not weights[..., causal].any()
    fast, none = attention(x, x, x, attn_mask=causal, need_weights=False, is_causal=True)
    assert none is None and torch.allclose(out, fast, atol=1e-6)
    assert message(RuntimeError, lambda: attention(x, x, x, is_causal=True)).startswith(
        "Need attn_mask if specifying the is_causal hint.")
    assert message(RuntimeError, lambda: attention(
        x, x, x, attn_mask=torch.zeros(2, 2))) == (
        "The shape of the 2D attn_mask is torch.Size([2, 2]), but should be (3, 3).")


def test_resampling_by_grid():
    image = torch.arange(4.0).view(1, 1, 2, 2)
    grid = torch.tensor([[[[-0.5, -0.5], [0.5, -0.5]], [[-0.5, 0.5], [0.5, 0.5]]]])
    assert close(F.grid_sample(image, grid, align_corners=False), [0, 1, 2, 3])
    with pytest.warns(UserWarning, match="Default grid_sample and affine_grid behavior has"):
        F.grid_sample(image, grid)


# Packed sequences.

def test_packing_interleaves_by_step():
    x = torch.arange(8).view(4, 2)
    packed = packing.pack_padded_sequence(x, [4, 2])
    assert packed.data.tolist() == [0, 1, 2, 3, 4, 6]
    assert packed.batch_sizes.tolist() == [2, 2, 1, 1] and packed.sorted_indices is None
    padded, lengths = packing.pad_packed_sequence(packed, padding_value=-1)
    assert padded.tolist() == [[0, 1], [2, 3], [4, -1], [6, -1]] and lengths.tolist() == [4, 2]
    longer, _ = packing.pad_packed_sequence(packed, batch_first=True, total_length=5)
    assert longer.tolist() == [[0, 2, 4, 6, 0], [1, 3, 0, 0, 0]]


def test_packing_sorts_and_unsorts():
    parts = [torch.tensor([1, 2]), torch.tensor([3, 4, 5]), torch.tensor([6])]
    packed = packing.pack_sequence(parts, enforce_sorted=False)
    assert packed.data.tolist() == [3, 1, 6, 4, 2, 5]
    assert packed.sorted_indices.tolist() == [1, 0, 2]
    assert [p.tolist() for p in packing.unpack_sequence(packed)] == [p.tolist() for p in parts]
    assert packed.to(torch.float64).data.dtype == torch.float64
    assert packing.pad_sequence(parts, batch_first=True, padding_value=9).tolist() == [
        [1, 2, 9], [3, 4, 5], [6, 9, 9]]
    padded = packing.pad_sequence(parts, batch_first=True)
    unpadded = packing.unpad_sequence(padded, torch.tensor([2, 3, 1]), batch_first=True)
    assert [p.tolist() for p in unpadded] == [p.tolist() for p in parts]
    unpadded[0].zero_()  # a copy
    assert padded[0].tolist() == [1, 2, 0]


def test_packing_refuses_wrong_lengths():
    x = torch.ones(3, 2)
    assert message(RuntimeError, lambda: packing.pack_padded_sequence(x, [3])) == (
        "Expected `len(lengths)` to be equal to batch_size, but got 1 (batch_size=2)")
    assert message(RuntimeError, lambda: packing.pack_padded_sequence(x, [3, 0])) == (
        "Length of all samples has to be greater than 0, but found an element in 'lengths' that "
        "is <= 0")
    assert message(RuntimeError, lambda: packing.pack_padded_sequence(x, [1, 3])).startswith(
        "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True.")
    packed = packing.pack_padded_sequence(x, [3, 1])
    assert message(ValueError, lambda: packing.pad_packed_sequence(packed, total_length=2)) == (
        "Expected total_length to be at least the length of the longest sequence in input, but "
        "got total_length=2 and max sequence length being 3")


def test_a_packed_network_ignores_padding():
    torch.manual_seed(0)
    net = nn.LSTM(2, 3, bidirectional=True, batch_first=True)
    x = torch.arange(12.0).view(2, 3, 2).sin()
    packed = packing.pack_padded_sequence(x, [3, 2], batch_first=True)
    out, (h, c) = net(packed)
    out, _ = packing.pad_packed_sequence(out, batch_first=True)
    alone, (h1, c1) = net(x[1:, :2])
    assert torch.allclose(out[1:, :2], alone, atol=1e-6) and not out[1, 2].any()
    assert torch.allclose(h[:, 1:], h1, atol=1e-6) and torch.allclose(c[:, 1:], c1, atol=1e-6)


# Gradients of parameters.

def test_clipping_limits_the_common_norm():
    params = [nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1))]
    params[0].grad, params[1].grad = torch.tensor([3.0, 0.0]), torch.tensor([4.0])
    assert nn.utils.clip_grad_norm_(params, 1.0).item() == pytest.approx(5.0)
    assert close(params[0].grad, [0.6, 0.0]) and close(params[1].grad, [0.8])
    assert nn.utils.clip_grad_norm_(params, 9.0, norm_type=math.inf).item() == pytest.approx(0.8)
    nn.utils.clip_grad_value_(params, 0.5)
    assert close(params[0].grad, [0.5, 0.0]) and close(params[1].grad, [0.5])
    params[1].grad.fill_(math.inf)
    assert "is non-finite, so it cannot be clipped" in message(
        RuntimeError, lambda: nn.utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True))
    with pytest.warns(UserWarning, match="`parameters` is an empty generator"):
        nn.utils.clip_grad_norm_((p for p in []), 1.0)


def test_parameters_as_a_vector():
    net = nn.Linear(2, 1)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (3,)
    nn.utils.vector_to_parameters(torch.arange(3.0), net.parameters())
    assert net.weight.tolist() == [[0.0, 1.0]] and net.bias.tolist() == [2.0]


# Initialization, with recorded numbers for a fixed seed.

@pytest.mark.parametrize("fill, expected", [
    (lambda t: nn.init.uniform_(t, -1, 2), [0.4887698, 1.304665]),
    (lambda t: nn.init.normal_(t, 1, 2), [4.081992, 0.4131422]),
    (nn.init.xavier_uniform_, [-0.006483776, 0.4645738]),
    (lambda t: nn.init.xavier_normal_(t, 2), [1.540996, -0.2934289]),
    (nn.init.kaiming_uniform_, [-0.008201401, 0.5876445]),
    (lambda t: nn.init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"), [1.258218, -0.2395837]),
    (nn.init.trunc_normal_, [1.540996, -0.2934289]),
    (lambda t: nn.init.trunc_normal_(t, 0, 1, 2.5, 3), [2.748128, 2.876427]),
    (nn.init.orthogonal_, [0.5222306, -0.09944059]),
    (lambda t: nn.init.sparse_(t, 0.5), [0.01540996, -0.002934289]),
    (nn.init.eye_, [1.0, 0.0]),
    (lambda t: nn.init.constant_(t, 3), [3.0, 3.0]),
])
def test_filling_draws_the_recorded_numbers(fill, expected):
    torch.manual_seed(0)
    t = torch.zeros(3, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mean outside of the bounds is intended
        assert fill(t) is t
    assert close(t[0, :2], expected)


def test_initialization_uses_gains_and_fans():
    gain = nn.init.calculate_gain
    assert gain("linear") == 1 and gain("tanh") == 5 / 3 and gain("selu") == 0.75
    assert gain("relu") == math.sqrt(2) and gain("leaky_relu", 1) == 1
    assert message(ValueError, lambda: gain("x")) == "Unsupported nonlinearity x"
    assert message(ValueError, lambda: nn.init.xavier_uniform_(torch.ones(2))) == (
        "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    assert nn.init.dirac_(torch.ones(2, 2, 3)).tolist() == [
        [[0, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 1, 0]]]
    q = nn.init.orthogonal_(torch.empty(4, 3))
    assert torch.allclose(q.t() @ q, torch.eye(3), atol=1e-5)
