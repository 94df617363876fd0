"""Pooling as modules."""
from .. import functional as F
from .module import Module
from .utils import _pair, _single, _triple

__all__ = [
    "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
    "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d"]


class _MaxPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices",
                     "ceil_mode"]

    def __init__(self, kernel_size, stride=None, padding=0, dilation=1, return_indices=False,
                 ceil_mode=False):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def extra_repr(self):
        return ("kernel_size={kernel_size}, stride={stride}, padding={padding}, "
                "dilation={dilation}, ceil_mode={ceil_mode}").format(**self.__dict__)


class MaxPool1d(_MaxPoolNd):
    """The maximum of every window of a sequence.

    Shape: input (N, C, L) or (C, L); output (N, C, L_out) or (C, L_out), with x_out = floor((x + 2 padding -
    dilation (kernel_size - 1) - 1) / stride + 1) for each of the last sizes x.

    Example::

        >>> nn.MaxPool1d(2)(torch.randn(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    def forward(self, input):
        return F.max_pool1d(input, self.kernel_size, self.stride, self.padding, self.dilation,
                            ceil_mode=self.ceil_mode, return_indices=self.return_indices)


class MaxPool2d(_MaxPoolNd):
    """The maximum of every window of an image.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out) or (C, H_out, W_out), with x_out = floor((x
    + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1) for each of the last sizes x.

    Example::

        >>> nn.MaxPool2d(2)(torch.randn(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """

    def forward(self, input):
        return F.max_pool2d(input, self.kernel_size, self.stride, self.padding, self.dilation,
                            ceil_mode=self.ceil_mode, return_indices=self.return_indices)


class MaxPool3d(_MaxPoolNd):
    """The maximum of every window of a volume.

    Shape: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out),
    with x_out = floor((x + 2 padding - dilation (kernel_size - 1) - 1) / stride + 1) for each of the last sizes x.

    Example::

        >>> nn.MaxPool3d(2)(torch.randn(1, 3, 8, 8, 8)).shape
        torch.Size([1, 3, 4, 4, 4])
    """

    def forward(self, input):
        return F.max_pool3d(input, self.kernel_size, self.stride, self.padding, self.dilation,
                            ceil_mode=self.ceil_mode, return_indices=self.return_indices)


class _MaxUnpoolNd(Module):
    def __init__(self, kernel_size, stride=None, padding=0):
        super().__init__()
        expand = type(self)._expand
        self.kernel_size = expand(kernel_size)
        self.stride = expand(stride if stride is not None else kernel_size)
        self.padding = expand(padding)

    def extra_repr(self):
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, "
                f"padding={self.padding}")


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts maxima of a sequence back; zero elsewhere.

    Shape: input and indices (N, C, L) or (C, L); output (N, C, L_out), with x_out = (x - 1) stride - 2 padding +
    kernel_size unless output_size is given.

    Example::

        >>> nn.MaxUnpool1d(2)(*nn.MaxPool1d(2, return_indices=True)(torch.randn(1, 3, 8))).shape
        torch.Size([1, 3, 8])
    """

    _expand = staticmethod(_single)

    def forward(self, input, indices, output_size=None):
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding,
                              output_size)


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts maxima of an image back; zero elsewhere.

    Shape: input and indices (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out), with x_out = (x - 1) stride - 2
    padding + kernel_size unless output_size is given.

    Example::

        >>> nn.MaxUnpool2d(2)(*nn.MaxPool2d(2, return_indices=True)(torch.randn(1, 3, 8, 8))).shape
        torch.Size([1, 3, 8, 8])
    """

    _expand = staticmethod(_pair)

    def forward(self, input, indices, output_size=None):
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding,
                              output_size)


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts maxima of a volume back; zero elsewhere.

    Shape: input and indices (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out), with x_out = (x -
    1) stride - 2 padding + kernel_size unless output_size is given.

    Example::

        >>> nn.MaxUnpool3d(2)(*nn.MaxPool3d(2, return_indices=True)(torch.randn(1, 3, 8, 8, 8))).shape
        torch.Size([1, 3, 8, 8, 8])
    """

    _expand = staticmethod(_triple)

    def forward(self, input, indices, output_size=None):
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding,
                              output_size)


class _AvgPoolNd(Module):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def extra_repr(self):
        return (f"kernel_size={self.kernel_size}, stride={self.stride}, "
                f"padding={self.padding}")


