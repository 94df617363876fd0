"""Losses as modules."""
from .. import _reduction
from .. import functional as F
from .distance import PairwiseDistance
from .module import Module

__all__ = [
    "CTCLoss", "L1Loss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss", "GaussianNLLLoss", "KLDivLoss",
    "MSELoss", "BCELoss", "BCEWithLogitsLoss", "HingeEmbeddingLoss",
    "SmoothL1Loss", "HuberLoss", "SoftMarginLoss", "CrossEntropyLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "CosineEmbeddingLoss", "MarginRankingLoss", "MultiMarginLoss",
    "TripletMarginLoss", "TripletMarginWithDistanceLoss"]


class _Loss(Module):
    def __init__(self, size_average=None, reduce=None, reduction="mean"):
        super().__init__()
        if size_average is not None or reduce is not None:
            reduction = _reduction.legacy_get_string(size_average, reduce)
        self.reduction = reduction


class _WeightedLoss(_Loss):
    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """|x - y|.

    Shape: input and target (*), of the same sizes; output (), or (*) with reduction="none".

    Example::

        >>> nn.L1Loss()(torch.zeros(3), torch.ones(3))
        tensor(1.)
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.l1_loss(input, target, reduction=self.reduction)


class CTCLoss(_Loss):
    """Minus the log-probability of all alignments of label sequences with inputs.

    Shape: log_probs (T, N, C) or (T, C); targets (N, S) or all of them in one dim; lengths (N) or (); output (), or
    (N) with reduction="none".

    Example::

        >>> nn.CTCLoss()(torch.zeros(5, 1, 3).log_softmax(2), torch.tensor([[1, 2]]), (5,), (2,)).shape
        torch.Size([])
    """

    __constants__ = ["blank", "reduction"]

    def __init__(self, blank=0, reduction="mean", zero_infinity=False):
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs, targets, input_lengths, target_lengths):
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank,
                          self.reduction, self.zero_infinity)


class MultiLabelMarginLoss(_Loss):
    """Margins between the labels of each sample and all other classes.

    Shape: input (N, C) or (C); target the same, class numbers up to the first -1; output ().

    Example::

        >>> nn.MultiLabelMarginLoss()(torch.zeros(1, 3), torch.tensor([[1, -1, 0]]))
        tensor(0.6667)
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """Minus the input at the target class.

    Shape: input (C), (N, C) or (N, C, *) of log-probabilities; target (), (N) or (N, *) of class numbers; output
    (), or target's sizes with reduction="none".

    Example::

        >>> nn.NLLLoss()(torch.log_softmax(torch.zeros(2, 4), 1), torch.tensor([1, 3]))
        tensor(1.3863)
    """

    __constants__ = ["ignore_index", "reduction"]

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None,
                 reduction="mean"):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input, target):
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index,
                          reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """The old name of NLLLoss for images.

    Shape: input (N, C, H, W); target (N, H, W); output ().

    Example::

        >>> nn.NLLLoss()(torch.zeros(1, 2, 3, 3), torch.zeros(1, 3, 3, dtype=torch.long)).shape
        torch.Size([])
    """

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None,
                 reduction="mean"):
        import warnings
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in "
            "replacement and see https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more "
            "details.", FutureWarning, stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class PoissonNLLLoss(_Loss):
    """Minus the Poisson log-likelihood.

    Shape: input and target (*), of the same sizes; output (), or (*) with reduction="none".

    Example::

        >>> nn.PoissonNLLLoss()(torch.zeros(3), torch.ones(3)).shape
        torch.Size([])
    """

    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(self, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None,
                 reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input, target):
        return F.poisson_nll_loss(log_input, target, log_input=self.log_input, full=self.full,
                                  eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """Minus the Gaussian log-likelihood.

    Shape: input and target (N, *) or (*); var the same, or with one size 1 or the last one missing; output ().

    Example::

        >>> nn.GaussianNLLLoss()(torch.zeros(2, 3), torch.ones(2, 3), torch.ones(2, 3))
        tensor(0.5000)
    """

    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full=False, eps=1e-6, reduction="mean"):
        super().__init__(None, None, reduction)
        self.full = full
        self.eps = eps

    def forward(self, input, target, var):
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps,
                                   reduction=self.reduction)


