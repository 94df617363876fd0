"""Distributions of |x|, where the distribution of x is symmetric around 0."""
import math

import cresset as torch
from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform


class Half(TransformedDistribution):
    """The distribution of |x|, where x has the distribution `_whole` with location 0."""
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale, validate_args=None):
        super().__init__(self._whole(0, scale, validate_args=False), AbsTransform(),
                         validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return super().expand(batch_shape, self._get_checked_instance(Half, _instance))

    scale = property(lambda self: self.base_dist.scale)

    @property
    def mode(self):
        return torch.zeros_like(self.scale)

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)