class AvgPool1d(_AvgPoolNd):
    """The mean of every window of a sequence.

    Shape: input (N, C, L) or (C, L); output (N, C, L_out) or (C, L_out), with x_out = floor((x + 2 padding -
    kernel_size) / stride + 1) for each of the last sizes x.

    Example::

        >>> nn.AvgPool1d(2)(torch.randn(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False,
                 count_include_pad=True):
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(stride if stride is not None else kernel_size)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input):
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad)


class _AvgPool(_AvgPoolNd):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
                     "divisor_override"]

    def __init__(self, kernel_size, stride=None, padding=0, ceil_mode=False,
                 count_include_pad=True, divisor_override=None):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override


class AvgPool2d(_AvgPool):
    """The mean of every window of an image.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out) or (C, H_out, W_out), with x_out = floor((x
    + 2 padding - kernel_size) / stride + 1) for each of the last sizes x.

    Example::

        >>> nn.AvgPool2d(2)(torch.randn(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """

    def forward(self, input):
        return F.avg_pool2d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad, self.divisor_override)


class AvgPool3d(_AvgPool):
    """The mean of every window of a volume.

    Shape: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out),
    with x_out = floor((x + 2 padding - kernel_size) / stride + 1) for each of the last sizes x.

    Example::

        >>> nn.AvgPool3d(2)(torch.randn(1, 3, 8, 8, 8)).shape
        torch.Size([1, 3, 4, 4, 4])
    """

    def forward(self, input):
        return F.avg_pool3d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode,
                            self.count_include_pad, self.divisor_override)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.__dict__.setdefault("padding", 0)
        self.__dict__.setdefault("ceil_mode", False)
        self.__dict__.setdefault("count_include_pad", True)


class _LPPoolNd(Module):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(self, norm_type, kernel_size, stride=None, ceil_mode=False):
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self):
        return ("norm_type={norm_type}, kernel_size={kernel_size}, stride={stride}, "
                "ceil_mode={ceil_mode}").format(**self.__dict__)


class LPPool1d(_LPPoolNd):
    """The p-norm of every window of a sequence.

    Shape: input (N, C, L) or (C, L); output (N, C, L_out) or (C, L_out), with x_out = floor((x - kernel_size) /
    stride + 1) for each of the last sizes x.

    Example::

        >>> nn.LPPool1d(2, 2)(torch.randn(1, 3, 8)).shape
        torch.Size([1, 3, 4])
    """

    def forward(self, input):
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride,
                           self.ceil_mode)


class LPPool2d(_LPPoolNd):
    """The p-norm of every window of an image.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out) or (C, H_out, W_out), with x_out = floor((x
    - kernel_size) / stride + 1) for each of the last sizes x.

    Example::

        >>> nn.LPPool2d(2, 2)(torch.randn(1, 3, 8, 8)).shape
        torch.Size([1, 3, 4, 4])
    """

    def forward(self, input):
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride,
                           self.ceil_mode)


class LPPool3d(_LPPoolNd):
    """The p-norm of every window of a volume.

    Shape: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out),
    with x_out = floor((x - kernel_size) / stride + 1) for each of the last sizes x.

    Example::

        >>> nn.LPPool3d(2, 2)(torch.randn(1, 3, 8, 8, 8)).shape
        torch.Size([1, 3, 4, 4, 4])
    """

    def forward(self, input):
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride,
                           self.ceil_mode)


class _AdaptiveMaxPoolNd(Module):
    __constants__ = ["output_size", "return_indices"]

    def __init__(self, output_size, return_indices=False):
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows of a sequence as the output has elements.

    Shape: input (N, C, L) or (C, L); output (N, C, L_out) or (C, L_out), where the last sizes are output_size.

    Example::

        >>> nn.AdaptiveMaxPool1d(2)(torch.randn(1, 3, 8)).shape
        torch.Size([1, 3, 2])
    """

    def forward(self, input):
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows of an image as the output has elements.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out) or (C, H_out, W_out), where the last sizes
    are output_size.

    Example::

        >>> nn.AdaptiveMaxPool2d(2)(torch.randn(1, 3, 8, 8)).shape
        torch.Size([1, 3, 2, 2])
    """

    def forward(self, input):
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima of as many windows of a volume as the output has elements.

    Shape: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out),
    where the last sizes are output_size.

    Example::

        >>> nn.AdaptiveMaxPool3d(2)(torch.randn(1, 3, 8, 8, 8)).shape
        torch.Size([1, 3, 2, 2, 2])
    """

    def forward(self, input):
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)


class _AdaptiveAvgPoolNd(Module):
    __constants__ = ["output_size"]

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def extra_repr(self):
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of as many windows of a sequence as the output has elements.

    Shape: input (N, C, L) or (C, L); output (N, C, L_out) or (C, L_out), where the last sizes are output_size.

    Example::

        >>> nn.AdaptiveAvgPool1d(2)(torch.randn(1, 3, 8)).shape
        torch.Size([1, 3, 2])
    """

    def forward(self, input):
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of as many windows of an image as the output has elements.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out) or (C, H_out, W_out), where the last sizes
    are output_size.

    Example::

        >>> nn.AdaptiveAvgPool2d(2)(torch.randn(1, 3, 8, 8)).shape
        torch.Size([1, 3, 2, 2])
    """

    def forward(self, input):
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means of as many windows of a volume as the output has elements.

    Shape: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out) or (C, D_out, H_out, W_out),
    where the last sizes are output_size.

    Example::

        >>> nn.AdaptiveAvgPool3d(2)(torch.randn(1, 3, 8, 8, 8)).shape
        torch.Size([1, 3, 2, 2, 2])
    """

    def forward(self, input):
        return F.adaptive_avg_pool3d(input, self.output_size)


class _FractionalMaxPoolNd(Module):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]

    def __init__(self, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                 _random_samples=None):
        super().__init__()
        name, full = type(self).__name__, self._full
        self.kernel_size = full(kernel_size)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = full(output_size) if output_size is not None else None
        self.output_ratio = full(output_ratio) if output_ratio is not None else None
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input):
        return self._pool(input, self.kernel_size, self.output_size, self.output_ratio,
                          self.return_indices, _random_samples=self._random_samples)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The maxima of windows at random places of an image.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out): output_size, or output_ratio times the
    input's.

    Example::

        >>> nn.FractionalMaxPool2d(2, output_size=3)(torch.randn(1, 2, 8, 8)).shape
        torch.Size([1, 2, 3, 3])
    """

    _full, _pool = staticmethod(_pair), staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The maxima of windows at random places of a volume.

    Shape: input (N, C, T, H, W) or (C, T, H, W); output (N, C, T_out, H_out, W_out): output_size, or output_ratio
    times the input's.

    Example::

        >>> nn.FractionalMaxPool3d(2, output_size=3)(torch.randn(1, 2, 8, 8, 8)).shape
        torch.Size([1, 2, 3, 3, 3])
    """

    _full, _pool = staticmethod(_triple), staticmethod(F.fractional_max_pool3d)
