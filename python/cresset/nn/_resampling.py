"""Resampling of images: interpolation and sampling at grid points."""
import math
import warnings

import cresset
from .. import Tensor
from .._ops import ops

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}

# (input dimensions, mode) -> operator; those in the second table take align_corners.
_PLAIN = {
    (3, "nearest"): "upsample_nearest1d", (4, "nearest"): "upsample_nearest2d",
    (5, "nearest"): "upsample_nearest3d", (3, "nearest-exact"): "_upsample_nearest_exact1d",
    (4, "nearest-exact"): "_upsample_nearest_exact2d",
    (5, "nearest-exact"): "_upsample_nearest_exact3d"}
_ALIGNED = {
    (3, "linear"): "upsample_linear1d", (4, "bilinear"): "upsample_bilinear2d",
    (5, "trilinear"): "upsample_trilinear3d", (4, "bicubic"): "upsample_bicubic2d"}
_AREA = {3: "adaptive_avg_pool1d", 4: "adaptive_avg_pool2d", 5: "adaptive_avg_pool3d"}
_LINEAR_DIMS = {"linear": 3, "bilinear": 4, "trilinear": 5}


def _is_integer(x):
    if isinstance(x, Tensor):
        return not x.is_floating_point()
    return hasattr(x, "__index__")


def _check_size(input, size, dim):
    if len(size) != dim:
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input "
            f"with spatial dimensions of {list(input.shape[2:])} and output size of {size}. "
            "Please provide input tensor in (N, C, d1, d2, ...,dK) format and output size in "
            "(o1, o2, ...,oK) format.")
    if not all(_is_integer(x) for x in size):
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, "
            f"int], but got size with types {[type(x) for x in size]}")


def _spatial_arguments(input, size, scale_factor):
    """(output size, scale factors), one of which is None."""
    dim = input.dim() - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if not isinstance(size, (list, tuple)):
            return [size] * dim, None
        _check_size(input, size, dim)
        return size, None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if not isinstance(scale_factor, (list, tuple)):
        return None, [scale_factor] * dim
    if len(scale_factor) != dim:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got "
            f"input with spatial dimensions of {list(input.shape[2:])} and scale_factor of shape "
            f"{scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            "scale_factor in (s1, s2, ...,sK) format.")
    return None, scale_factor


def _no_such_mode(ndim, mode):
    if ndim in (3, 4, 5) and mode in _LINEAR_DIMS:
        raise NotImplementedError(
            f"Got {ndim}D input, but {mode} mode needs {_LINEAR_DIMS[mode]}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {ndim}D) for the modes: "
        "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got "
        f"{mode})")


