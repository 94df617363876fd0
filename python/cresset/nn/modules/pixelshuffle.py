"""Channels to pixels and back."""
from .. import functional as F
from .module import Module

__all__ = ["PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """(C r^2, H, W) -> (C, H r, W r).

    Shape: input (*, C r^2, H, W); output (*, C, H r, W r), where r is upscale_factor.

    Example::

        >>> nn.PixelShuffle(2)(torch.randn(1, 8, 3, 3)).shape
        torch.Size([1, 2, 6, 6])
    """

    __constants__ = ["upscale_factor"]

    def __init__(self, upscale_factor):
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input):
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self):
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """(C, H r, W r) -> (C r^2, H, W).

    Shape: input (*, C, H r, W r); output (*, C r^2, H, W), where r is downscale_factor.

    Example::

        >>> nn.PixelUnshuffle(2)(torch.randn(1, 2, 6, 6)).shape
        torch.Size([1, 8, 3, 3])
    """

    __constants__ = ["downscale_factor"]

    def __init__(self, downscale_factor):
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input):
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self):
        return f"downscale_factor={self.downscale_factor}"
