"""Products of float8 matrices with scales."""
import enum

from .. import _C
from .._C import _scaled_mm

__all__ = ["ScalingType", "SwizzleType", "scaled_grouped_mm", "scaled_mm"]


class ScalingType(enum.IntEnum):
    """The elements that share a scale."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.IntEnum):
    """The order of scales in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def _one(x, name):
    """The only item of a list, or x itself."""
    if not isinstance(x, (list, tuple)):
        return x
    if len(x) != 1:
        raise NotImplementedError(f"scaled_mm: {name} of several levels are not part of Cresset yet")
    return x[0]


def _blocks(scale, recipe, rows, columns):
    """The scales of blocks, one for each element."""
    high, wide = {ScalingType.BlockWise1x16: (1, 16), ScalingType.BlockWise1x32: (1, 32),
                  ScalingType.BlockWise1x128: (1, 128), ScalingType.BlockWise128x128: (128, 128)}[recipe]
    spread = scale.float().repeat_interleave(high, 0).repeat_interleave(wide, 1)
    if spread.shape[0] < rows or spread.shape[1] < columns:
        raise ValueError(f"scaled_mm: the scales {tuple(scale.shape)} are too few for {recipe.name} of {rows} x {columns}")
    return spread[:rows, :columns]


def scaled_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None, bias=None,
              output_dtype=_C.bfloat16, contraction_dim=(), use_fast_accum=False):
    """(mat_a * scales) @ (mat_b * scales) + bias, in output_dtype; the products are added in float32.

    The recipes (ScalingType) say which elements share a scale.

    Shape: mat_a (n, k) and mat_b (k, m) of a float8 dtype, scales of float32: one number for TensorWise, (n, 1) and
    (1, m) for RowWise; output (n, m).

    Example::

        >>> a, one = torch.ones(16, 16).to(torch.float8_e4m3fn), torch.tensor(2.)
        >>> kind = F.ScalingType.TensorWise
        >>> F.scaled_mm(a, a.t(), one, kind, one, kind)[0, 0]
        tensor(64., dtype=torch.bfloat16)
    """
    scale_a, scale_b = _one(scale_a, "scales"), _one(scale_b, "scales")
    recipe_a, recipe_b = (ScalingType(_one(r, "recipes")) for r in (scale_recipe_a, scale_recipe_b))
    if any(_one(s, "orders") for s in (swizzle_a, swizzle_b) if s is not None):
        raise NotImplementedError("scaled_mm: scales in another order than row-major are not part of Cresset yet")
    if contraction_dim:
        raise NotImplementedError("scaled_mm: contraction_dim is not part of Cresset yet")
    if max(recipe_a, recipe_b) <= ScalingType.RowWise:
        return _scaled_mm(mat_a, mat_b, scale_a, scale_b, bias=bias, out_dtype=output_dtype, use_fast_accum=use_fast_accum)
    a = mat_a.float() * (_blocks(scale_a, recipe_a, *mat_a.shape) if recipe_a > 1 else scale_a)
    b = mat_b.float() * (_blocks(scale_b.t(), recipe_b, *mat_b.t().shape).t() if recipe_b > 1 else scale_b)
    out = a @ b
    return (out if bias is None else out + bias.float()).to(output_dtype)


def _scaled_rows(matrix, scale, ends, name):
    """A matrix's rows, in float32, times their scales: one for each row, or with `ends` one for each row and group
    of columns."""
    rows = matrix.shape[-2]
    if matrix.dim() == 3 or ends is None:
        if scale.shape != matrix.shape[:-1]:
            raise ValueError(f"scaled_grouped_mm: {name} has the sizes {tuple(scale.shape)}, expected {tuple(matrix.shape[:-1])}")
        return matrix.float() * scale[..., None]
    if scale.shape != (rows * len(ends),):
        raise ValueError(f"scaled_grouped_mm: {name} has the sizes {tuple(scale.shape)}, expected {(rows * len(ends),)}")
    group = _C.bucketize(_C.arange(matrix.shape[-1], dtype=_C.int32), ends, right=True).clamp_max(len(ends) - 1)
    return matrix.float() * scale.reshape(len(ends), rows)[group].t()


def scaled_grouped_mm(mat_a, mat_b, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None,
                      bias=None, offs=None, output_dtype=_C.bfloat16, contraction_dim=(), use_fast_accum=False):
    """Products of groups of matrices with a scale for each row of the first and each column of the second;
    see grouped_mm for `offs`.  The products are added in float32.

    Shape: mat_a (n, k) and mat_b (groups, k, m) of a float8 dtype, offs (groups) of int32, scales (n) and (groups, m)
    of float32; output (n, m).

    Example::

        >>> a = torch.ones(16, 16).to(torch.float8_e4m3fn)
        >>> b = torch.ones(2, 16, 16).to(torch.float8_e4m3fn).transpose(1, 2)
        >>> rows, ends = F.ScalingType.RowWise, torch.tensor([8, 16], dtype=torch.int32)
        >>> F.scaled_grouped_mm(a, b, torch.ones(16), rows, torch.ones(2, 16), rows, offs=ends).shape
        torch.Size([16, 16])
    """
    from .._grouped import grouped_mm
    scale_a, scale_b = _one(scale_a, "scales"), _one(scale_b, "scales")
    if any(ScalingType(_one(r, "recipes")) != ScalingType.RowWise for r in (scale_recipe_a, scale_recipe_b)):
        raise NotImplementedError("scaled_grouped_mm: scales of another kind than RowWise are not part of Cresset yet")
    if any(_one(s, "orders") for s in (swizzle_a, swizzle_b) if s is not None):
        raise NotImplementedError("scaled_grouped_mm: scales in another order than row-major are not part of Cresset yet")
    ends = offs if mat_a.dim() == mat_b.dim() == 2 else None
    a = _scaled_rows(mat_a, scale_a, ends, "scale_a")
    b = _scaled_rows(mat_b.transpose(-2, -1), scale_b, ends, "scale_b").transpose(-2, -1)
    out = grouped_mm(a, b, offs=offs)
    return (out if bias is None else out + bias.float()).to(output_dtype)
