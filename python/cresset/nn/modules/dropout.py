"""Dropout."""
from .. import functional as F
from .module import Module

__all__ = ["Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout",
           "FeatureAlphaDropout"]


class _DropoutNd(Module):
    __constants__ = ["p", "inplace"]

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Zeroes elements with probability p while training.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.Dropout(0.5).eval()(torch.ones(3))  # eval() turns it off
        tensor([1., 1., 1.])
    """

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Zeroes channels of sequences with probability p while training.

    Shape: input (N, C, L) or (C, L); output the same.

    Example::

        >>> nn.Dropout1d(0.2)(torch.ones(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    def forward(self, input):
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Zeroes channels of images with probability p while training.

    Shape: input (N, C, H, W) or (C, H, W); output the same.

    Example::

        >>> nn.Dropout2d(0.2)(torch.ones(2, 3, 4, 4)).shape
        torch.Size([2, 3, 4, 4])
    """

    def forward(self, input):
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Zeroes channels of volumes with probability p while training.

    Shape: input (N, C, D, H, W) or (C, D, H, W); output the same.

    Example::

        >>> nn.Dropout3d(0.2)(torch.ones(2, 3, 4, 4, 4)).shape
        torch.Size([2, 3, 4, 4, 4])
    """

    def forward(self, input):
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.AlphaDropout(0.5).eval()(torch.ones(2, 3)).shape
        torch.Size([2, 3])
    """

    def forward(self, input):
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    Shape: input (*), any sizes; output the same.

    Example::

        >>> nn.FeatureAlphaDropout(0.5).eval()(torch.ones(2, 3)).shape
        torch.Size([2, 3])
    """

    def forward(self, input):
        return F.feature_alpha_dropout(input, self.p, self.training)
