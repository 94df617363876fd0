"""Normal vectors."""
import math

import cresset as torch
from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat, bvec):
    """Products of matrices and vectors, in broadcast batches."""
    return torch.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL, bx):
    """x^T (L L^T)^-1 x, in broadcast batches.

    bL may have fewer batch dimensions than bx, and ones; it is not expanded: the vectors that
    belong to one matrix become the columns of one system."""
    n = bx.size(-1)
    batch = bx.shape[:-1]
    extra = len(batch) - (bL.dim() - 2)
    old = extra + bL.dim() - 2
    # each batch dimension of bx becomes (size of bL, repetitions)
    split = list(bx.shape[:extra])
    for size_L, size_x in zip(bL.shape[:-2], bx.shape[extra:-1]):
        split += [size_x // size_L, size_L]
    bx = bx.reshape(split + [n])
    order = (list(range(extra)) + list(range(extra, extra + 2 * (old - extra), 2))
             + list(range(extra + 1, extra + 2 * (old - extra), 2)) + [bx.dim() - 1])
    bx = bx.permute(order)
    flat_L = bL.reshape(-1, n, n)
    flat_x = bx.reshape(-1, flat_L.size(0), n).permute(1, 2, 0)
    flat = torch.linalg.solve_triangular(flat_L, flat_x, upper=False).pow(2).sum(-2)
    result = flat.t().reshape(bx.shape[:-1])
    inverse = list(range(extra))
    for i in range(old - extra):
        inverse += [extra + i, old + i]
    return result.permute(inverse).reshape(batch)


def _precision_to_scale_tril(P):
    """The Cholesky factor of the inverse of P."""
    flipped = torch.linalg.cholesky(torch.flip(P, (-2, -1)))
    inverse = torch.transpose(torch.flip(flipped, (-2, -1)), -2, -1)
    identity = torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return torch.linalg.solve_triangular(inverse, identity, upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors with one of covariance, precision, or the covariance's Cholesky factor."""
    arg_constraints = {"loc": constraints.real_vector,
                       "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite,
                       "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None,
                 validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "scale_tril": scale_tril,
                 "precision_matrix": precision_matrix}
        given = {name: m for name, m in given.items() if m is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril "
                             "may be specified.")
        (name, matrix), = given.items()
        if matrix.dim() < 2:
            said = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{said} must be at least two-dimensional, "
                             "with optional leading batch dimensions")
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = torch.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def expand(self, batch_shape, _instance=None):
        events = {name: self.event_shape * 2 for name in (
            "covariance_matrix", "scale_tril", "precision_matrix")}
        events["loc"] = self.event_shape
        new = self._expanded(MultivariateNormal, batch_shape, _instance, *events, events=events)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    def _shaped(self, matrix):
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        return self._shaped(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        L = self._unbroadcasted_scale_tril
        return self._shaped(torch.matmul(L, L.mT))

    @lazy_property
    def precision_matrix(self):
        return self._shaped(torch.cholesky_inverse(self._unbroadcasted_scale_tril))

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape=torch.Size()):
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def _half_log_det(self):
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self):
        n = self._event_shape[0]
        H = 0.5 * n * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return H.expand(self._batch_shape) if self._batch_shape else H
