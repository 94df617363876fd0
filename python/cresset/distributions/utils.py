"""Helpers that the distributions share."""
from functools import update_wrapper
from numbers import Number

import cresset as torch
import cresset.nn.functional as F
from cresset.overrides import is_tensor_like

euler_constant = 0.57721566490153286060

__all__ = ["broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property",
           "tril_matrix_to_vec", "vec_to_tril_matrix"]


def broadcast_all(*values):
    """Returns tensors of one shape; numbers get the dtype and device of the first tensor."""
    if not all(isinstance(v, Number) or is_tensor_like(v) for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects "
                         "implementing __torch_function__.")
    if not all(is_tensor_like(v) for v in values):
        options = {"dtype": torch.get_default_dtype()}
        for v in values:
            if isinstance(v, torch.Tensor):
                options = {"dtype": v.dtype, "device": v.device}
                break
        values = [v if is_tensor_like(v) else torch.tensor(v, **options) for v in values]
    # A tensor that has the common shape is returned itself: a leaf among the parameters gets its gradient.
    return tuple(v if isinstance(v, torch.Tensor) and v.shape == wide.shape else wide
                 for v, wide in zip(values, torch.broadcast_tensors(*values)))


def _batch_shape_of(value, *given):
    """The batch shape of a parameter: none where the user gave numbers only."""
    return torch.Size() if all(isinstance(v, Number) for v in given) else value.size()


def _check_one_given(probs, logits):
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


def _standard_normal(shape, dtype, device):
    return torch.normal(torch.zeros(shape, dtype=dtype, device=device),
                        torch.ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value, dim):
    """Sums the last `dim` dimensions of `value`."""
    if dim == 0:
        return value
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def logits_to_probs(logits, is_binary=False):
    return torch.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def clamp_probs(probs):
    """Moves probabilities off 0 and 1 by the dtype's epsilon."""
    eps = torch.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    inner = clamp_probs(probs)
    return torch.log(inner) - torch.log1p(-inner) if is_binary else torch.log(inner)


class lazy_property:
    """A property that is computed once; afterwards it is an attribute of the instance."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        update_wrapper(self, wrapped)

    def __get__(self, instance, obj_type=None):
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with torch.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """The lazy property of a class, which inspection should see as a property."""

    def __init__(self, wrapped):
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat, diag=0):
    """The rows of the lower triangle, one after the other."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    places = torch.arange(n, device=mat.device)
    return mat[..., places < places.view(-1, 1) + (diag + 1)]


def vec_to_tril_matrix(vec, diag=0):
    """The inverse of tril_matrix_to_vec: the matrix is zero above the diagonal `diag`."""
    length, d = vec.shape[-1], abs(diag)
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * d * (diag + 1)) ** 0.5) / 2
    eps = torch.finfo(vec.dtype).eps
    if round(n) - n > eps:
        raise ValueError(f"The size of last dimension is {length} which cannot be expressed as "
                         "the lower triangular part of a square D x D matrix.")
    n = round(n)
    mat = vec.new_zeros(vec.shape[:-1] + torch.Size((n, n)))
    places = torch.arange(n, device=vec.device)
    mat[..., places < places.view(-1, 1) + (diag + 1)] = vec
    return mat
