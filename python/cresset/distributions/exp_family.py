"""Exponential families: the density is a linear function of statistics, in natural parameters."""
import cresset as torch
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution with natural parameters; its entropy follows from the log normalizer."""

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def entropy(self):
        """The Bregman divergence of the log normalizer; its gradient is the mean statistic."""
        result = -self._mean_carrier_measure
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        slopes = torch.autograd.grad(normalizer.sum(), params, create_graph=True)
        result += normalizer
        for param, slope in zip(params, slopes):
            result -= (param * slope).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
