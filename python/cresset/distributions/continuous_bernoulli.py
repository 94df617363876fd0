"""The continuous Bernoulli distribution (Loaiza-Ganem and Cunningham, 2019)."""
import math

import cresset as torch
import cresset.nn.functional as F
from . import constraints
from .exp_family import ExponentialFamily
from .utils import (_batch_shape_of, _check_one_given, broadcast_all, clamp_probs, lazy_property,
                    logits_to_probs, probs_to_logits)

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(ExponentialFamily):
    """Numbers in [0, 1] whose density is proportional to probs^x (1 - probs)^(1 - x).

    Between `lims` the formulas lose their digits, and Taylor series around 1/2 are used."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        _check_one_given(probs, logits)
        given = probs if probs is not None else logits
        value, = broadcast_all(given)
        if probs is not None:
            if validate_args is not None and not torch._C._truth(self.arg_constraints["probs"].check(value).all()):
                raise ValueError("The parameter probs has invalid values")
            value = clamp_probs(value)
        setattr(self, "probs" if probs is not None else "logits", value)
        self._param = value
        self._lims = lims
        super().__init__(_batch_shape_of(value, given), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._expanded(ContinuousBernoulli, batch_shape, _instance, "probs", "logits", "_param")
        new._lims = self._lims
        return new

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    def _outside_unstable_region(self):
        return torch.max(torch.le(self.probs, self._lims[0]), torch.gt(self.probs, self._lims[1]))

    def _cut_probs(self):
        return torch.where(self._outside_unstable_region(), self.probs,
                           self._lims[0] * torch.ones_like(self.probs))

    def _near_half(self):
        return self.probs - 0.5

    def _cont_bern_log_norm(self):
        """The logarithm of the normalizing constant."""
        cut = self._cut_probs()
        low = torch.where(torch.le(cut, 0.5), cut, torch.zeros_like(cut))
        high = torch.where(torch.ge(cut, 0.5), cut, torch.ones_like(cut))
        norm = (torch.log(torch.abs(torch.log1p(-cut) - torch.log(cut)))
                - torch.where(torch.le(cut, 0.5), torch.log1p(-2.0 * low), torch.log(2.0 * high - 1.0)))
        x = torch.pow(self._near_half(), 2)
        taylor = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return torch.where(self._outside_unstable_region(), norm, taylor)

    @property
    def mean(self):
        cut = self._cut_probs()
        mus = cut / (2.0 * cut - 1.0) + 1.0 / (torch.log1p(-cut) - torch.log(cut))
        x = self._near_half()
        taylor = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * torch.pow(x, 2)) * x
        return torch.where(self._outside_unstable_region(), mus, taylor)

    @property
    def stddev(self):
        return torch.sqrt(self.variance)

    @property
    def variance(self):
        cut = self._cut_probs()
        exact = (cut * (cut - 1.0) / torch.pow(1.0 - 2.0 * cut, 2)
                 + 1.0 / torch.pow(torch.log1p(-cut) - torch.log(cut), 2))
        x = torch.pow(self._near_half(), 2)
        taylor = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return torch.where(self._outside_unstable_region(), exact, taylor)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def param_shape(self):
        return self._param.size()

    def _uniform(self, sample_shape):
        return torch.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype,
                          device=self.probs.device)

    def sample(self, sample_shape=torch.Size()):
        u = self._uniform(sample_shape)
        with torch.no_grad():
            return self.icdf(u)

    def rsample(self, sample_shape=torch.Size()):
        return self.icdf(self._uniform(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return (-F.binary_cross_entropy_with_logits(logits, value, reduction="none")
                + self._cont_bern_log_norm())

    def cdf(self, value):
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        inner = ((torch.pow(cut, value) * torch.pow(1.0 - cut, 1.0 - value) + cut - 1.0)
                 / (2.0 * cut - 1.0))
        result = torch.where(self._outside_unstable_region(), inner, value)
        result = torch.where(torch.le(value, 0.0), torch.zeros_like(value), result)
        return torch.where(torch.ge(value, 1.0), torch.ones_like(value), result)

    def icdf(self, value):
        cut = self._cut_probs()
        inner = ((torch.log1p(-cut + value * (2.0 * cut - 1.0)) - torch.log1p(-cut))
                 / (torch.log(cut) - torch.log1p(-cut)))
        return torch.where(self._outside_unstable_region(), inner, value)

    def entropy(self):
        miss = torch.log1p(-self.probs)
        return self.mean * (miss - torch.log(self.probs)) - self._cont_bern_log_norm() - miss

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        """log((e^x - 1) / x), by its Taylor series near 0."""
        outside = torch.max(torch.le(x, self._lims[0] - 0.5), torch.gt(x, self._lims[1] - 0.5))
        cut = torch.where(outside, x, (self._lims[0] - 0.5) * torch.ones_like(x))
        norm = torch.log(torch.abs(torch.special.expm1(cut))) - torch.log(torch.abs(cut))
        taylor = 0.5 * x + torch.pow(x, 2) / 24.0 - torch.pow(x, 4) / 2880.0
        return torch.where(outside, norm, taylor)
