"""Loss functions of torch.nn.functional."""
import math
import warnings

import cresset
from .._ops import ops
from . import _reduction


def _number(size_average, reduce, reduction):
    if size_average is None and reduce is None:
        return _reduction.get_enum(reduction)
    return _reduction.legacy_get_enum(size_average, reduce)


def _name(size_average, reduce, reduction):
    if size_average is None and reduce is None:
        return reduction
    return _reduction.legacy_get_string(size_average, reduce)


def _reduce(loss, reduction, message="{} is not valid"):
    if reduction == "none":
        return loss
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    raise ValueError(message.format(reduction))


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
             reduction="mean"):
    """-weight[target] * input[target], input being log-probabilities of classes.

    reduction: "none", "sum", or "mean": the sum divided by the sum of the weights. Targets equal to
    ignore_index count as nothing.

    Shape: input (C), (N, C) or (N, C, *), target the same without C, of int64, weight (C); output as the
    target, or a scalar for reduction "mean" and "sum".

    Example::

        >>> F.nll_loss(torch.tensor([[-0.1, -2.3], [-1.2, -0.4]]), torch.tensor([0, 1]))
        tensor(0.2500)
    """
    number = _number(size_average, reduce, reduction)
    return ops.nll_loss_nd(input, target, weight, number, ignore_index)


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None,
                  reduction="mean", label_smoothing=0.0):
    """nll_loss of log_softmax(input); `target` has class numbers, or probabilities of the classes.

    label_smoothing mixes the target with the uniform distribution.

    Shape: input (C), (N, C) or (N, C, *); target without C, of int64, or as the input, floating; weight (C);
    output as the input without C, or a scalar for reduction "mean" and "sum".

    Example::

        >>> F.cross_entropy(torch.tensor([[2., 0.], [0., 0.]]), torch.tensor([0, 1]))
        tensor(0.4100)
        >>> F.cross_entropy(torch.tensor([[2., 0.]]), torch.tensor([[0.5, 0.5]]), reduction="none")
        tensor([1.1269])
    """
    number = _number(size_average, reduce, reduction)
    return ops.cross_entropy_loss(input, target, weight, number, ignore_index, label_smoothing)


def _check_linear_cross_entropy(input, weight, bias):
    if not 1 <= input.dim() <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if weight.dim() < 2:
        raise RuntimeError("expected linear_weight with dimensionality at least 2, got "
                           f"{weight.dim()}")
    if input.shape[-1] != weight.shape[-1]:
        raise RuntimeError("expected equal input and linear_weight last dimensions "
                           f"(in_features), got {input.shape[-1]} and {weight.shape[-1]}, "
                           "respectively")
    outputs = tuple(weight.shape[:-1])
    if bias is not None and tuple(bias.shape) != outputs:
        raise RuntimeError(
            f"expected linear_bias shape {outputs}, got {tuple(bias.shape)}")
    if len(outputs) > 1 and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(weight.shape)} requires "
            f"batched input, (N, {input.shape[-1]}), got unbatched input with shape "
            f"{tuple(input.shape)}")


def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None,
                         reduction="mean", ignore_index=None, label_smoothing=0.0, options=None):
    """cross_entropy(linear(input, linear_weight, linear_bias), target).

    options (nn.LinearCrossEntropyOptions) may ask for parts; the loss is computed at once, with the same value.

    Shape: input (N, F) or (F), linear_weight (C, F), target (N) or () of int64; output a scalar, or (N) for
    reduction "none".

    Example::

        >>> F.linear_cross_entropy(torch.ones(1, 2), torch.tensor([[1., 0.], [0., 0.]]), torch.tensor([0]))
        tensor(0.3133)
    """
    _check_linear_cross_entropy(input, linear_weight, linear_bias)
    shape = (*input.shape[:-1], *linear_weight.shape[:-1])
    if target.shape == shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    if linear_weight.dim() > 2:
        linear_weight = linear_weight.reshape(-1, input.shape[-1])
        linear_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = ops.linear(input, linear_weight, linear_bias).reshape(shape)
    return cross_entropy(logits, target, weight=weight, reduction=reduction,
                         ignore_index=-100 if ignore_index is None else ignore_index,
                         label_smoothing=label_smoothing)


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8,
                     reduce=None, reduction="mean"):
    """exp(input) - target * input, or with log_input=False input - target * log(input + eps).

    full adds Stirling's approximation of log(target!).

    Shape: input and target (*) of a floating dtype; output the same, or a scalar for reduction "mean" and
    "sum".

    Example::

        >>> F.poisson_nll_loss(torch.tensor([0., 1.]), torch.tensor([1., 2.]))
        tensor(0.8591)
    """
    reduction = _name(size_average, reduce, reduction)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not a valid value for reduction")
    return ops.poisson_nll_loss(input, target, log_input, full, eps,
                                _reduction.get_enum(reduction))


