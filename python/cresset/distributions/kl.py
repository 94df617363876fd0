"""Kullback-Leibler divergences, found by the classes of both distributions."""
import math
import warnings
from functools import total_ordering

import cresset as torch
import cresset.nn.functional as F
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .lowrank_multivariate_normal import (
    LowRankMultivariateNormal, _batch_lowrank_logdet, _batch_lowrank_mahalanobis)
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _sum_rightmost, euler_constant as _euler_gamma

__all__ = ["register_kl", "kl_divergence"]

_KL_REGISTRY = {}  # functions by pairs of classes
_KL_MEMOIZE = {}  # the same for pairs that were asked for


def register_kl(type_p, type_q):
    """Decorates a function of p and q that returns KL(p || q) for these classes."""
    for name, cls in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(cls, type):
            raise TypeError(f"Expected {name} to be a Distribution subclass but got {cls}")

    def decorator(fun):
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()
        return fun
    return decorator


@total_ordering
class _Match:
    """A tuple of classes, less than another where each is a subclass; earlier ones decide."""
    __slots__ = ["types"]

    def __init__(self, *types):
        self.types = types

    def __eq__(self, other):
        return self.types == other.types

    def __le__(self, other):
        for x, y in zip(self.types, other.types):
            if not issubclass(x, y):
                return False
            if x is not y:
                break
        return True


def _dispatch_kl(type_p, type_q):
    """The most specific function for two classes."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    left_p, left_q = min(_Match(*m) for m in matches).types
    right_q, right_p = min(_Match(*reversed(m)) for m in matches).types
    left, right = _KL_REGISTRY[left_p, left_q], _KL_REGISTRY[right_p, right_q]
    if left is not right:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({left_p.__name__}, {right_q.__name__})", RuntimeWarning, stacklevel=2)
    return left


def kl_divergence(p, q):
    """KL(p || q), the mean of log p(x) - log q(x) for x from p."""
    key = type(p), type(q)
    if key not in _KL_MEMOIZE:
        _KL_MEMOIZE[key] = _dispatch_kl(*key)
    fun = _KL_MEMOIZE[key]
    if fun is NotImplemented:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {p.__class__.__name__} "
                                  f"and q type {q.__class__.__name__}")
    return fun(p, q)


def _infinite_like(tensor):
    return torch.full_like(tensor, math.inf)


def _x_log_x(tensor):
    return torch.special.xlogy(tensor, tensor)


def _batch_trace_XXT(bmat):
    """trace(X X^T) of each matrix."""
    return bmat.reshape(bmat.shape[:-2] + (-1,)).pow(2).sum(-1)


# Both of one family.

@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p, q):
    hit = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    hit = hit.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    miss = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    miss = miss.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)
    return hit + miss


@register_kl(Beta, Beta)
def _kl_beta_beta(p, q):
    a, b, total = p.concentration1, p.concentration0, p.concentration1 + p.concentration0
    c, d, other = q.concentration1, q.concentration0, q.concentration1 + q.concentration0
    norms = c.lgamma() + d.lgamma() + total.lgamma() - (a.lgamma() + b.lgamma() + other.lgamma())
    return (norms + (a - c) * torch.digamma(a) + (b - d) * torch.digamma(b)
            + (other - total) * torch.digamma(total))


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p, q):
    # Infinite where q cannot count as far as p; where it can count farther there is no formula.
    if torch._C._truth((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is "
                                  "not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    beyond = p.total_count > q.total_count
    kl[beyond] = _infinite_like(kl[beyond])
    return kl


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p, q):
    t = p.probs * (p.logits - q.logits)
    t[(q.probs == 0).expand_as(t)] = math.inf
    t[(p.probs == 0).expand_as(t)] = 0
    return t.sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p, q):
    return (p.mean * (p.logits - q.logits) + p._cont_bern_log_norm() + torch.log1p(-p.probs)
            - q._cont_bern_log_norm() - torch.log1p(-q.probs))


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p, q):
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    norms = total_p.lgamma() - total_q.lgamma()
    parts = (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    slopes = p.concentration.digamma() - total_p.digamma().unsqueeze(-1)
    return norms - parts + ((p.concentration - q.concentration) * slopes).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p, q):
    """The Bregman divergence of the log normalizer."""
    if type(p) != type(q):
        raise NotImplementedError("The cross KL-divergence between different exponential families "
                                  "cannot                             be computed using Bregman "
                                  "divergences")
    p_params = [x.detach().requires_grad_() for x in p._natural_params]
    q_params = q._natural_params
    normalizer = p._log_normalizer(*p_params)
    slopes = torch.autograd.grad(normalizer.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q_params) - normalizer
    for theirs, ours, slope in zip(q_params, p_params, slopes):
        result -= _sum_rightmost((theirs - ours) * slope, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p, q):
    return (q.concentration * (p.rate / q.rate).log()
            + torch.lgamma(q.concentration) - torch.lgamma(p.concentration)
            + (p.concentration - q.concentration) * torch.digamma(p.concentration)
            + (q.rate - p.rate) * (p.concentration / p.rate))


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p, q):
    ratio, q_loc, p_loc = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    t1 = -ratio.log() - q_loc + p_loc
    t3 = torch.exp(q_loc + (1 + ratio).lgamma() - p_loc)
    return t1 + ratio * _euler_gamma + t3 - (1 + _euler_gamma)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p, q):
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p, q):
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1


def _check_event_shapes(p, q, kind):
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {kind} Normals with                          "
                         "different event shapes cannot be computed")


def _half_log_det(L):
    return L.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _low_rank_log_det(d):
    return _batch_lowrank_logdet(d._unbroadcasted_cov_factor, d._unbroadcasted_cov_diag,
                                 d._capacitance_tril)


def _low_rank_distance(q, difference):
    return _batch_lowrank_mahalanobis(q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag,
                                      difference, q._capacitance_tril)


def _low_rank_projection(q):
    """The factor A with q's precision = D^-1 - A^T A."""
    Wt_Dinv = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    return torch.linalg.solve_triangular(q._capacitance_tril, Wt_Dinv, upper=False)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(p, q):
    _check_event_shapes(p, q, "Low Rank Multivariate")
    A = _low_rank_projection(q)
    root = p._unbroadcasted_cov_diag.sqrt()
    trace = ((p._unbroadcasted_cov_diag / q._unbroadcasted_cov_diag).sum(-1)
             + _batch_trace_XXT(p._unbroadcasted_cov_factor
                                * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1))
             - _batch_trace_XXT(A * root.unsqueeze(-2))
             - _batch_trace_XXT(A.matmul(p._unbroadcasted_cov_factor)))
    return 0.5 * (_low_rank_log_det(q) - _low_rank_log_det(p) + trace
                  + _low_rank_distance(q, q.loc - p.loc) - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(p, q):
    _check_event_shapes(p, q, "(Low Rank) Multivariate")
    A = _low_rank_projection(q)
    trace = (_batch_trace_XXT(p._unbroadcasted_scale_tril
                              * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1))
             - _batch_trace_XXT(A.matmul(p._unbroadcasted_scale_tril)))
    return 0.5 * (_low_rank_log_det(q) - 2 * _half_log_det(p._unbroadcasted_scale_tril) + trace
                  + _low_rank_distance(q, q.loc - p.loc) - p.event_shape[0])


