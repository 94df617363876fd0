"""Functions of neural networks: the operators of the table under torch.nn.functional's names.

A function of this module checks its arguments and calls an operator.  A function with exactly
the operator's arguments is the operator itself (see the lists given to `bind`).
"""
import math
import types
import warnings

import cresset
from .. import overrides  # handles calls of overridable functions
from .._C import overridable
from .._ops import bind, ops
from . import _reduction as _Reduction  # noqa: F401
from ._attention import (_canonical_mask, _in_projection, _in_projection_packed,
                         _mha_shape_check, _none_or_dtype, multi_head_attention_forward)
from ._losses import (binary_cross_entropy, binary_cross_entropy_with_logits,
                      cosine_embedding_loss, cross_entropy, ctc_loss, gaussian_nll_loss,
                      hinge_embedding_loss, huber_loss, kl_div, l1_loss, linear_cross_entropy,
                      margin_ranking_loss, mse_loss, multi_margin_loss,
                      multilabel_margin_loss, multilabel_soft_margin_loss, nll_loss, poisson_nll_loss, smooth_l1_loss,
                      soft_margin_loss, triplet_margin_loss, triplet_margin_with_distance_loss)
from ._pooling import (adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d,
                       adaptive_max_pool1d_with_indices, adaptive_max_pool2d,
                       adaptive_max_pool2d_with_indices, adaptive_max_pool3d,
                       adaptive_max_pool3d_with_indices, fractional_max_pool2d,
                       fractional_max_pool2d_with_indices, fractional_max_pool3d,
                       fractional_max_pool3d_with_indices, lp_pool1d, lp_pool2d, lp_pool3d,
                       max_pool1d, max_pool1d_with_indices, max_pool2d,
                       max_pool2d_with_indices, max_pool3d, max_pool3d_with_indices,
                       max_unpool1d, max_unpool2d, max_unpool3d)
from ._resampling import (GRID_SAMPLE_INTERPOLATION_MODES, GRID_SAMPLE_PADDING_MODES,
                          affine_grid, grid_sample, interpolate, upsample, upsample_bilinear,
                          upsample_nearest)
from .modules.utils import _pair

bind(globals(), """
    linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    conv_tbc avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d
    gelu hardshrink softshrink softplus prelu
    threshold_ relu_ hardtanh_ elu_ selu_ celu_ leaky_relu_
    pixel_shuffle pixel_unshuffle channel_shuffle native_channel_shuffle
    pairwise_distance cosine_similarity pdist rrelu_ one_hot scaled_dot_product_attention
""")
if hasattr(ops, "log_sigmoid"):
    logsigmoid = ops.log_sigmoid


# Dropout.

def _check_probability(p):
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes elements with probability `p` while training and multiplies the others by 1 / (1 - p).

    Without `training` the input is returned.

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.dropout(torch.ones(3), p=0.5, training=False)
        tensor([1., 1., 1.])
        >>> sorted(set(F.dropout(torch.ones(100), p=0.5).tolist()))
        [0.0, 2.0]
    """
    if p < 0.0 or p > 1.0:
        _check_probability(p)
    return ops.dropout_(input, p, training) if inplace else ops.dropout(input, p, training)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance of self-normalizing networks (with selu).

    Dropped elements become selu's limit, -1.7581; all are then scaled and shifted.

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.alpha_dropout(torch.ones(2, 3), training=True).shape
        torch.Size([2, 3])
    """
    _check_probability(p)
    return (ops.alpha_dropout_ if inplace else ops.alpha_dropout)(input, p, training)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels: all elements of a channel are dropped together.

    Shape: input (N, C, *) of a floating dtype; output the same.

    Example::

        >>> x = F.feature_alpha_dropout(torch.ones(2, 3, 4), training=True)
        >>> (x == x[..., :1]).all()
        tensor(True)
    """
    _check_probability(p)
    function = ops.feature_alpha_dropout_ if inplace else ops.feature_alpha_dropout
    return function(input, p, training)


def _feature_dropout(input, p, training, inplace, batched):
    function = ops.feature_dropout_ if inplace else ops.feature_dropout
    if batched:
        return function(input, p, training)
    if inplace:
        return function(input.unsqueeze_(0), p, training).squeeze_(0)
    return function(input.unsqueeze(0), p, training).squeeze(0)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels with probability `p` while training and multiplies the others by 1 / (1 - p).

    Shape: input (N, C, L) or (C, L) of a floating dtype; output the same.

    Example::

        >>> x = F.dropout1d(torch.ones(2, 3, 4))
        >>> (x == x[..., :1]).all()
        tensor(True)
    """
    _check_probability(p)
    ndim = input.dim()
    if ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {ndim}D input. Note that "
            "dropout1d exists to provide channel-wise dropout on inputs with 1 spatial "
            "dimension, a channel dimension, and an optional batch dimension (i.e. 2D or 3D "
            "inputs).")
    return _feature_dropout(input, p, training, inplace, ndim == 3)


