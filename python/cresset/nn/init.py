"""Initializes parameters in place, with random numbers in torch's order."""
import math
import warnings

import cresset

from ..overrides import handle_torch_function, has_torch_function

__all__ = [
    "calculate_gain", "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_",
    "eye_", "dirac_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
    "kaiming_normal_", "orthogonal_", "sparse_", "uniform", "normal", "constant", "eye", "dirac",
    "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "orthogonal",
    "sparse"]

_GAINS = {"linear": 1, "conv1d": 1, "conv2d": 1, "conv3d": 1, "conv_transpose1d": 1, "conv_transpose2d": 1,
          "conv_transpose3d": 1, "sigmoid": 1, "tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def calculate_gain(nonlinearity, param=None):
    """Returns the gain that compensates a nonlinearity's effect on scale."""
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    if nonlinearity != "leaky_relu":
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    if param is None:
        param = 0.01
    elif isinstance(param, bool) or not isinstance(param, (int, float)):
        raise ValueError(f"negative_slope {param} not a valid number")
    return math.sqrt(2.0 / (1 + param ** 2))


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Fills a tensor with the uniform distribution over [a, b) and returns it.

    Shape:
        (*) -> (*)

    Example::

        >>> w = torch.nn.init.uniform_(torch.empty(3, 5), -1, 1)
        >>> bool((w >= -1).all() and (w < 1).all())
        True
    """
    if has_torch_function((tensor,)):
        return handle_torch_function(uniform_, (tensor,), tensor=tensor, a=a, b=b, generator=generator)
    with cresset.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Fills a tensor with the normal distribution and returns it.

    Shape:
        (*) -> (*)

    Example::

        >>> torch.nn.init.normal_(torch.empty(3, 5), std=0.02).shape
        torch.Size([3, 5])
    """
    if has_torch_function((tensor,)):
        return handle_torch_function(normal_, (tensor,), tensor=tensor, mean=mean, std=std, generator=generator)
    with cresset.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor, val):
    """Fills a tensor with `val` and returns it.

    Shape:
        (*) -> (*)

    Example::

        >>> torch.nn.init.constant_(torch.empty(2), 0.3)
        tensor([0.3000, 0.3000])
    """
    if has_torch_function((tensor,)):
        return handle_torch_function(constant_, (tensor,), tensor=tensor, val=val)
    with cresset.no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    """Fills a tensor with one and returns it.

    Shape:
        (*) -> (*)

    Example::

        >>> torch.nn.init.ones_(torch.empty(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor):
    """Fills a tensor with zero and returns it.

    Shape:
        (*) -> (*)

    Example::

        >>> torch.nn.init.zeros_(torch.empty(2))
        tensor([0., 0.])
    """
    with cresset.no_grad():
        return tensor.zero_()


def eye_(tensor):
    """Fills a matrix with the identity."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with cresset.no_grad():
        tensor.copy_(cresset.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))
    return tensor


def _redraw_outside(tensor, mean, std, a, b, generator):
    """Draws normal numbers; those outside [a, b] are drawn again until none remain."""
    low, high = (tensor.new_tensor(x, device="cpu").item() for x in (a, b))
    result = tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (result < low) | (result > high)
        if not outside.any():
            break
        again = cresset.empty_like(result).normal_(mean, std, generator=generator)
        result = cresset.where(outside, again, result)
    if result is not tensor:
        tensor.copy_(result)


def _log_density(candidates, mean, std, log_peak):
    return candidates.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(log_peak)


def _reject_uniform(tensor, mean, std, a, b, generator):
    """Draws uniform numbers of [a, b], each kept with the probability of the normal density."""
    mode = max(a, min(mean, b))
    log_peak = -0.5 * ((mode - mean) / std) ** 2
    candidates, accept = cresset.empty_like(tensor), cresset.empty_like(tensor)
    tensor.uniform_(a, b, generator=generator)
    candidates.copy_(tensor)
    _log_density(candidates, mean, std, log_peak)
    pending = accept.uniform_(generator=generator).log_().gt(candidates)
    if not pending.any():
        return
    result = tensor
    while pending.any():
        candidates.uniform_(a, b, generator=generator)
        result = cresset.where(pending, candidates, result)
        _log_density(candidates, mean, std, log_peak)
        refused = accept.uniform_(generator=generator).log_().gt(candidates)
        pending = cresset.where(pending, refused, pending)
    tensor.copy_(result)


