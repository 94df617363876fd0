"""Products of groups of matrices of different sizes."""
from . import _C


def _bounds(offs, total):
    if offs.dtype != _C.int32:
        raise RuntimeError("Offsets have to be int32")
    ends = offs.tolist()
    return list(zip([0, *ends], ends)), total - (ends[-1] if ends else 0)


def _grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    """Products of the groups that `offs` states.

    offs has the end of each group: of rows of a 2-dim first matrix, of columns of a 2-dim second one,
    of the summed dim where both have 2 dims.  Two 3-dim arguments are a batch, without offs.
    """
    if self.dim() not in (2, 3) or mat2.dim() not in (2, 3):
        raise RuntimeError("mat_a and mat_b have to be 2 or 3d")
    if (self.dim() == 2 or mat2.dim() == 2) != (offs is not None):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if self.shape[-1] != mat2.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    if out_dtype is not None and out_dtype != self.dtype:
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if offs is None:
        out = _C.bmm(self, mat2)
    elif mat2.dim() == 3:
        groups, left = _bounds(offs, self.shape[0])
        parts = [self[a:b] @ mat2[k] for k, (a, b) in enumerate(groups)]
        out = _C.cat([*parts, self.new_zeros(left, mat2.shape[-1])])
    elif self.dim() == 3:
        groups, left = _bounds(offs, mat2.shape[1])
        parts = [self[k] @ mat2[:, a:b] for k, (a, b) in enumerate(groups)]
        out = _C.cat([*parts, self.new_zeros(self.shape[1], left)], 1)
    else:
        groups, _ = _bounds(offs, self.shape[1])
        out = _C.stack([self[:, a:b] @ mat2[a:b] for a, b in groups])
    return out if bias is None else out + bias


def grouped_mm(mat_a, mat_b, *, offs=None, bias=None, out_dtype=None):
    """Products of groups of rows with a matrix each: rows before offs[0] with the first, and so on.

    Shape: mat_a (n, k), mat_b (groups, k, m), offs (groups) of int32, of a floating dtype; output (n, m).

    Example::

        >>> a, b = torch.ones(3, 2), torch.tensor([1., 10.]).view(2, 1, 1).expand(2, 2, 1)
        >>> F.grouped_mm(a, b, offs=torch.tensor([1, 3], dtype=torch.int32)).flatten()
        tensor([ 2., 20., 20.])
    """
    return _grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


grouped_mm.__module__ = "torch.nn.functional"