class KLDivLoss(_Loss):
    """target * (log(target) - input).

    Shape: input and target (*), of the same sizes; output (), or (*) with reduction="none".

    Example::

        >>> nn.KLDivLoss(reduction="batchmean")(torch.zeros(2, 3), torch.ones(2, 3))
        tensor(0.)
    """

    __constants__ = ["reduction"]

    def __init__(self, size_average=None, reduce=None, reduction="mean", log_target=False):
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input, target):
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class MSELoss(_Loss):
    """(x - y) ** 2.

    Shape: input and target (*), of the same sizes; output (), or (*) with reduction="none".

    Example::

        >>> nn.MSELoss()(torch.zeros(3), torch.ones(3))
        tensor(1.)
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.mse_loss(input, target, reduction=self.reduction)


class BCELoss(_WeightedLoss):
    """Binary cross entropy of probabilities.

    Shape: input and target (*), of the same sizes; output (), or (*) with reduction="none".

    Example::

        >>> nn.BCELoss()(torch.tensor([0.5, 0.5]), torch.tensor([0., 1.]))
        tensor(0.6931)
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.binary_cross_entropy(input, target, weight=self.weight,
                                      reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits.

    Shape: input and target (*), of the same sizes; output (), or (*) with reduction="none".

    Example::

        >>> nn.BCEWithLogitsLoss()(torch.zeros(3), torch.ones(3))
        tensor(0.6931)
    """

    def __init__(self, weight=None, size_average=None, reduce=None, reduction="mean",
                 pos_weight=None):
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input, target):
        return F.binary_cross_entropy_with_logits(input, target, self.weight,
                                                  pos_weight=self.pos_weight,
                                                  reduction=self.reduction)


class _MarginLoss(_Loss):
    """A loss whose only number is its margin."""

    __constants__ = ["margin", "reduction"]

    def __init__(self, margin=0.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class HingeEmbeddingLoss(_MarginLoss):
    """x where y = 1, max(0, margin - x) where y = -1.

    Shape: input and target (*), of the same sizes; output (), or (*) with reduction="none".

    Example::

        >>> nn.HingeEmbeddingLoss()(torch.zeros(3), torch.ones(3)).shape
        torch.Size([])
    """

    def __init__(self, margin=1.0, size_average=None, reduce=None, reduction="mean"):
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input, target):
        return F.hinge_embedding_loss(input, target, margin=self.margin,
                                      reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """Squares below `beta`, absolute differences above.

    Shape: input and target (*), of the same sizes; output (), or (*) with reduction="none".

    Example::

        >>> nn.SmoothL1Loss()(torch.zeros(3), torch.ones(3)).shape
        torch.Size([])
    """

    __constants__ = ["reduction"]

    def __init__(self, size_average=None, reduce=None, reduction="mean", beta=1.0):
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input, target):
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """delta * SmoothL1Loss(beta=delta).

    Shape: input and target (*), of the same sizes; output (), or (*) with reduction="none".

    Example::

        >>> nn.HuberLoss()(torch.zeros(3), torch.ones(3)).shape
        torch.Size([])
    """

    __constants__ = ["reduction", "delta"]

    def __init__(self, reduction="mean", delta=1.0):
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input, target):
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-y * x)).

    Shape: input and target (*), of the same sizes; output (), or (*) with reduction="none".

    Example::

        >>> nn.SoftMarginLoss()(torch.zeros(3), torch.ones(3)).shape
        torch.Size([])
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class CrossEntropyLoss(_WeightedLoss):
    """NLLLoss of log_softmax.

    Shape: input (C), (N, C) or (N, C, *); target class numbers (), (N) or (N, *), or probabilities of input's
    sizes; output (), or target's sizes with reduction="none".

    Example::

        >>> nn.CrossEntropyLoss()(torch.zeros(2, 4), torch.tensor([1, 3]))
        tensor(1.3863)
    """

    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(self, weight=None, size_average=None, ignore_index=-100, reduce=None,
                 reduction="mean", label_smoothing=0.0):
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input, target):
        return F.cross_entropy(input, target, weight=self.weight, ignore_index=self.ignore_index,
                               reduction=self.reduction, label_smoothing=self.label_smoothing)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Mean over the classes of the binary cross entropies.

    Shape: input and target (N, C); output ().

    Example::

        >>> nn.MultiLabelSoftMarginLoss()(torch.zeros(1, 3), torch.ones(1, 3))
        tensor(0.6931)
    """

    __constants__ = ["reduction"]

    def forward(self, input, target):
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight,
                                             reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """1 - cos where y = 1, max(0, cos - margin) where y = -1.

    Shape: inputs (N, D) or (D); target (N) or () of 1 and -1; output ().

    Example::

        >>> nn.CosineEmbeddingLoss()(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2))
        tensor(0.)
    """

    def forward(self, input1, input2, target):
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin,
                                       reduction=self.reduction)


