"""Distances and similarities."""
from .. import functional as F
from .module import Module

__all__ = ["PairwiseDistance", "CosineSimilarity"]


class PairwiseDistance(Module):
    """The p-norm of x1 - x2 + eps along the last dimension.

    Shape: inputs (N, D) or (D); output (N) or (), with keepdim (N, 1) or (1).

    Example::

        >>> nn.PairwiseDistance()(torch.randn(4, 3), torch.randn(4, 3)).shape
        torch.Size([4])
    """

    __constants__ = ["norm", "eps", "keepdim"]

    def __init__(self, p=2.0, eps=1e-6, keepdim=False):
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1, x2):
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """The cosine between x1 and x2 along `dim`.

    Shape: inputs (*, D, *) that broadcast; output without `dim`.

    Example::

        >>> nn.CosineSimilarity(dim=1)(torch.ones(2, 3), torch.ones(2, 3))
        tensor([1.0000, 1.0000])
    """

    __constants__ = ["dim", "eps"]

    def __init__(self, dim=1, eps=1e-8):
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1, x2):
        return F.cosine_similarity(x1, x2, self.dim, self.eps)