def _warn_dropout_dims(name, ndim, spatial, dims):
    warnings.warn(
        f"{name}: Received a {ndim}-D input to {name}, which is deprecated and will result in an "
        "error in a future release. To retain the behavior and silence this warning, please use "
        f"dropout instead. Note that {name} exists to provide channel-wise dropout on inputs "
        f"with {spatial} spatial dimensions, a channel dimension, and an optional batch "
        f"dimension (i.e. {dims} inputs).", stacklevel=3)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of images with probability `p` while training and multiplies the others by 1 / (1 - p).

    Shape: input (N, C, H, W) of a floating dtype; output the same.

    Example::

        >>> x = F.dropout2d(torch.ones(2, 3, 4, 4))
        >>> (x == x[..., :1, :1]).all()
        tensor(True)
    """
    _check_probability(p)
    ndim = input.dim()
    if ndim not in (3, 4):
        _warn_dropout_dims("dropout2d", ndim, 2, "3D or 4D")
    if ndim == 3:
        warnings.warn(
            "dropout2d: Received a 3D input to dropout2d and assuming that channel-wise 1D "
            "dropout behavior is desired - input is interpreted as shape (N, C, L), where C is "
            "the channel dim. This behavior will change in a future release to interpret the "
            "input as one without a batch dimension, i.e. shape (C, H, W). To maintain the 1D "
            "channel-wise dropout behavior, please switch to using dropout1d instead.",
            stacklevel=2)
    return _feature_dropout(input, p, training, inplace, True)


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of volumes with probability `p` while training and multiplies the others by 1 / (1 - p).

    Shape: input (N, C, D, H, W) or (C, D, H, W) of a floating dtype; output the same.

    Example::

        >>> x = F.dropout3d(torch.ones(2, 3, 2, 2, 2))
        >>> (x == x[..., :1, :1, :1]).all()
        tensor(True)
    """
    _check_probability(p)
    ndim = input.dim()
    if ndim not in (4, 5):
        _warn_dropout_dims("dropout3d", ndim, 3, "4D or 5D")
    return _feature_dropout(input, p, training, inplace, ndim == 5)


# Activations.

def _threshold(input, threshold, value, inplace=False):
    """input where it is above `threshold`, else `value`.

    Shape: input (*) of an integer or floating dtype; output the same.

    Example::

        >>> F.threshold(torch.tensor([-1., 0.5, 2.]), 1, 20)
        tensor([20., 20.,  2.])
    """
    return (ops.threshold_ if inplace else ops.threshold)(input, threshold, value)


threshold = _threshold


def relu(input, inplace=False):
    """max(0, input); NaN stays.

    Shape: input (*) of an integer or floating dtype; output the same.

    Example::

        >>> F.relu(torch.tensor([-1., 0., 2.]))
        tensor([0., 0., 2.])
    """
    return ops.relu_(input) if inplace else ops.relu(input)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """input, negative elements times a number between `lower` and `upper`: drawn for each element while training, else their mean.

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.rrelu(torch.tensor([-12., 0., 2.]), 0.25, 0.5)
        tensor([-4.5000,  0.0000,  2.0000])
    """
    return (ops.rrelu_ if inplace else ops.rrelu)(input, lower, upper, training)


