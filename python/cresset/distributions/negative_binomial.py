"""The negative binomial distribution."""
import cresset as torch
import cresset.nn.functional as F
from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import (_check_one_given, broadcast_all, lazy_property, logits_to_probs,
                    probs_to_logits)

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Distribution):
    """The number of successes before `total_count` failures."""
    arg_constraints = {"total_count": constraints.greater_than_eq(0),
                       "probs": constraints.half_open_interval(0.0, 1.0),
                       "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        _check_one_given(probs, logits)
        name = "probs" if probs is not None else "logits"
        self.total_count, value = broadcast_all(total_count, probs if probs is not None else logits)
        self.total_count = self.total_count.type_as(value)
        setattr(self, name, value)
        self._param = value
        super().__init__(value.size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        return self._expanded(NegativeBinomial, batch_shape, _instance, "total_count", "probs",
                              "logits", "_param")

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @property
    def mean(self):
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self):
        return self.mean / torch.sigmoid(-self.logits)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self):
        return self._param.size()

    @lazy_property
    def _gamma(self):
        """The rate of the Poisson numbers."""
        return Gamma(concentration=self.total_count, rate=torch.exp(-self.logits),
                     validate_args=False)

    def sample(self, sample_shape=torch.Size()):
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        density = self.total_count * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        choices = (-torch.lgamma(self.total_count + value) + torch.lgamma(1.0 + value)
                   + torch.lgamma(self.total_count))
        # 0 failures and 0 successes: one choice
        choices = choices.masked_fill(self.total_count + value == 0.0, 0.0)
        return density - choices
