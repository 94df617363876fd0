"""A linear layer whose outputs are the logits of a cross entropy."""
import math
from dataclasses import dataclass

from .. import functional as F
from .linear import Linear
from .module import Module

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


@dataclass
class LinearCrossEntropyOptions:
    """How the loss may be computed in parts.  It is computed at once, with the same value."""

    allow_retain_graph: bool = False
    batch_chunk_size: int = None
    chunking_method: str = "auto"
    acc_policy: str = "auto"
    acc_dtype: object = None


class LinearCrossEntropyLoss(Module):
    """The cross entropy between linear(input) and classes or probabilities.

    out_features are the sizes d1, ... behind the classes.

    Shape: input (in_features) or (N, in_features); target class numbers (), (N) or (N, d1, ...), or probabilities (N, C, d1, ...);
    output (), or the target's sizes with reduction="none".

    Example::

        >>> loss = nn.LinearCrossEntropyLoss(3, 4)
        >>> loss(torch.zeros(2, 3), torch.tensor([1, 3]))
        tensor(1.3863, grad_fn=<NllLossBackward0>)
    """

    def __init__(self, in_features, num_classes, *, out_features=(), bias=False, device=None, dtype=None, reduction="mean",
                 weight=None, ignore_index=None, label_smoothing=0.0, options=None):
        super().__init__()
        self.in_features, self.num_classes, self.out_features = in_features, num_classes, tuple(out_features)
        self.reduction, self.ignore_index, self.label_smoothing, self.options = reduction, ignore_index, label_smoothing, options
        self.linear = Linear(in_features, num_classes * math.prod(self.out_features), bias=bias, device=device, dtype=dtype)
        self.register_buffer("weight", weight)

    def extra_repr(self):
        return (f"in_features={self.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
                f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
                f"label_smoothing={self.label_smoothing}, options={self.options}")

    def forward(self, input, target):
        sizes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape(*sizes, self.in_features), target,
            linear_bias=None if bias is None else bias.reshape(sizes), weight=self.weight, reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options)
