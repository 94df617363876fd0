"""The geometric distribution."""
import cresset as torch
import cresset.nn.functional as F
from . import constraints
from .distribution import Distribution
from .utils import (_batch_shape_of, _check_one_given, broadcast_all, lazy_property,
                    logits_to_probs, probs_to_logits)

__all__ = ["Geometric"]


class Geometric(Distribution):
    """The number of failures before the first success."""
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        _check_one_given(probs, logits)
        given = probs if probs is not None else logits
        value, = broadcast_all(given)
        setattr(self, "probs" if probs is not None else "logits", value)
        super().__init__(_batch_shape_of(value, given), validate_args=validate_args)
        if self._validate_args and probs is not None:
            value = self.probs
            if not torch._C._truth((value > 0).all()):
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to be positive but found "
                    f"invalid values:\n{value.data[~(value > 0)]}")

    def expand(self, batch_shape, _instance=None):
        return self._expanded(Geometric, batch_shape, _instance, "probs", "logits")

    @property
    def mean(self):
        return 1.0 / self.probs - 1.0

    @property
    def mode(self):
        return torch.zeros_like(self.probs)

    @property
    def variance(self):
        return (1.0 / self.probs - 1.0) / self.probs

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    def sample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        tiny = torch.finfo(self.probs.dtype).tiny  # the logarithm of 0 is no number of failures
        with torch.no_grad():
            u = self.probs.new(shape).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone(memory_format=torch.contiguous_format)
        probs[(probs == 1) & (value == 0)] = 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self):
        return (F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
                / self.probs)