def glu(input, dim=-1):
    """The first half along `dim` times the sigmoid of the second half (gated linear unit).

    Shape: input (*, 2 N, *) of a floating dtype; output (*, N, *), halved along `dim`.

    Example::

        >>> F.glu(torch.tensor([1., 2., 0., 0.]))
        tensor([0.5000, 1.0000])
    """
    if input.dim() == 0:
        raise RuntimeError("glu does not support scalars because halving size must be even")
    return ops.glu(input, dim)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """input limited to [min_val, max_val].

    Shape: input (*) of an integer or floating dtype; output the same.

    Example::

        >>> F.hardtanh(torch.tensor([-3., 0.5, 3.]))
        tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (ops.hardtanh_ if inplace else ops.hardtanh)(input, min_val, max_val)


def relu6(input, inplace=False):
    """min(max(0, input), 6).

    Shape: input (*) of an integer or floating dtype; output the same.

    Example::

        >>> F.relu6(torch.tensor([-1., 5., 8.]))
        tensor([0., 5., 6.])
    """
    return ops.hardtanh_(input, 0.0, 6.0) if inplace else ops.relu6(input)


def elu(input, alpha=1.0, inplace=False):
    """input where positive, else alpha * (exp(input) - 1).

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.elu(torch.tensor([-1., 0., 2.]))
        tensor([-0.6321,  0.0000,  2.0000])
    """
    return ops.elu_(input, alpha) if inplace else ops.elu(input, alpha)


def selu(input, inplace=False):
    """scale * elu(input, alpha), scale = 1.0507 and alpha = 1.6733 (self-normalizing networks).

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.selu(torch.tensor([-1., 0., 2.]))
        tensor([-1.1113,  0.0000,  2.1014])
    """
    return ops.selu_(input) if inplace else ops.selu(input)


def celu(input, alpha=1.0, inplace=False):
    """max(0, input) + min(0, alpha * (exp(input / alpha) - 1)).

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.celu(torch.tensor([-1., 0., 2.]), alpha=2.0)
        tensor([-0.7869,  0.0000,  2.0000])
    """
    return ops.celu_(input, alpha) if inplace else ops.celu(input, alpha)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """input where positive, else negative_slope * input.

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.leaky_relu(torch.tensor([-1., 0., 2.]), 0.1)
        tensor([-0.1000,  0.0000,  2.0000])
    """
    return (ops.leaky_relu_ if inplace else ops.leaky_relu)(input, negative_slope)


def tanhshrink(input):
    """input - tanh(input).

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.tanhshrink(torch.tensor([-1., 0., 2.]))
        tensor([-0.2384,  0.0000,  1.0360])
    """
    return input - input.tanh()


def softsign(input):
    """input / (1 + |input|).

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.softsign(torch.tensor([-1., 0., 3.]))
        tensor([-0.5000,  0.0000,  0.7500])
    """
    return input / (input.abs() + 1)


def tanh(input):
    """The hyperbolic tangent of each element.

    Shape: input (*); output the same, integers become float32.

    Example::

        >>> F.tanh(torch.tensor([0., 1.]))
        tensor([0.0000, 0.7616])
    """
    return input.tanh()


def sigmoid(input):
    """1 / (1 + exp(-input)).

    Shape: input (*); output the same, integers become float32.

    Example::

        >>> F.sigmoid(torch.tensor([0., 2.]))
        tensor([0.5000, 0.8808])
    """
    return input.sigmoid()


def hardsigmoid(input, inplace=False):
    """relu6(input + 3) / 6.

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.hardsigmoid(torch.tensor([-4., 0., 1.5]))
        tensor([0.0000, 0.5000, 0.7500])
    """
    return ops.hardsigmoid_(input) if inplace else ops.hardsigmoid(input)


def silu(input, inplace=False):
    """input * sigmoid(input), also called swish.

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.silu(torch.tensor([-1., 0., 2.]))
        tensor([-0.2689,  0.0000,  1.7616])
    """
    return ops.silu_(input) if inplace else ops.silu(input)


def mish(input, inplace=False):
    """input * tanh(softplus(input)).

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.mish(torch.tensor([-1., 0., 2.]))
        tensor([-0.3034,  0.0000,  1.9440])
    """
    return ops.mish_(input) if inplace else ops.mish(input)


def hardswish(input, inplace=False):
    """input * relu6(input + 3) / 6.

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.hardswish(torch.tensor([-4., 0., 1.5]))
        tensor([-0.0000, 0.0000, 1.1250])
    """
    return ops.hardswish_(input) if inplace else ops.hardswish(input)


def _get_softmax_dim(name, ndim, stacklevel):
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. "
                  "Change the call to include dim=X as an argument.", stacklevel=stacklevel)
    return 0 if ndim in (0, 1, 3) else 1


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax(-input, dim): the smallest element has the largest share.

    Shape: input (*) of a floating dtype; output the same, of `dtype` where given.

    Example::

        >>> F.softmin(torch.tensor([0., 1.]), dim=0)
        tensor([0.7311, 0.2689])
    """
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return ops.softmax(-input, dim, dtype)


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(input) divided by its sum along `dim`, computed without overflow.

    Shape: input (*) of a floating dtype; output the same, of `dtype` where given.

    Example::

        >>> F.softmax(torch.tensor([[0., 1.], [2., 2.]]), dim=1)
        tensor([[0.2689, 0.7311],
                [0.5000, 0.5000]])
    """
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return ops.softmax(input, dim, dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(input, dim)), computed without overflow.

    Shape: input (*) of a floating dtype; output the same, of `dtype` where given.

    Example::

        >>> F.log_softmax(torch.tensor([0., 1.]), dim=0)
        tensor([-1.3133, -0.3133])
    """
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return ops.log_softmax(input, dim, dtype)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A differentiable sample of the categorical distribution with these logits: softmax((logits + noise) / tau).

    With `hard` the value is one-hot and the gradient that of the soft sample.

    Shape: logits (*, classes) of a floating dtype; output the same.

    Example::

        >>> F.gumbel_softmax(torch.zeros(2, 5), hard=True).sum(dim=1)
        tensor([1., 1.])
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = cresset.empty_like(logits, memory_format=cresset.contiguous_format)
    y_soft = ((logits - noise.exponential_().log()) / tau).softmax(dim)
    if not hard:
        return y_soft
    index = y_soft.max(dim, keepdim=True)[1]
    y_hard = cresset.zeros_like(logits, memory_format=cresset.contiguous_format)
    # The value is y_hard's, the gradient y_soft's.
    return y_hard.scatter_(dim, index, 1.0) - y_soft.detach() + y_soft


