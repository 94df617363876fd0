"""Clipping of gradients."""
import sys
import types
import warnings

import cresset
from ... import Tensor

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
           "get_total_norm"]


def _as_list(tensors):
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _as_one(tensors):
    """True for tensors of which few launches of a device compute all norms."""
    first = tensors[0]
    return first.is_cuda and len(tensors) > 1 and not cresset.is_autocast_enabled("cuda") and all(
        type(t) is Tensor and t.layout is cresset.strided and t.device == first.device and t.dtype == first.dtype
        for t in tensors)


def _are_distributed(tensors):
    """Tells for each tensor whether it is a DTensor; loads no module, also where the package has the name torch."""
    module = sys.modules.get(f"{__name__.partition('.')[0]}.distributed.tensor")
    return [module is not None and isinstance(t, module.DTensor) for t in tensors]


def _norm_of_parts(tensors, norm_type):
    """Returns the norm of tensors that are divided over ranks, of the parts; None for others."""
    if not _are_distributed(tensors[:1])[0]:
        return None
    from ...distributed.tensor._norm import has_total_norm, total_norm
    return total_norm(tensors, norm_type) if has_total_norm(tensors, norm_type) else None


def _norms(tensors, norm_type):
    """Returns the norm of each tensor."""
    if norm_type == 2 and _as_one(tensors):
        return cresset._C.ops._norms(tensors)
    device = tensors[0].device
    return cresset.stack([cresset.linalg.vector_norm(t, norm_type).to(device) for t in tensors])


def _check_mixed(tensors, name):
    """Refuses DTensors beside plain tensors before one of them is changed."""
    if len(set(_are_distributed(tensors))) == 2:
        raise RuntimeError(f"aten.{name} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before "
                           "calling distributed operators!")


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Returns the norm of all tensors as if they were one vector."""
    tensors, norm_type = _as_list(tensors), float(norm_type)
    if not tensors:
        return cresset.tensor(0.0)
    _check_mixed(tensors, "_foreach_norm.Scalar")
    with cresset.no_grad():
        total = _norm_of_parts(tensors, norm_type)
        if total is None:
            total = cresset.linalg.vector_norm(_norms(tensors, norm_type), norm_type)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`")
    return total


def clip_grads_with_norm_(parameters, max_norm, total_norm, foreach=None):
    """Scales the gradients, whose norm is `total_norm`, so that the norm is at most `max_norm`."""
    grads = [p.grad for p in _as_list(parameters) if p.grad is not None]
    _check_mixed(grads, "_foreach_mul_.Tensor")
    with cresset.no_grad():
        # Multiplying by one is cheaper than reading the factor.
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        if grads and _as_one([factor] + grads):
            cresset._C.ops._scale_each_(grads, factor)
            return
        for grad in grads:
            grad.mul_(factor.to(grad.device))


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False,
                    foreach=None):
    """Scales the gradients so that their common norm is at most `max_norm`; returns the norm that they had.

    Shape:
        gradients of any sizes -> ()

    Example::

        >>> p = torch.nn.Parameter(torch.zeros(2))
        >>> p.grad = torch.tensor([3., 4.])
        >>> torch.nn.utils.clip_grad_norm_([p], 1.0), p.grad
        (tensor(5.), tensor([0.6000, 0.8000]))
    """
    is_generator = isinstance(parameters, types.GeneratorType)
    parameters = _as_list(parameters)
    if is_generator and not parameters:
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.",
                      stacklevel=2)
    grads = [p.grad for p in parameters if p.grad is not None]
    total = get_total_norm(grads, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """The old name of clip_grad_norm_."""
    warnings.warn("`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
                  "`torch.nn.utils.clip_grad_norm_`.", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits every element of the gradients to [-clip_value, clip_value].

    Shape:
        gradients of any sizes

    Example::

        >>> p = torch.nn.Parameter(torch.zeros(2))
        >>> p.grad = torch.tensor([3., -0.5])
        >>> torch.nn.utils.clip_grad_value_([p], 1.0)
        >>> p.grad
        tensor([ 1.0000, -0.5000])
    """
    clip_value = float(clip_value)
    with cresset.no_grad():
        for param in _as_list(parameters):
            if param.grad is not None:
                param.grad.clamp_(min=-clip_value, max=clip_value)
