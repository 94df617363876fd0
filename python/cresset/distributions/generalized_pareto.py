"""The generalized Pareto distribution, of what exceeds a high threshold."""
import math

import cresset as torch
from . import constraints
from .distribution import Distribution
from .utils import _batch_shape_of, broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """A Pareto tail for positive `concentration`, an exponential one for 0, a bounded one below."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive,
                       "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(_batch_shape_of(self.loc, loc, scale, concentration),
                         validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(GeneralizedPareto, batch_shape, _instance, "loc", "scale", "concentration")

    def _split(self):
        """Whether the concentration is 0, and a divisor that is not."""
        zero = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return zero, torch.where(zero, torch.ones_like(self.concentration), self.concentration)

    def _z(self, x):
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        zero, c = self._split()
        power = 1 / c + torch.ones_like(z)
        tail = torch.where(power == 0, power, power * torch.log1p(c * z))
        return -self.scale.log() - torch.where(zero, z, tail)

    def log_survival_function(self, value):
        """The logarithm of the chance to exceed `value`."""
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        zero, c = self._split()
        return torch.where(zero, -z, -torch.log1p(c * z) / c)

    def log_cdf(self, value):
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return torch.exp(self.log_cdf(value))

    def icdf(self, value):
        zero, c = self._split()
        log_rest = torch.log1p(-value)
        return torch.where(zero, self.loc - self.scale * log_rest,
                           self.loc + self.scale / c * torch.expm1(-c * log_rest))

    def _where_below(self, limit, formula):
        """formula(concentration) below `limit`; NaN elsewhere, without NaN in gradients."""
        valid = self.concentration < limit
        return torch.where(valid, formula(torch.where(valid, self.concentration, limit / 2)), math.nan)

    @property
    def mean(self):
        return self._where_below(1, lambda c: self.loc + self.scale / (1 - c))

    @property
    def variance(self):
        return self._where_below(0.5, lambda c: self.scale ** 2 / ((1 - c) ** 2 * (1 - 2 * c)))

    def entropy(self):
        return torch.broadcast_to(torch.log(self.scale) + self.concentration + 1, self._batch_shape)

    mode = property(lambda self: self.loc)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        upper = torch.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        return constraints.interval(self.loc, upper)
