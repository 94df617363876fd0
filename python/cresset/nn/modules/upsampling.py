"""Resizing as modules."""
from .. import functional as F
from .module import Module

__all__ = ["Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d"]


class Upsample(Module):
    """Resizes to `size` or by `scale_factor`.

    Shape: input (N, C, *) with one to three last sizes; output (N, C, *size), or scale_factor times the input's.

    Example::

        >>> nn.Upsample(scale_factor=2)(torch.randn(1, 2, 3, 3)).shape
        torch.Size([1, 2, 6, 6])
    """

    __constants__ = ["size", "scale_factor", "mode", "align_corners", "name",
                     "recompute_scale_factor"]

    def __init__(self, size=None, scale_factor=None, mode="nearest", align_corners=None,
                 recompute_scale_factor=None):
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor = tuple(map(float, scale_factor))
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input):
        return F.interpolate(input, self.size, self.scale_factor, self.mode, self.align_corners,
                             recompute_scale_factor=self.recompute_scale_factor)

    def __setstate__(self, state):
        state.setdefault("recompute_scale_factor", True)
        super().__setstate__(state)

    def extra_repr(self):
        if self.scale_factor is not None:
            return f"scale_factor={self.scale_factor!r}, mode={self.mode!r}"
        return f"size={self.size!r}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample with mode "nearest".

    Shape: input (N, C, H, W); output (N, C, *size), or scale_factor times the input's.

    Example::

        >>> nn.UpsamplingNearest2d(scale_factor=2)(torch.randn(1, 2, 3, 3)).shape
        torch.Size([1, 2, 6, 6])
    """

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample with mode "bilinear" and aligned corners.

    Shape: input (N, C, H, W); output (N, C, *size), or scale_factor times the input's.

    Example::

        >>> nn.UpsamplingBilinear2d(scale_factor=2)(torch.randn(1, 2, 3, 3)).shape
        torch.Size([1, 2, 6, 6])
    """

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