def _expanded_solve(q_tril, p_matrix, p, q):
    """q_tril^-1 p_matrix in the broadcast batch."""
    batch = torch.broadcast_shapes(q._batch_shape, p._batch_shape)
    n = p.event_shape[0]
    return torch.linalg.solve_triangular(q_tril.expand(batch + (n, n)),
                                         p_matrix.expand(batch + (n, p_matrix.size(-1))), upper=False)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(p, q):
    _check_event_shapes(p, q, "(Low Rank) Multivariate")
    L = q._unbroadcasted_scale_tril
    trace = (_batch_trace_XXT(_expanded_solve(L, p._unbroadcasted_cov_factor, p, q))
             + _batch_trace_XXT(_expanded_solve(
                 L, torch.diag_embed(p._unbroadcasted_cov_diag.sqrt()), p, q)))
    return 0.5 * (2 * _half_log_det(L) - _low_rank_log_det(p) + trace
                  + _batch_mahalanobis(L, q.loc - p.loc) - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p, q):
    _check_event_shapes(p, q, "Multivariate")
    L = q._unbroadcasted_scale_tril
    half = _half_log_det(L) - _half_log_det(p._unbroadcasted_scale_tril)
    trace = _batch_trace_XXT(_expanded_solve(L, p._unbroadcasted_scale_tril, p, q))
    return half + 0.5 * (trace + _batch_mahalanobis(L, q.loc - p.loc) - p.event_shape[0])


@register_kl(Normal, Normal)
def _kl_normal_normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p, q):
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p, q):
    scales, alphas = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * scales.log() - alphas.log() + alphas - 1
    result[p.support.lower_bound < q.support.lower_bound] = math.inf
    return result


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p, q):
    result = ((q.high - q.low) / (p.high - p.low)).log()
    result[(q.low > p.low) | (q.high < p.high)] = math.inf
    return result


