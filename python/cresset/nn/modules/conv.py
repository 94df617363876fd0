"""Convolutions and transposed convolutions."""
import math

import cresset
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module
from .utils import _pair, _reverse_repeat_tuple, _single, _triple

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
           "ConvTranspose3d"]

_PADDING_STRINGS = {"same", "valid"}
_PADDING_MODES = {"zeros", "reflect", "replicate", "circular"}


def _check_conv_arguments(in_channels, out_channels, stride, padding, groups, padding_mode):
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in _PADDING_STRINGS:
            raise ValueError(f"Invalid padding string {padding!r}, should be one of "
                             f"{_PADDING_STRINGS}")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(f"padding_mode must be one of {_PADDING_MODES}, but got "
                         f"padding_mode='{padding_mode}'")


def _explicit_padding(padding, dilation, kernel_size):
    """Returns the arguments of F.pad for `padding`, last dim first."""
    if not isinstance(padding, str):
        return _reverse_repeat_tuple(padding, 2)
    out = [0, 0] * len(kernel_size)
    if padding == "same":
        for i, (d, k) in enumerate(zip(reversed(dilation), reversed(kernel_size))):
            total = d * (k - 1)
            out[2 * i] = total // 2
            out[2 * i + 1] = total - total // 2
    return out


class _ConvNd(Module):
    __constants__ = ["stride", "padding", "dilation", "groups", "padding_mode",
                     "output_padding", "in_channels", "out_channels", "kernel_size"]

    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation,
                 transposed, output_padding, groups, bias, padding_mode, device=None,
                 dtype=None):
        factory_kwargs = {"device": device, "dtype": dtype}
        super().__init__()
        _check_conv_arguments(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _explicit_padding(padding, dilation, kernel_size)
        if transposed:
            shape = (in_channels, out_channels // groups, *kernel_size)
        else:
            shape = (out_channels, in_channels // groups, *kernel_size)
        self.weight = Parameter(cresset.empty(shape, **factory_kwargs))
        if bias:
            self.bias = Parameter(cresset.empty(out_channels, **factory_kwargs))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        # a = sqrt(5) makes this uniform(-1/sqrt(k), 1/sqrt(k)), k = fan in.
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def _padded_conv(self, conv, input, weight, bias):
        """Convolves after padding in the padding mode."""
        input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
        return conv(input, weight, bias, self.stride, 0, self.dilation, self.groups)

    def extra_repr(self):
        s = ("{in_channels}, {out_channels}, kernel_size={kernel_size}, stride={stride}")
        if self.padding != (0,) * len(self.padding):
            s += ", padding={padding}"
        if self.dilation != (1,) * len(self.dilation):
            s += ", dilation={dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            s += ", output_padding={output_padding}"
        if self.groups != 1:
            s += ", groups={groups}"
        if self.bias is None:
            s += ", bias=False"
        if self.padding_mode != "zeros":
            s += ", padding_mode={padding_mode}"
        return s.format(**self.__dict__)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


def _conv_arguments(expand, kernel_size, stride, padding, dilation):
    padding = padding if isinstance(padding, str) else expand(padding)
    return expand(kernel_size), expand(stride), padding, expand(dilation)


class Conv1d(_ConvNd):
    """Convolution over sequences: (N, C_in, L) -> (N, C_out, L').

    Shape: input (N, in_channels, L) or (in_channels, L); output (N, out_channels, L_out), with x_out = floor((x + 2
    padding - dilation (kernel_size - 1) - 1) / stride + 1) for each of the last sizes x.

    Example::

        >>> nn.Conv1d(3, 6, kernel_size=3, padding=1)(torch.randn(2, 3, 8)).shape
        torch.Size([2, 6, 8])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
                 groups=1, bias=True, padding_mode="zeros", device=None, dtype=None):
        sizes = _conv_arguments(_single, kernel_size, stride, padding, dilation)
        super().__init__(in_channels, out_channels, *sizes, False, _single(0), groups, bias,
                         padding_mode, device=device, dtype=dtype)

    def _conv_forward(self, input, weight, bias):
        if self.padding_mode != "zeros":
            return self._padded_conv(F.conv1d, input, weight, bias)
        return F.conv1d(input, weight, bias, self.stride, self.padding, self.dilation,
                        self.groups)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv2d(_ConvNd):
    """Convolution over images: (N, C_in, H, W) -> (N, C_out, H', W').

    Shape: input (N, in_channels, H, W) or (in_channels, H, W); output (N, out_channels, H_out, W_out), with x_out =
    floor((x + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1) for each of the last sizes x.

    Example::

        >>> nn.Conv2d(3, 6, kernel_size=3, padding=1)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 6, 8, 8])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
                 groups=1, bias=True, padding_mode="zeros", device=None, dtype=None):
        sizes = _conv_arguments(_pair, kernel_size, stride, padding, dilation)
        super().__init__(in_channels, out_channels, *sizes, False, _pair(0), groups, bias,
                         padding_mode, device=device, dtype=dtype)

    def _conv_forward(self, input, weight, bias):
        if self.padding_mode != "zeros":
            return self._padded_conv(F.conv2d, input, weight, bias)
        return F.conv2d(input, weight, bias, self.stride, self.padding, self.dilation,
                        self.groups)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class Conv3d(_ConvNd):
    """Convolution over volumes: (N, C_in, D, H, W) -> (N, C_out, D', H', W').

    Shape: input (N, in_channels, D, H, W) or (in_channels, D, H, W); output (N, out_channels, D_out, H_out, W_out),
    with x_out = floor((x + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1) for each of the last sizes x.

    Example::

        >>> nn.Conv3d(3, 6, kernel_size=3, padding=1)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 6, 8, 8, 8])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1,
                 groups=1, bias=True, padding_mode="zeros", device=None, dtype=None):
        sizes = _conv_arguments(_triple, kernel_size, stride, padding, dilation)
        super().__init__(in_channels, out_channels, *sizes, False, _triple(0), groups, bias,
                         padding_mode, device=device, dtype=dtype)

    def _conv_forward(self, input, weight, bias):
        if self.padding_mode != "zeros":
            return self._padded_conv(F.conv3d, input, weight, bias)
        return F.conv3d(input, weight, bias, self.stride, self.padding, self.dilation,
                        self.groups)

    def forward(self, input):
        return self._conv_forward(input, self.weight, self.bias)


class _ConvTransposeNd(_ConvNd):
    def __init__(self, in_channels, out_channels, kernel_size, stride, padding, dilation,
                 transposed, output_padding, groups, bias, padding_mode, device=None,
                 dtype=None):
        if padding_mode != "zeros":
            raise ValueError('Only "zeros" padding mode is supported for '
                             f"{type(self).__name__}")
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation,
                         transposed, output_padding, groups, bias, padding_mode, device=device,
                         dtype=dtype)

    def _output_padding(self, input, output_size, stride, padding, kernel_size,
                        num_spatial_dims, dilation=None):
        """Returns the padding that gives `output_size`; the module's padding when it is None."""
        if output_size is None:
            return _single(self.output_padding)
        n = num_spatial_dims
        skip = 2 if input.dim() == n + 2 else 1
        if len(output_size) == skip + n:
            output_size = output_size[skip:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                f"{skip + n} elements (got {len(output_size)})")
        dilation = (1,) * n if dilation is None else dilation
        low = [(size - 1) * s - 2 * p + d * (k - 1) + 1 for size, s, p, d, k in
               zip(input.size()[skip:], stride, padding, dilation, kernel_size)]
        high = [size + s - 1 for size, s in zip(low, stride)]
        if any(not a <= size <= b for size, a, b in zip(output_size, low, high)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {low} to "
                f"{high} (for an input of {input.size()[2:]})")
        return [size - a for size, a in zip(output_size, low)]

    def _forward(self, conv, n, input, output_size):
        if self.padding_mode != "zeros":
            raise ValueError(f"Only `zeros` padding mode is supported for ConvTranspose{n}d")
        extra = self._output_padding(input, output_size, self.stride, self.padding,
                                     self.kernel_size, n, self.dilation)
        return conv(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups,
                    self.dilation)


class ConvTranspose1d(_ConvTransposeNd):
    """The gradient of Conv1d with respect to its input, as a layer.

    Shape: input (N, in_channels, L) or (in_channels, L); output (N, out_channels, L_out), with x_out = (x - 1)
    stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1 for each of the last sizes x.

    Example::

        >>> nn.ConvTranspose1d(3, 6, kernel_size=2, stride=2)(torch.randn(2, 3, 8)).shape
        torch.Size([2, 6, 16])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0,
                 output_padding=0, groups=1, bias=True, dilation=1, padding_mode="zeros",
                 device=None, dtype=None):
        super().__init__(in_channels, out_channels, _single(kernel_size), _single(stride),
                         _single(padding), _single(dilation), True, _single(output_padding),
                         groups, bias, padding_mode, device=device, dtype=dtype)

    def forward(self, input, output_size=None):
        return self._forward(F.conv_transpose1d, 1, input, output_size)


class ConvTranspose2d(_ConvTransposeNd):
    """The gradient of Conv2d with respect to its input, as a layer.

    Shape: input (N, in_channels, H, W) or (in_channels, H, W); output (N, out_channels, H_out, W_out), with x_out =
    (x - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1 for each of the last sizes x.

    Example::

        >>> nn.ConvTranspose2d(3, 6, kernel_size=2, stride=2)(torch.randn(2, 3, 8, 8)).shape
        torch.Size([2, 6, 16, 16])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0,
                 output_padding=0, groups=1, bias=True, dilation=1, padding_mode="zeros",
                 device=None, dtype=None):
        super().__init__(in_channels, out_channels, _pair(kernel_size), _pair(stride),
                         _pair(padding), _pair(dilation), True, _pair(output_padding), groups,
                         bias, padding_mode, device=device, dtype=dtype)

    def forward(self, input, output_size=None):
        return self._forward(F.conv_transpose2d, 2, input, output_size)


class ConvTranspose3d(_ConvTransposeNd):
    """The gradient of Conv3d with respect to its input, as a layer.

    Shape: input (N, in_channels, D, H, W) or (in_channels, D, H, W); output (N, out_channels, D_out, H_out, W_out),
    with x_out = (x - 1) stride - 2 padding + dilation (kernel_size - 1) + output_padding + 1 for each of the last
    sizes x.

    Example::

        >>> nn.ConvTranspose3d(3, 6, kernel_size=2, stride=2)(torch.randn(2, 3, 8, 8, 8)).shape
        torch.Size([2, 6, 16, 16, 16])
    """

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0,
                 output_padding=0, groups=1, bias=True, dilation=1, padding_mode="zeros",
                 device=None, dtype=None):
        super().__init__(in_channels, out_channels, _triple(kernel_size), _triple(stride),
                         _triple(padding), _triple(dilation), True, _triple(output_padding),
                         groups, bias, padding_mode, device=device, dtype=dtype)

    def forward(self, input, output_size=None):
        return self._forward(F.conv_transpose3d, 3, input, output_size)