# Embeddings.

def _embedding_padding(padding_idx, rows):
    if padding_idx is None:
        return -1
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx + rows if padding_idx < 0 else padding_idx


def _limit_rows(weight, input, max_norm, norm_type):
    """Scales the rows of `weight` at `input` down to max_norm, in place."""
    with cresset.no_grad():
        rows, table = input.reshape(-1), weight.detach()
        table.index_copy_(0, rows, ops.renorm(table.index_select(0, rows), norm_type, 0, max_norm))


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0,
              scale_grad_by_freq=False, sparse=False):
    """The rows of `weight` picked by `input`.

    The row `padding_idx` has no gradient. Rows longer than `max_norm` are scaled down in `weight`.

    Shape: input (*) of int64 or int32, weight (V, D); output (*, D) of weight's dtype.

    Example::

        >>> F.embedding(torch.tensor([2, 0]), torch.tensor([[0., 1.], [2., 3.], [4., 5.]]))
        tensor([[4., 5.],
                [0., 1.]])
    """
    padding_idx = _embedding_padding(padding_idx, weight.size(0))
    if max_norm is not None:
        _limit_rows(weight, input, max_norm, norm_type)
    return ops.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _bag_offsets(input, offsets, per_sample_weights):
    """Flattens a 2-D batch of bags; returns (input, offsets, weights, was 2-D)."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a "
                "mini-batch of fixed length sequences. However, found offsets of type "
                f"{type(offsets)}")
        offsets = cresset.arange(0, input.numel(), input.size(1), dtype=input.dtype,
                                 device=input.device)
        if per_sample_weights is not None:
            per_sample_weights = per_sample_weights.reshape(-1)
        return input.reshape(-1), offsets, per_sample_weights, True
    if input.dim() != 1:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    return input, offsets, per_sample_weights, False


def _bag_mode(mode, scale_grad_by_freq, sparse, per_sample_weights):
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    return ("sum", "mean", "max").index(mode)


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2,
                  scale_grad_by_freq=False, mode="mean", sparse=False, per_sample_weights=None,
                  include_last_offset=False, padding_idx=None):
    """Sums, means or maxima (`mode`) over bags of rows of `weight`, without the rows themselves.

    Shape: input (B, N), or (N) with offsets (B) where bags begin, of int64 or int32; weight (V, D); output (B,
    D).

    Example::

        >>> F.embedding_bag(torch.tensor([0, 1, 1]), torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([0, 2]))
        tensor([[2., 3.],
                [3., 4.]])
    """
    if weight.dtype == cresset.long and input.is_floating_point():
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag("
            "weight, input, ...)` is deprecated, and should now be `embedding_bag(input, weight, "
            "...)`.", stacklevel=2)
        weight, input = input, weight
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, "
            f"then it must have the same shape as the input ({input.shape})")
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    input, offsets, per_sample_weights, flat = _bag_offsets(input, offsets, per_sample_weights)
    include_last_offset = include_last_offset and not flat
    number = _bag_mode(mode, scale_grad_by_freq, sparse, per_sample_weights)
    if max_norm is not None:
        _limit_rows(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only "
            f"supported for mode='sum' (got mode='{mode}'). Please open a feature request on "
            "GitHub.")
    return ops.embedding_bag(weight, input, offsets, scale_grad_by_freq, number, sparse,
                             per_sample_weights, include_last_offset, padding_idx)[0]


# Normalization.

def _verify_batch_size(size):
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}")


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False,
               momentum=0.1, eps=1e-5):
    """(input - mean) / sqrt(var + eps) * weight + bias, with the statistics of each channel.

    While `training` they are those of batch and space, and update running_mean and running_var by `momentum`;
    else they are running_mean and running_var.

    Shape: input (N, C, *) of a floating dtype, statistics, weight and bias (C); output as the input.

    Example::

        >>> F.batch_norm(torch.tensor([[1., 10.], [3., 30.]]), None, None, training=True)
        tensor([[-1.0000, -1.0000],
                [ 1.0000,  1.0000]])
    """
    if training:
        _verify_batch_size(input.size())
        if eps <= 0.0:
            raise ValueError(
                f"batch_norm eps must be positive during training, but got {eps}")
    elif eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum,
                          eps, True)


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None,
                  use_input_stats=True, momentum=0.1, eps=1e-5):
    """batch_norm with statistics of each channel of each sample.

    Shape: input (N, C, *) of a floating dtype, statistics, weight and bias (C); output as the input.

    Example::

        >>> F.instance_norm(torch.tensor([[[1., 3.]]]))
        tensor([[[-1.0000,  1.0000]]])
    """
    if use_input_stats and math.prod(input.size()[2:]) == 1:
        raise ValueError("Expected more than 1 spatial element when training, got input size "
                         f"{input.size()}")
    return ops.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats,
                             momentum, eps, True)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(input - mean) / sqrt(var + eps) * weight + bias, over the last dims, whose sizes are `normalized_shape`.

    Shape: input (*, *normalized_shape) of a floating dtype, weight and bias (*normalized_shape); output as the
    input.

    Example::

        >>> F.layer_norm(torch.tensor([[1., 3.], [2., 6.]]), (2,))
        tensor([[-1.0000,  1.0000],
                [-1.0000,  1.0000]])
    """
    return ops.layer_norm(input, normalized_shape, weight, bias, eps, True)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """input / sqrt(mean(input ** 2) + eps) * weight, over the last dims, whose sizes are `normalized_shape`.

    Without `eps` it is the dtype's machine epsilon.

    Shape: input (*, *normalized_shape) of a floating dtype, weight (*normalized_shape); output as the input.

    Example::

        >>> F.rms_norm(torch.tensor([[3., 4.]]), (2,))
        tensor([[0.8485, 1.1314]])
    """
    return ops.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """batch_norm with statistics of each group of C / num_groups channels of each sample.

    Shape: input (N, C, *) of a floating dtype, weight and bias (C); output as the input.

    Example::

        >>> F.group_norm(torch.tensor([[1., 3., 2., 6.]]), 2)
        tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    if input.dim() < 2:
        raise RuntimeError("Expected at least 2 dimensions for input tensor but received "
                           f"{input.dim()}")
    size = input.size()
    _verify_batch_size([size[0] * size[1] // num_groups, num_groups, *size[2:]])
    return ops.group_norm(input, num_groups, weight, bias, eps, True)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """input / (k + alpha * mean of squares of the `size` nearest channels) ** beta.

    Shape: input (N, C, *) of a floating dtype, at least 3 dims; output the same.

    Example::

        >>> F.local_response_norm(torch.ones(1, 2, 1), size=2, alpha=1.0)
        tensor([[[0.7378],
                 [0.5946]]])
    """
    ndim = input.dim()
    if ndim < 3:
        raise ValueError("Expected 3D or higher dimensionality                          input "
                         f"(got {ndim} dimensions)")
    if input.numel() == 0:
        return input
    div = input.mul(input)
    if ndim == 3:
        div = pad(div.unsqueeze(1), (0, 0, size // 2, (size - 1) // 2))
        div = ops.avg_pool2d(div, (size, 1), stride=1).squeeze(1)
    else:
        sizes = input.size()
        div = div.view(sizes[0], 1, sizes[1], sizes[2], -1)
        div = pad(div, (0, 0, 0, 0, size // 2, (size - 1) // 2))
        div = ops.avg_pool3d(div, (size, 1, 1), stride=1).squeeze(1).view(sizes)
    return input / div.mul(alpha).add(k).pow(beta)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """input / max(norm, eps), norm the p-norm along `dim`.

    Shape: input (*) of a floating dtype; output the same.

    Example::

        >>> F.normalize(torch.tensor([[3., 4.]]))
        tensor([[0.6000, 0.8000]])
    """
    norm = input.norm(p, dim, keepdim=True)
    if out is None:
        return input / norm.clamp_min(eps).expand_as(input)
    return cresset.div(input, norm.clamp_min_(eps).expand_as(input), out=out)


# Rearranging.

def pad(input, pad, mode="constant", value=None):
    """Pads the last dims; `pad` has a pair (before, after) for each, that of the last dim first; negative numbers cut.

    mode: constant (`value`), reflect, replicate, circular.

    Shape: input (*, L) of any dtype; output (*, before + L + after).

    Example::

        >>> F.pad(torch.tensor([[1, 2]]), (1, 2))
        tensor([[0, 1, 2, 0, 0]])
        >>> F.pad(torch.tensor([[1., 2., 3.]]), (2, 0), mode="reflect")
        tensor([[3., 2., 1., 2., 3.]])
    """
    return ops.pad(input, pad, mode, value)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The sliding blocks of an image as columns (im2col); fold adds them up again.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C kh kw, L) or (C kh kw, L), L blocks.

    Example::

        >>> F.unfold(torch.arange(6.).view(1, 1, 2, 3), kernel_size=2)
        tensor([[[0., 1.],
                 [1., 2.],
                 [3., 4.],
                 [4., 5.]]])
    """
    return ops.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