class MarginRankingLoss(_MarginLoss):
    """max(0, -y * (x1 - x2) + margin).

    Shape: inputs (N) or (); target (N) or () of 1 and -1; output ().

    Example::

        >>> nn.MarginRankingLoss()(torch.zeros(3), torch.ones(3), torch.ones(3))
        tensor(1.)
    """

    def forward(self, input1, input2, target):
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin,
                                     reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """Hinge loss between the target class and all other classes.

    Shape: input (N, C) or (C); target (N) or (); output ().

    Example::

        >>> nn.MultiMarginLoss()(torch.zeros(1, 4), torch.tensor([2]))
        tensor(0.7500)
    """

    __constants__ = ["p", "margin", "reduction"]

    def __init__(self, p=1, margin=1.0, weight=None, size_average=None, reduce=None,
                 reduction="mean"):
        super().__init__(weight, size_average, reduce, reduction)
        if p != 1 and p != 2:
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError("MultiMarginLoss: expected weight to be None or 1D tensor, got "
                             f"{weight.dim()}D instead")
        self.p = p
        self.margin = margin

    def forward(self, input, target):
        return F.multi_margin_loss(input, target, p=self.p, margin=self.margin,
                                   weight=self.weight, reduction=self.reduction)


def _check_margin(name, margin):
    if margin <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {margin} instead")


class TripletMarginLoss(_Loss):
    """max(0, margin + |anchor - positive| - |anchor - negative|).

    Shape: anchor, positive, negative (N, D) or (D); output ().

    Example::

        >>> nn.TripletMarginLoss()(torch.zeros(2, 3), torch.zeros(2, 3), torch.ones(2, 3)).shape
        torch.Size([])
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(self, margin=1.0, p=2.0, eps=1e-6, swap=False, size_average=None, reduce=None,
                 reduction="mean"):
        super().__init__(size_average, reduce, reduction)
        _check_margin("TripletMarginLoss", margin)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_loss(anchor, positive, negative, margin=self.margin, p=self.p,
                                     eps=self.eps, swap=self.swap, reduction=self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """TripletMarginLoss with the given distance function.

    Shape: anchor, positive, negative (N, D) or (D); output ().

    Example::

        >>> nn.TripletMarginWithDistanceLoss()(torch.zeros(2, 3), torch.zeros(2, 3), torch.ones(2, 3)).shape
        torch.Size([])
    """

    __constants__ = ["margin", "swap", "reduction"]

    def __init__(self, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
        super().__init__(None, None, reduction)
        _check_margin("TripletMarginWithDistanceLoss", margin)
        self.distance_function = (PairwiseDistance() if distance_function is None
                                  else distance_function)
        self.margin = margin
        self.swap = swap

    def forward(self, anchor, positive, negative):
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function,
            margin=self.margin, swap=self.swap, reduction=self.reduction)
