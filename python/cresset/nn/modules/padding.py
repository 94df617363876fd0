"""Padding as modules: five modes for one, two and three dims."""
from .. import functional as F
from .module import Module
from .utils import _ntuple

__all__ = [f"{kind}Pad{n}d" for n in (1, 2, 3)
           for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero")]


class _PadNd(Module):
    """Pads `_dims` dimensions; `padding` is one number or (before, after) pairs."""

    __constants__ = ["padding"]
    _dims = 1

    def __init__(self, padding):
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)

    def extra_repr(self):
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    """Pads with the opposite end."""

    def _check_input_dim(self, input):
        low = self._dims + 1
        if input.dim() not in (low, low + 1):
            raise ValueError(
                f"expected {low}D or {low + 1}D input (got {input.dim()}D input)")

    def forward(self, input):
        self._check_input_dim(input)
        return F.pad(input, self.padding, "circular")


class _ConstantPadNd(_PadNd):
    """Pads with `value`."""

    __constants__ = ["padding", "value"]

    def __init__(self, padding, value):
        super().__init__(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class _ReflectionPadNd(_PadNd):
    """Pads with the mirror image, without the edge."""

    def forward(self, input):
        return F.pad(input, self.padding, "reflect")


class _ReplicationPadNd(_PadNd):
    """Pads with the edge."""

    def forward(self, input):
        return F.pad(input, self.padding, "replicate")


class CircularPad1d(_CircularPadNd):
    """Pads sequences with their opposite end.

    Shape: input (N, C, L) or (C, L); output (N, C, L_out), each of the last sizes longer by its two paddings.

    Example::

        >>> nn.CircularPad1d(1)(torch.randn(1, 2, 8)).shape
        torch.Size([1, 2, 10])
    """


class CircularPad2d(_CircularPadNd):
    """Pads images with their opposite end.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out), each of the last sizes longer by its two
    paddings.

    Example::

        >>> nn.CircularPad2d(1)(torch.randn(1, 2, 8, 8)).shape
        torch.Size([1, 2, 10, 10])
    """

    _dims = 2


class CircularPad3d(_CircularPadNd):
    """Pads volumes with their opposite end.

    Shape: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out), each of the last sizes longer
    by its two paddings.

    Example::

        >>> nn.CircularPad3d(1)(torch.randn(1, 2, 8, 8, 8)).shape
        torch.Size([1, 2, 10, 10, 10])
    """

    _dims = 3


class ConstantPad1d(_ConstantPadNd):
    """Pads sequences with a value.

    Shape: input (N, C, L) or (C, L); output (N, C, L_out), each of the last sizes longer by its two paddings.

    Example::

        >>> nn.ConstantPad1d(1, 3.5)(torch.randn(1, 2, 8)).shape
        torch.Size([1, 2, 10])
    """


class ConstantPad2d(_ConstantPadNd):
    """Pads images with a value.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out), each of the last sizes longer by its two
    paddings.

    Example::

        >>> nn.ConstantPad2d(1, 3.5)(torch.randn(1, 2, 8, 8)).shape
        torch.Size([1, 2, 10, 10])
    """

    _dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads volumes with a value.

    Shape: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out), each of the last sizes longer
    by its two paddings.

    Example::

        >>> nn.ConstantPad3d(1, 3.5)(torch.randn(1, 2, 8, 8, 8)).shape
        torch.Size([1, 2, 10, 10, 10])
    """

    _dims = 3


class ReflectionPad1d(_ReflectionPadNd):
    """Pads sequences with their mirror image.

    Shape: input (N, C, L) or (C, L); output (N, C, L_out), each of the last sizes longer by its two paddings.

    Example::

        >>> nn.ReflectionPad1d(1)(torch.randn(1, 2, 8)).shape
        torch.Size([1, 2, 10])
    """


class ReflectionPad2d(_ReflectionPadNd):
    """Pads images with their mirror image.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out), each of the last sizes longer by its two
    paddings.

    Example::

        >>> nn.ReflectionPad2d(1)(torch.randn(1, 2, 8, 8)).shape
        torch.Size([1, 2, 10, 10])
    """

    _dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Pads volumes with their mirror image.

    Shape: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out), each of the last sizes longer
    by its two paddings.

    Example::

        >>> nn.ReflectionPad3d(1)(torch.randn(1, 2, 8, 8, 8)).shape
        torch.Size([1, 2, 10, 10, 10])
    """

    _dims = 3


class ReplicationPad1d(_ReplicationPadNd):
    """Pads sequences with their edge.

    Shape: input (N, C, L) or (C, L); output (N, C, L_out), each of the last sizes longer by its two paddings.

    Example::

        >>> nn.ReplicationPad1d(1)(torch.randn(1, 2, 8)).shape
        torch.Size([1, 2, 10])
    """


class ReplicationPad2d(_ReplicationPadNd):
    """Pads images with their edge.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out), each of the last sizes longer by its two
    paddings.

    Example::

        >>> nn.ReplicationPad2d(1)(torch.randn(1, 2, 8, 8)).shape
        torch.Size([1, 2, 10, 10])
    """

    _dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Pads volumes with their edge.

    Shape: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out), each of the last sizes longer
    by its two paddings.

    Example::

        >>> nn.ReplicationPad3d(1)(torch.randn(1, 2, 8, 8, 8)).shape
        torch.Size([1, 2, 10, 10, 10])
    """

    _dims = 3


class ZeroPad1d(ConstantPad1d):
    """Pads sequences with zero.

    Shape: input (N, C, L) or (C, L); output (N, C, L_out), each of the last sizes longer by its two paddings.

    Example::

        >>> nn.ZeroPad1d(1)(torch.randn(1, 2, 8)).shape
        torch.Size([1, 2, 10])
    """

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad2d(ConstantPad2d):
    """Pads images with zero.

    Shape: input (N, C, H, W) or (C, H, W); output (N, C, H_out, W_out), each of the last sizes longer by its two
    paddings.

    Example::

        >>> nn.ZeroPad2d(1)(torch.randn(1, 2, 8, 8)).shape
        torch.Size([1, 2, 10, 10])
    """

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"


class ZeroPad3d(ConstantPad3d):
    """Pads volumes with zero.

    Shape: input (N, C, D, H, W) or (C, D, H, W); output (N, C, D_out, H_out, W_out), each of the last sizes longer
    by its two paddings.

    Example::

        >>> nn.ZeroPad3d(1)(torch.randn(1, 2, 8, 8, 8)).shape
        torch.Size([1, 2, 10, 10, 10])
    """

    def __init__(self, padding):
        super().__init__(padding, 0.0)

    def extra_repr(self):
        return f"{self.padding}"