def _normal_cdf(x):
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Fills a tensor with the normal distribution restricted to [a, b] and returns it.

    Shape:
        (*) -> (*)

    Example::

        >>> bool((torch.nn.init.trunc_normal_(torch.empty(3, 5), a=-1, b=1).abs() <= 1).all())
        True
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The "
                      "distribution of values may be incorrect.", stacklevel=2)
    inside = _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std)
    fill = _redraw_outside if inside > 0.3 else _reject_uniform
    with cresset.no_grad():
        fill(tensor, mean, std, a, b, generator)
    return tensor


def dirac_(tensor, groups=1):
    """Fills the weight of a convolution so that it copies its input, and returns it.

    Shape:
        (out, in, *kernel) -> (out, in, *kernel)

    Example::

        >>> torch.nn.init.dirac_(torch.empty(1, 1, 3))
        tensor([[[0., 1., 0.]]])
    """
    dims = tensor.ndimension()
    if dims not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    sizes = tensor.size()
    if sizes[0] % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    if tensor.is_meta:
        return tensor
    per_group = sizes[0] // groups
    center = tuple(n // 2 for n in sizes[2:])
    with cresset.no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(per_group, sizes[1])):
                tensor[(g * per_group + d, d, *center)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor):
    """Returns how many inputs an element of a layer's result has, and how many results an input has.

    Shape:
        (out, in, *kernel)

    Example::

        >>> torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(3, 5, 2, 2))
        (20, 12)
    """
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    shape = tensor.shape
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    modes = ["fan_in", "fan_out"]
    if mode not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return _calculate_fan_in_and_fan_out(tensor)[modes.index(mode)]


def _xavier_std(tensor, gain):
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Fills a tensor with the uniform distribution of variance gain^2 * 2 / (fan_in + fan_out) and returns it.

    Shape:
        (out, in, *) -> (out, in, *)

    Example::

        >>> w = torch.nn.init.xavier_uniform_(torch.empty(3, 5))
        >>> bool((w.abs() <= (6 / 8) ** 0.5).all())
        True
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Fills a tensor with the normal distribution of variance gain^2 * 2 / (fan_in + fan_out) and returns it.

    Shape:
        (out, in, *) -> (out, in, *)

    Example::

        >>> torch.nn.init.xavier_normal_(torch.empty(3, 5)).shape
        torch.Size([3, 5])
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def _kaiming_std(tensor, a, mode, nonlinearity):
    fan = _calculate_correct_fan(tensor, mode)
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def _is_empty(tensor):
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fills a tensor with the uniform distribution of variance gain^2 / fan and returns it.

    Shape:
        (out, in, *) -> (out, in, *)

    Example::

        >>> w = torch.nn.init.kaiming_uniform_(torch.empty(3, 6), nonlinearity="relu")
        >>> bool((w.abs() <= 1).all())
        True
    """
    if has_torch_function((tensor,)):
        return handle_torch_function(kaiming_uniform_, (tensor,), tensor=tensor, a=a, mode=mode, nonlinearity=nonlinearity,
                                     generator=generator)
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fills a tensor with the normal distribution of variance gain^2 / fan and returns it.

    Shape:
        (out, in, *) -> (out, in, *)

    Example::

        >>> torch.nn.init.kaiming_normal_(torch.empty(3, 5), mode="fan_out").shape
        torch.Size([3, 5])
    """
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor, gain=1, generator=None):
    """Fills a tensor with an orthogonal matrix (of the first dimension against all others) and returns it.

    Shape:
        (rows, *) -> (rows, *)

    Example::

        >>> w = torch.nn.init.orthogonal_(torch.empty(3, 3))
        >>> torch.allclose(w @ w.T, torch.eye(3), atol=1e-5)
        True
    """
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = tensor.size(0)
    cols = tensor.numel() // rows
    flat = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator)
    q, r = cresset.linalg.qr(flat.t() if rows < cols else flat)
    # The sign of the diagonal makes the distribution uniform over orthogonal matrices.
    q = q * cresset.diag(r, 0).sign()
    with cresset.no_grad():
        tensor.view(rows, cols).copy_(q.t() if rows < cols else q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Fills with normal numbers and a share of zeros in every column."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    if tensor.is_meta:
        return tensor
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with cresset.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(cols):
            tensor[cresset.randperm(rows)[:zeros], column] = 0
    return tensor


def _deprecated(function):
    new = function.__name__
    old = new[:-1]

    def deprecated_init(*args, **kwargs):
        warnings.warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
                      FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    deprecated_init.__name__ = old
    deprecated_init.__doc__ = f"The old name of {new}."
    return deprecated_init


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
