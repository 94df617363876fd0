"""Sliding blocks of images."""
from .. import functional as F
from .module import Module

__all__ = ["Fold", "Unfold"]


class Fold(Module):
    """Adds columns of sliding blocks up into images.

    Shape: input (N, C k, L) or (C k, L), where k is the number of elements of a block; output (N, C, *output_size).

    Example::

        >>> nn.Fold((4, 4), (2, 2), stride=2)(torch.randn(1, 12, 4)).shape
        torch.Size([1, 3, 4, 4])
    """

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(self, output_size, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input):
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding,
                      self.stride)

    def extra_repr(self):
        return ("output_size={output_size}, kernel_size={kernel_size}, dilation={dilation}, "
                "padding={padding}, stride={stride}").format(**self.__dict__)


class Unfold(Module):
    """The sliding blocks of images as columns.

    Shape: input (N, C, *); output (N, C k, L), where k is the number of elements of a block and L the number of
    blocks.

    Example::

        >>> nn.Unfold((2, 2), stride=2)(torch.randn(1, 3, 4, 4)).shape
        torch.Size([1, 12, 4])
    """

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(self, kernel_size, dilation=1, padding=0, stride=1):
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input):
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self):
        return ("kernel_size={kernel_size}, dilation={dilation}, padding={padding}, "
                "stride={stride}").format(**self.__dict__)
