"""Normalization within each sample."""
import cresset
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = ["LocalResponseNorm", "CrossMapLRN2d", "LayerNorm", "GroupNorm", "RMSNorm"]


class LocalResponseNorm(Module):
    """Divides by a power of the mean square of neighbouring channels.

    Shape: input (N, C, *); output the same.

    Example::

        >>> nn.LocalResponseNorm(2)(torch.randn(1, 6, 4, 4)).shape
        torch.Size([1, 6, 4, 4])
    """

    __constants__ = ["size", "alpha", "beta", "k"]

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1.0):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self):
        return "{size}, alpha={alpha}, beta={beta}, k={k}".format(**self.__dict__)


class CrossMapLRN2d(Module):
    """Divides images by a power of the mean square of neighbouring channels, in Torch 7's way.

    The square of the first channel stays in the sums of all following channels.

    Shape: input (N, C, H, W); output the same.

    Example::

        >>> nn.CrossMapLRN2d(2)(torch.randn(1, 6, 4, 4)).shape
        torch.Size([1, 6, 4, 4])
    """

    def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input):
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        ahead, channels = int((self.size - 1) / 2 + 1), input.size(1)
        square = input.square()
        sums = [square[:, :ahead].sum(1)]
        for c in range(1, channels):
            total = sums[-1]
            if c < channels - ahead + 1:
                total = total + square[:, c + ahead - 1]
            if c > ahead:
                total = total - square[:, c - ahead]
            sums.append(total)
        scale = cresset.stack(sums, 1) * (self.alpha / self.size) + self.k
        return input * scale.pow(-self.beta)

    def extra_repr(self):
        return "{size}, alpha={alpha}, beta={beta}, k={k}".format(**self.__dict__)


class _Affine(Module):
    """A scale and a shift, initially one and zero."""

    def _make_affine(self, shape, weight, bias, factory_kwargs):
        for name, wanted in (("weight", weight), ("bias", bias)):
            if wanted is not None:
                param = Parameter(cresset.empty(shape, **factory_kwargs)) if wanted else None
                self.register_parameter(name, param)
        self.reset_parameters()

    def reset_parameters(self):
        if self.weight is not None:
            init.ones_(self.weight)
        if self._parameters.get("bias") is not None:
            init.zeros_(self.bias)


def _shape(normalized_shape):
    if hasattr(normalized_shape, "__index__"):
        return (normalized_shape,)
    return tuple(normalized_shape)


class LayerNorm(_Affine):
    """Zero mean and unit variance over the last dimensions.

    Shape: input (*, *normalized_shape); output the same.

    Example::

        >>> nn.LayerNorm(4)(torch.randn(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True,
                 device=None, dtype=None):
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make_affine(self.normalized_shape, elementwise_affine, elementwise_affine and bias,
                          {"device": device, "dtype": dtype})

    def forward(self, input):
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return ("{normalized_shape}, eps={eps}, elementwise_affine={elementwise_affine}, "
                "bias={use_bias}").format(**self.__dict__, use_bias=self.bias is not None)


class GroupNorm(_Affine):
    """Zero mean and unit variance over groups of channels.

    Shape: input (N, C, *), where C is num_channels; output the same.

    Example::

        >>> nn.GroupNorm(2, 6)(torch.randn(1, 6, 4, 4)).shape
        torch.Size([1, 6, 4, 4])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, device=None, dtype=None,
                 *, bias=True):
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups "
                             f"({num_groups})")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self._make_affine(num_channels, affine, affine and bias,
                          {"device": device, "dtype": dtype})

    def forward(self, input):
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return ("{num_groups}, {num_channels}, eps={eps}, affine={affine}, "
                "bias={use_bias}").format(**self.__dict__, use_bias=self.bias is not None)


class RMSNorm(_Affine):
    """Unit mean square over the last dimensions.

    Shape: input (*, *normalized_shape); output the same.

    Example::

        >>> nn.RMSNorm(4)(torch.randn(2, 3, 4)).shape
        torch.Size([2, 3, 4])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None,
                 dtype=None):
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self._make_affine(self.normalized_shape, elementwise_affine, None,
                          {"device": device, "dtype": dtype})

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return ("{normalized_shape}, eps={eps}, "
                "elementwise_affine={elementwise_affine}").format(**self.__dict__)