@register_kl(Independent, Independent)
def _kl_independent_independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p, q):
    near = ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log()
    return near - (4 * p.scale * q.scale).log()


# Where p has values that q does not have the divergence is infinite.

def _register_infinite(type_p, types_q, like):
    for type_q in types_q:
        register_kl(type_p, type_q)(lambda p, q: _infinite_like(like(p)))


_register_infinite(Beta, (Pareto,), lambda p: p.concentration1)
_register_infinite(ContinuousBernoulli, (Pareto,), lambda p: p.probs)
_register_infinite(Exponential, (Beta, ContinuousBernoulli, Pareto, Uniform), lambda p: p.rate)
_register_infinite(Gamma, (Beta, ContinuousBernoulli, Pareto, Uniform), lambda p: p.concentration)
_register_infinite(Gumbel, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
                   lambda p: p.loc)
_register_infinite(Laplace, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
                   lambda p: p.loc)
_register_infinite(Normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
                   lambda p: p.loc)
_register_infinite(Pareto, (Beta, ContinuousBernoulli, Uniform), lambda p: p.scale)
_register_infinite(Poisson, (Bernoulli, Binomial), lambda p: p.rate)


# Different families: minus the entropy of p, minus the mean of log q.

@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p, q):
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _kl_beta_continuous_bernoulli(p, q):
    return (-p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm())


@register_kl(Beta, Exponential)
def _kl_beta_exponential(p, q):
    mean = p.concentration1 / (p.concentration1 + p.concentration0)
    return -p.entropy() - q.rate.log() + q.rate * mean


@register_kl(Beta, Gamma)
def _kl_beta_gamma(p, q):
    total = p.concentration1 + p.concentration0
    log_norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    mean_log = p.concentration1.digamma() - total.digamma()
    return (-p.entropy() + log_norm - (q.concentration - 1) * mean_log
            + q.rate * p.concentration1 / total)


def _minus_log_normal(mean, variance, q):
    """The mean of -log q(x) for a normal q."""
    double = q.scale.pow(2) * 2
    return (0.5 * (double * math.pi).log() + (variance + mean.pow(2)) / double
            - mean * q.loc * 2 / double + q.loc.pow(2) / double)


@register_kl(Beta, Normal)
def _kl_beta_normal(p, q):
    return -p.entropy() + _minus_log_normal(p.mean, p.variance, q)


@register_kl(Beta, Uniform)
def _kl_beta_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    result[(q.low > p.support.lower_bound) | (q.high < p.support.upper_bound)] = math.inf
    return result


@register_kl(ContinuousBernoulli, Exponential)
def _kl_continuous_bernoulli_exponential(p, q):
    return -p.entropy() - torch.log(q.rate) + q.rate * p.mean


@register_kl(ContinuousBernoulli, Normal)
def _kl_continuous_bernoulli_normal(p, q):
    t2 = 0.5 * (math.log(2.0 * math.pi) + torch.square(q.loc / q.scale)) + torch.log(q.scale)
    t3 = (p.variance + torch.square(p.mean) - 2.0 * q.loc * p.mean) / (2.0 * torch.square(q.scale))
    return -p.entropy() + t2 + t3


@register_kl(ContinuousBernoulli, Uniform)
def _kl_continuous_bernoulli_uniform(p, q):
    result = -p.entropy() + (q.high - q.low).log()
    outside = torch.max(torch.ge(q.low, p.support.lower_bound), torch.le(q.high, p.support.upper_bound))
    return torch.where(outside, torch.ones_like(result) * math.inf, result)


@register_kl(Exponential, Gamma)
def _kl_exponential_gamma(p, q):
    ratio = q.rate / p.rate
    return (-q.concentration * torch.log(ratio) + ratio + q.concentration.lgamma()
            + q.concentration * _euler_gamma - (1 + _euler_gamma))


@register_kl(Exponential, Gumbel)
def _kl_exponential_gumbel(p, q):
    scale_rate = p.rate * q.scale
    loc_scale = q.loc / q.scale
    return (scale_rate.log() - 1 + torch.exp(loc_scale) * scale_rate / (scale_rate + 1)
            - loc_scale + scale_rate.reciprocal())


@register_kl(Exponential, Normal)
def _kl_exponential_normal(p, q):
    return -p.entropy() + _minus_log_normal(p.mean, p.variance, q)


@register_kl(Gamma, Exponential)
def _kl_gamma_exponential(p, q):
    return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Gamma, Gumbel)