def _gaussian_variance(input, var):
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * cresset.ones_like(input)
    elif cresset.any(var < 0):
        raise ValueError("var has negative entry/entries")
    if var.size() == input.size():
        return var
    if input.size()[:-1] == var.size():
        return var.unsqueeze(-1)
    # One dim of `var` may be 1 where the input's is larger.
    if input.ndim != var.ndim or sum(
            y for x, y in zip(input.size(), var.size()) if x != y) != 1:
        raise ValueError("var is of incorrect size")
    return var


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """0.5 * (log(var) + (input - target) ** 2 / var), var limited to at least eps; full adds 0.5 * log(2 pi).

    Shape: input and target (*) of a floating dtype, var the same, (*) without or with 1 as the last size, or a
    float; output as the input, or a scalar for reduction "mean" and "sum".

    Example::

        >>> F.gaussian_nll_loss(torch.tensor([0., 2.]), torch.tensor([1., 2.]), torch.tensor([1., 1.]))
        tensor(0.2500)
    """
    var = _gaussian_variance(input, var)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    var = var.clone()
    with cresset.no_grad():
        var.clamp_(min=eps)
    loss = 0.5 * (cresset.log(var) + (input - target) ** 2 / var)
    if full:
        loss += 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target * (log(target) - input), input being log-probabilities; with log_target so is the target.

    reduction "batchmean", the divergence's definition, divides the sum by the first size.

    Shape: input and target (*) of a floating dtype; output the same, or a scalar for reduction "mean" and
    "sum".

    Example::

        >>> F.kl_div(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]), reduction="batchmean")
        tensor(0.1308)
    """
    if size_average is not None or reduce is not None:
        number = _reduction.legacy_get_enum(size_average, reduce)
    else:
        if reduction == "mean":
            warnings.warn(
                "reduction: 'mean' divides the total loss by both the batch size and the support "
                "size.'batchmean' divides only by the batch size, and aligns with the KL div "
                "math definition.'mean' will be changed to behave the same as 'batchmean' in the "
                "next major release.", stacklevel=2)
        number = _reduction.get_enum("sum" if reduction == "batchmean" else reduction)
    loss = ops.kl_div(input, target, number, log_target=log_target)
    if reduction == "batchmean" and input.dim() != 0:
        loss = loss / input.size()[0]
    return loss


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None,
                         reduction="mean"):
    """-weight * (target * log(input) + (1 - target) * log(1 - input)); logarithms are limited to at least -100.

    Shape: input and target (*) of a floating dtype, input from 0 to 1; output the same, or a scalar for
    reduction "mean" and "sum".

    Example::

        >>> F.binary_cross_entropy(torch.tensor([0.9, 0.2]), torch.tensor([1., 0.]))
        tensor(0.1643)
    """
    number = _number(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}) is deprecated. Please ensure they have the same size.")
    if weight is not None:
        weight = weight.expand(cresset.broadcast_shapes(target.size(), weight.size()))
    return ops.binary_cross_entropy(input, target, weight, number)


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None,
                                     reduction="mean", pos_weight=None):
    """binary_cross_entropy of sigmoid(input), computed without overflow; pos_weight multiplies the term of the target.

    Shape: input and target (*) of a floating dtype, weight and pos_weight broadcast with them; output the same,
    or a scalar for reduction "mean" and "sum".

    Example::

        >>> F.binary_cross_entropy_with_logits(torch.tensor([0., 100.]), torch.tensor([1., 0.]), reduction="none")
        tensor([  0.6931, 100.0000])
    """
    number = _number(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(f"Target size ({target.size()}) must be the same as input size "
                         f"({input.size()})")
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, number)


# Differences, elementwise.

def _broadcast(input, target):
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.", stacklevel=3)
    elif not cresset.jit.is_tracing():  # a trace broadcasts tensors of other calls
        return input, target
    return cresset.broadcast_tensors(input, target)


def _weighted(loss, weight, size, reduction, divide_by_weight):
    if weight.size() != size:
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    if reduction == "mean" and divide_by_weight:
        return cresset.sum(loss) / cresset.sum(weight)
    return _reduce(loss, reduction,
                   "Invalid reduction mode: {}. Expected one of 'none', 'mean', 'sum'.")


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target) ** 2.

    Shape: input and target (*) of a floating dtype; output the same, or a scalar for reduction "mean" and
    "sum".

    Example::

        >>> F.mse_loss(torch.tensor([1., 2.]), torch.tensor([1., 4.]))
        tensor(2.)
    """
    a, b = _broadcast(input, target)
    reduction = _name(size_average, reduce, reduction)
    if weight is not None:
        return _weighted(cresset.pow(a - b, 2), weight, input.size(), reduction, True)
    return ops.mse_loss(a, b, _reduction.get_enum(reduction))


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input - target|.

    Shape: input and target (*) of a floating dtype; output the same, or a scalar for reduction "mean" and
    "sum".

    Example::

        >>> F.l1_loss(torch.tensor([1., 2.]), torch.tensor([1., 4.]))
        tensor(1.)
    """
    a, b = _broadcast(input, target)
    reduction = _name(size_average, reduce, reduction)
    if weight is not None:
        return _weighted(cresset.abs(a - b), weight, input.size(), reduction, True)
    return ops.l1_loss(a, b, _reduction.get_enum(reduction))


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """0.5 * d ** 2 / beta where d = |input - target| is below beta, else d - 0.5 * beta.

    Shape: input and target (*) of a floating dtype; output the same, or a scalar for reduction "mean" and
    "sum".

    Example::

        >>> F.smooth_l1_loss(torch.tensor([1., 2.]), torch.tensor([1.5, 4.]), reduction="none")
        tensor([0.1250, 1.5000])
    """
    a, b = _broadcast(input, target)
    number = _reduction.get_enum(_name(size_average, reduce, reduction))
    if beta == 0.0:
        return ops.l1_loss(a, b, number)
    return ops.smooth_l1_loss(a, b, number, beta)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """0.5 * d ** 2 where d = |input - target| is below delta, else delta * (d - 0.5 * delta).

    Shape: input and target (*) of a floating dtype; output the same, or a scalar for reduction "mean" and
    "sum".

    Example::

        >>> F.huber_loss(torch.tensor([1., 2.]), torch.tensor([1.5, 6.]), reduction="none", delta=2.0)
        tensor([0.1250, 6.0000])
    """
    a, b = _broadcast(input, target)
    if weight is not None:
        loss = ops.huber_loss(a, b, _reduction.get_enum("none"), delta)
        return _weighted(loss, weight, input.size(), reduction, False)
    return ops.huber_loss(a, b, _reduction.get_enum(reduction), delta)


# Margins.

def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None,
                        reduction="mean"):
    """max(0, -target * (input1 - input2) + margin); target 1: input1 should be larger, -1: smaller.

    Shape: all three (N) or () of a floating dtype; output the same, or a scalar for reduction "mean" and "sum".

    Example::

        >>> F.margin_ranking_loss(torch.tensor([1., 2.]), torch.tensor([2., 0.]), torch.tensor([1., 1.]))
        tensor(0.5000)
    """
    number = _number(size_average, reduce, reduction)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} ")
    return ops.margin_ranking_loss(input1, input2, target, margin, number)


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None,
                         reduction="mean"):
    """input where target is 1, max(0, margin - input) where it is -1.

    Shape: input and target (*) of a floating dtype; output the same, or a scalar for reduction "mean" and
    "sum".

    Example::

        >>> F.hinge_embedding_loss(torch.tensor([0.5, 0.25]), torch.tensor([1., -1.]), reduction="none")
        tensor([0.5000, 0.7500])
    """
    number = _number(size_average, reduce, reduction)
    return ops.hinge_embedding_loss(input, target, margin, number)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target * input)), target 1 or -1.

    Shape: input and target (*) of a floating dtype; output the same, or a scalar for reduction "mean" and
    "sum".

    Example::

        >>> F.soft_margin_loss(torch.tensor([0., 2.]), torch.tensor([1., -1.]), reduction="none")
        tensor([0.6931, 2.1269])
    """
    return ops.soft_margin_loss(input, target, _number(size_average, reduce, reduction))


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None,
                                reduction="mean"):
    """Mean over the classes of -weight * (target * log(sigmoid(input)) + (1 - target) * log(sigmoid(-input))).

    Shape: input and target (N, C) of a floating dtype, target 0 or 1, weight (C); output (N), or a scalar for
    reduction "mean" and "sum".

    Example::

        >>> F.multilabel_soft_margin_loss(torch.zeros(1, 3), torch.tensor([[1., 0., 1.]]))
        tensor(0.6931)
    """
    reduction = _name(size_average, reduce, reduction)
    loss = -(target * ops.log_sigmoid(input) + (1 - target) * ops.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    dim = input.dim() - 1
    classes = input.size(dim)
    return _reduce(loss.sum(dim=dim) / classes, reduction)


def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None,
                          reduction="mean"):
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1.

    Shape: inputs (N, D) or (D) of a floating dtype, target (N) or (); output as the target, or a scalar for
    reduction "mean" and "sum".

    Example::

        >>> F.cosine_embedding_loss(torch.tensor([[1., 0.]]), torch.tensor([[0., 2.]]), torch.tensor([1]))
        tensor(1.)
    """
    number = _number(size_average, reduce, reduction)
    return ops.cosine_embedding_loss(input1, input2, target, margin, number)


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None,
                      reduce=None, reduction="mean"):
    """Mean over the classes i != target of weight[target] * max(0, margin - input[target] + input[i]) ** p.

    Shape: input (N, C) or (C) of a floating dtype, target (N) or () of int64, weight (C); output as the target,
    or a scalar for reduction "mean" and "sum".

    Example::

        >>> F.multi_margin_loss(torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([3]))
        tensor(0.3250)
    """
    number = _number(size_average, reduce, reduction)
    if p != 1 and p != 2:
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return ops.multi_margin_loss(input, target, p, margin, weight, number)


def _check_margin(margin):
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False,
                        size_average=None, reduce=None, reduction="mean"):
    """max(0, |anchor - positive| - |anchor - negative| + margin), with p-norms.

    swap takes the smaller one of the distances from anchor and from positive to negative.

    Shape: all three (N, D) or (D) of a floating dtype; output (N) or (), or a scalar for reduction "mean" and
    "sum".

    Example::

        >>> F.triplet_margin_loss(torch.zeros(1, 2), torch.ones(1, 2), torch.zeros(1, 2))
        tensor(2.4142)
    """
    number = _number(size_average, reduce, reduction)
    _check_margin(margin)
    return ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, number)


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None,
                                      margin=1.0, swap=False, reduction="mean"):
    """triplet_margin_loss with the given distance function; pairwise_distance without one.

    Shape: all three (N, *) of a floating dtype; output as the distance's result, or a scalar for reduction
    "mean" and "sum".

    Example::

        >>> F.triplet_margin_with_distance_loss(torch.zeros(1, 2), torch.ones(1, 2), torch.zeros(1, 2),
        ...     distance_function=lambda x, y: (x - y).abs().sum(-1))
        tensor(3.)
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    _check_margin(margin)
    dims = anchor.ndim, positive.ndim, negative.ndim
    if len(set(dims)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {dims[0]}D, positive {dims[1]}D, and negative "
            f"{dims[2]}D inputs")
    distance = distance_function or ops.pairwise_distance
    far = distance(anchor, negative)
    near = distance(anchor, positive)
    if swap:
        far = cresset.minimum(far, distance(positive, negative))
    return _reduce(cresset.clamp_min(margin + near - far, 0), reduction)


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """Sum over labels y and other classes i of max(0, 1 - (input[y] - input[i])) / C; a -1 ends the labels.

    Shape: input and target (N, C) or (C), input of a floating dtype, target of int64; output (N) or (), or a
    scalar for reduction "mean" and "sum".

    Example::

        >>> F.multilabel_margin_loss(torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([[3, 0, -1, 1]]))
        tensor(0.8500)
    """
    return ops.multilabel_margin_loss(input, target, _number(size_average, reduce, reduction))


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean",
             zero_infinity=False):
    """Minus the log-probability of all alignments of label sequences with inputs (connectionist temporal classification).

    reduction "mean" divides each loss by its target's length first.

    Shape: log_probs (T, N, C) or (T, C) of a floating dtype, targets (N, S) or (sum of lengths), lengths (N);
    output (N) or (), or a scalar for reduction "mean" and "sum".

    Example::

        >>> log_probs = torch.full((3, 1, 2), 0.5).log()
        >>> F.ctc_loss(log_probs, torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1]))
        tensor(0.2877)
    """
    return ops.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank,
                        _reduction.get_enum(reduction), zero_infinity)