def assert_int_or_pair(arg, arg_name, message):
    """Raises unless `arg` is a number or has two items; {arg_name} in the message is replaced.

    Example::

        >>> F.assert_int_or_pair((1, 2), "kernel_size", "{} must be a number or a pair")
    """
    if not (isinstance(arg, int) or len(arg) == 2):
        raise AssertionError(message.format(arg_name))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Adds columns of sliding blocks up into an image (col2im), the transpose of unfold.

    Shape: input (N, C kh kw, L) or (C kh kw, L), L blocks; output (N, C, *output_size) or (C, *output_size).

    Example::

        >>> F.fold(torch.ones(1, 4, 2), output_size=(2, 3), kernel_size=2)
        tensor([[[[1., 2., 1.],
                  [1., 2., 1.]]]])
    """
    return ops.col2im(input, _pair(output_size), _pair(kernel_size), _pair(dilation),
                      _pair(padding), _pair(stride))


# These functions support __torch_function__ under their public names.  Functions that only call
# another one are represented by it.
_forwarding = {tanh, sigmoid, upsample, upsample_bilinear, upsample_nearest}
for _name, _function in list(globals().items()):
    if isinstance(_function, types.FunctionType) and not _name.startswith("_"):
        _function.__module__ = __name__
        if _function not in _forwarding:
            # The defining module calls the function by this name, too.
            globals()[_name] = _function.__globals__[_function.__name__] = overridable(_function)
_threshold = threshold
del _name, _function, _forwarding

_ELSEWHERE = {"grouped_mm": "_grouped", "BroadcastingList1": "_jit_internal", "BroadcastingList2": "_jit_internal",
              "BroadcastingList3": "_jit_internal", "boolean_dispatch": "_jit_internal",
              "handle_torch_function": "overrides", "has_torch_function": "overrides",
              "has_torch_function_unary": "overrides", "has_torch_function_variadic": "overrides",
              "Tensor": "_C", "grad": "nn", "ScalingType": "nn._scaled", "SwizzleType": "nn._scaled", "scaled_mm": "nn._scaled",
              "scaled_grouped_mm": "nn._scaled"}


_MODULES = {"np": "numpy", "importlib": "importlib", "dataclasses": "dataclasses", "torch": __name__.partition(".")[0]}
TYPE_CHECKING = False
DType = int  # the dtype of annotations of TorchScript


def __getattr__(name):
    if name in _MODULES:
        from importlib import import_module
        return import_module(_MODULES[name])
    if name not in _ELSEWHERE:
        from .._absent_names import missing
        raise missing(__name__, name)
    from importlib import import_module
    module = import_module(f"{cresset.__name__}.{_ELSEWHERE[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__():
    return sorted({*globals(), *_ELSEWHERE, *_MODULES})