def _kl_gamma_gumbel(p, q):
    beta_scale = p.rate * q.scale
    loc_scale = q.loc / q.scale
    t1 = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma() - p.concentration
    t2 = beta_scale.log() + p.concentration / beta_scale
    t3 = torch.exp(loc_scale) * (1 + beta_scale.reciprocal()).pow(-p.concentration) - loc_scale
    return t1 + t2 + t3


@register_kl(Gamma, Normal)
def _kl_gamma_normal(p, q):
    return -p.entropy() + _minus_log_normal(p.mean, p.variance, q)


@register_kl(Gumbel, Normal)
def _kl_gumbel_normal(p, q):
    mean = p.loc + p.scale * _euler_gamma
    return -p.entropy() + _minus_log_normal(mean, p.variance, q)


@register_kl(Laplace, Normal)
def _kl_laplace_normal(p, q):
    return -p.entropy() + _minus_log_normal(p.loc, p.variance, q)


@register_kl(Normal, Gumbel)
def _kl_normal_gumbel(p, q):
    mean_scale, variance = p.loc / q.scale, (p.scale / q.scale).pow(2)
    loc_scale = q.loc / q.scale
    t1 = mean_scale - loc_scale
    t2 = torch.exp(-mean_scale + 0.5 * variance + loc_scale)
    return -p.entropy() + t1 + t2 + q.scale.log()


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p, q):
    distance = p.loc - q.loc
    scaled = distance / p.scale
    t1 = torch.log(q.scale)
    t2 = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * scaled.pow(2))
    t3 = distance * torch.erf(math.sqrt(0.5) * scaled)
    return -p.entropy() + t1 + (t2 + t3) / q.scale + math.log(2)


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p, q):
    scale_rate = p.scale * q.rate
    result = ((p.alpha / scale_rate).log() - p.alpha.reciprocal()
              + p.alpha * scale_rate / (p.alpha - 1) - 1)
    result[p.alpha <= 1] = math.inf
    return result


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p, q):
    mean_log = p.scale.log() + p.alpha.reciprocal()
    result = (p.alpha.log() - mean_log + q.concentration.lgamma() - q.concentration * q.rate.log()
              + (1 - q.concentration) * mean_log + q.rate * p.alpha * p.scale / (p.alpha - 1) - 1)
    result[p.alpha <= 1] = math.inf
    return result


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p, q):
    mean = p.alpha * p.scale / (p.alpha - 1)
    variance = p.scale.pow(2) * p.alpha / ((p.alpha - 1).pow(2) * (p.alpha - 2))
    result = -p.entropy() + _minus_log_normal(mean, variance, q)
    result[p.alpha <= 2] = math.inf
    return result


def _where_inside(p, low, high, result):
    """`result` where the interval of a uniform p is inside of [low, high], infinity elsewhere."""
    result[(low > p.low) | (high < p.high)] = math.inf
    return result


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p, q):
    width = p.high - p.low
    log_norm = (q.concentration1.lgamma() + q.concentration0.lgamma()
                - (q.concentration1 + q.concentration0).lgamma())
    below = (q.concentration1 - 1) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    above = (q.concentration0 - 1) * (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + width) / width
    result = log_norm - torch.log(width) - below + above
    return _where_inside(p, q.support.lower_bound, q.support.upper_bound, result)


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p, q):
    result = (-p.entropy() - p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm())
    outside = torch.max(torch.ge(p.high, q.support.upper_bound), torch.le(p.low, q.support.lower_bound))
    return torch.where(outside, torch.ones_like(result) * math.inf, result)


@register_kl(Uniform, Exponential)
def _kl_uniform_exponetial(p, q):
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    result[p.low < q.support.lower_bound] = math.inf
    return result


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p, q):
    width = p.high - p.low
    log_norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    mean_log = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    result = (-width.log() + log_norm + (1 - q.concentration) * mean_log
              + q.rate * (p.high + p.low) / 2)
    result[p.low < q.support.lower_bound] = math.inf
    return result


@register_kl(Uniform, Gumbel)
def _kl_uniform_gumbel(p, q):
    width = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return width.log() + 0.5 * (high + low) - width * (torch.exp(-high) - torch.exp(-low))


@register_kl(Uniform, Normal)
def _kl_uniform_normal(p, q):
    width = p.high - p.low
    return ((math.sqrt(math.pi * 2) * q.scale / width).log()
            + (width.pow(2) / 12 + ((p.high + p.low - 2 * q.loc) / 2).pow(2)) / (2 * q.scale.pow(2)))


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p, q):
    width = p.high - p.low
    mean_log = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    result = mean_log * (q.alpha + 1) - (width * (q.alpha * q.scale.pow(q.alpha))).log()
    result[p.low < q.support.lower_bound] = math.inf
    return result