def _antialiased(input, mode, size, align_corners, scales):
    if not (mode in ("bilinear", "bicubic", "lanczos") and input.ndim == 4):
        raise ValueError("Anti-alias option is restricted to bilinear, bicubic, and lanczos "
                         "modes and requires a 4-D tensor as input")
    if mode == "lanczos" and align_corners:
        raise ValueError("Lanczos mode does not support align_corners=True")
    function = getattr(ops, f"_upsample_{mode}2d_aa")
    return function(input, size, align_corners, scales)


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None,
                recompute_scale_factor=None, antialias=False):
    """Resizes the spatial dims to `size`, or by `scale_factor`.

    mode: nearest, nearest-exact, area; linear (3 dims), bilinear, bicubic, lanczos (4 dims, lanczos with
    antialias), trilinear (5 dims). align_corners puts the centres of corner elements on each other.

    Shape: input (N, C, L), (N, C, H, W) or (N, C, D, H, W) of a floating dtype or uint8; output the same but
    for the spatial sizes.

    Example::

        >>> F.interpolate(torch.tensor([[[1., 3.]]]), scale_factor=2)
        tensor([[[1., 1., 3., 3.]]])
        >>> F.interpolate(torch.tensor([[[1., 3.]]]), size=3, mode="linear", align_corners=True)
        tensor([[[1., 2., 3.]]])
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError("align_corners option can only be set with the interpolating modes: "
                             "linear | bilinear | bicubic | trilinear")
    elif align_corners is None:
        align_corners = False
    output_size, scales = _spatial_arguments(input, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if output_size is None and (recompute_scale_factor or mode == "area"):
        output_size = [math.floor(n * s) for n, s in zip(input.size()[2:], scales)]
        scales = None
    if antialias:
        return _antialiased(input, mode, output_size, align_corners, scales)
    ndim = input.dim()
    if (ndim, mode) in _PLAIN:
        return getattr(ops, _PLAIN[ndim, mode])(input, output_size, scales)
    if mode == "area" and ndim in _AREA:
        return getattr(ops, _AREA[ndim])(input, output_size)
    if (ndim, mode) in _ALIGNED:
        return getattr(ops, _ALIGNED[ndim, mode])(input, output_size, align_corners, scales)
    if (ndim, mode) == (4, "lanczos"):
        raise ValueError("Lanczos mode requires antialias=True")
    return _no_such_mode(ndim, mode)


def _deprecated(name):
    warnings.warn(f"`nn.functional.{name}` is deprecated. "
                  "Use `nn.functional.interpolate` instead.", stacklevel=3)


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    """The old name of interpolate; warns.

    Shape: as interpolate's.

    Example::

        >>> F.upsample(torch.tensor([[[1., 3.]]]), scale_factor=2)
        tensor([[[1., 1., 3., 3.]]])
    """
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    """interpolate with mode "nearest"; an old name, warns.

    Shape: as interpolate's.

    Example::

        >>> F.upsample_nearest(torch.tensor([[[1., 3.]]]), scale_factor=2)
        tensor([[[1., 1., 3., 3.]]])
    """
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate with mode "bilinear" and aligned corners; an old name, warns.

    Shape: input (N, C, H, W) of a floating dtype; output the same but for H and W.

    Example::

        >>> F.upsample_bilinear(torch.tensor([[[[1., 3.]]]]), size=(1, 3))
        tensor([[[[1., 2., 3.]]]])
    """
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _default_align_corners():
    warnings.warn(
        "Default grid_sample and affine_grid behavior has changed to align_corners=False since "
        "1.3.0. Please specify align_corners=True if the old behavior is desired. See the "
        "documentation of grid_sample for details.", stacklevel=3)
    return False


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """The values of an image at the points of `grid`: x, y (and z) in [-1, 1], between elements by `mode`.

    mode: bilinear, nearest, bicubic; padding_mode, of points outside: zeros, border, reflection.

    Shape: input (N, C, H, W), grid (N, Ho, Wo, 2), output (N, C, Ho, Wo); or input (N, C, D, H, W), grid (N,
    Do, Ho, Wo, 3), output (N, C, Do, Ho, Wo); floating.

    Example::

        >>> F.grid_sample(torch.tensor([[[[1., 3.]]]]), torch.tensor([[[[-1., 0.], [0., 0.]]]]), align_corners=True)
        tensor([[[[1., 2.]]]])
    """
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError("nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' "
                         f"or 'bicubic', but got: '{mode}'")
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', "
                         f"'border', or 'reflection', but got: '{padding_mode}'")
    if align_corners is None:
        align_corners = _default_align_corners()
    return ops.grid_sampler(input, grid, GRID_SAMPLE_INTERPOLATION_MODES[mode],
                            GRID_SAMPLE_PADDING_MODES[padding_mode], align_corners)


def _check_affine(theta, size):
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {size}.")
    n = len(size) - 2
    if theta.dim() != 3 or theta.shape[-2] != n or theta.shape[-1] != n + 1:
        raise ValueError(f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for "
                         f"size {size}. Got {theta.shape}.")


def affine_grid(theta, size, align_corners=None):
    """The points that grid_sample reads for affine maps `theta` of images of `size`.

    Shape: theta (N, 2, 3) and size (N, C, H, W), output (N, H, W, 2); or (N, 3, 4) and (N, C, D, H, W), output
    (N, D, H, W, 3).

    Example::

        >>> F.affine_grid(torch.tensor([[[1., 0., 0.], [0., 1., 0.]]]), (1, 1, 1, 2), align_corners=True)
        tensor([[[[-1.,  0.],
                  [ 1.,  0.]]]])
    """
    if align_corners is None:
        align_corners = _default_align_corners()
    _check_affine(theta, size)
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if align_corners and min(size[2:]) == 1:
        warnings.warn("Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
                      "align_corners=True. This is not an intended use case of affine_grid. See the documentation "
                      "of affine_grid for details.")
    return ops.affine_grid_generator(theta, size, align_corners)
