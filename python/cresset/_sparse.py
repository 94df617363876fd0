"""Construction of sparse tensors from parts; torch.sparse has the operators."""
from . import _C
from ._C import Tensor
from ._ops import ops
from ._settings import warn_once

__all__ = []

_state = {"check": None}  # set by torch.sparse.check_sparse_tensor_invariants; None: never set, and constructors warn


def _part(data, name, dtype=None, device=None):
    """A part as a tensor: a tensor itself, converted, or one made of numbers."""
    if isinstance(data, Tensor):
        if dtype is None and device is None:
            return data
        return data.to(dtype=dtype or data.dtype, device=device or data.device)
    if not isinstance(data, (list, tuple, int, float, complex)) and not hasattr(data, "__array__"):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    return _C.tensor(data, dtype=dtype, device=device)


def _checks(check_invariants):
    if check_invariants is None and _state["check"] is None:
        warn_once("Sparse invariant checks are implicitly disabled. Memory errors (e.g. SEGFAULT) will occur when operating "
                  "on a sparse tensor which violates the invariants, but checks incur performance overhead. To silence this "
                  "warning, explicitly opt in or out. See `torch.sparse.check_sparse_tensor_invariants.__doc__` for guidance. ",
                  stacklevel=3)
    return bool(_state["check"]) if check_invariants is None else check_invariants


def _finish(made, requires_grad):
    return made.requires_grad_() if requires_grad else made


def _sizes(size, name):
    if isinstance(size, int):
        return (size,)
    if not isinstance(size, (tuple, list)):
        raise TypeError(f"{name}(): argument 'size' (position 1) must be tuple of ints, not "
                        f"{type(size).__name__}")
    return tuple(size)


def sparse_coo_tensor(indices=None, values=None, size=None, *, dtype=None, device=None,
                      pin_memory=False, requires_grad=False, check_invariants=None,
                      is_coalesced=None):
    """Makes a COO tensor of indices [sparse dims, n] and values [n, dense dims...], or an empty
    one of a size.

    Example::

        >>> torch.sparse_coo_tensor([[0, 1], [2, 0]], [3., 4.], (2, 3)).to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    if values is None:
        if indices is not None and size is None:
            indices, size = None, indices
        if indices is not None or size is None:
            raise TypeError("sparse_coo_tensor() takes indices and values, or a size")
        made = ops._sparse_empty(_sizes(size, "sparse_coo_tensor"),
                                 dtype or _C.get_default_dtype(), _C.sparse_coo, device)
        _checks(check_invariants)
        return _finish(made, requires_grad)
    values = _part(values, "values", dtype, device)
    if not isinstance(indices, Tensor):
        indices = _part(indices, "indices", _C.int64, values.device)
    elif indices.device != values.device:
        indices = indices.to(values.device)
    made = ops._sparse_coo(indices, values, None if size is None else _sizes(size, "sparse_coo_tensor"),
                           is_coalesced, _checks(check_invariants))
    return _finish(made, requires_grad)


def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None,
                             layout=None, device=None, pin_memory=False, requires_grad=False,
                             check_invariants=None):
    """Makes a tensor of a compressed layout: CSR, CSC, BSR or BSC."""
    if layout is None:
        raise TypeError("sparse_compressed_tensor expected sparse compressed tensor layout but got none")
    values = _part(values, "values", dtype, device)
    compressed, plain = (
        x if isinstance(x, Tensor) else _C.tensor(x, dtype=_C.int64, device=values.device)
        for x in (compressed_indices, plain_indices))
    made = ops._sparse_compressed(compressed, plain, values, size, layout,
                                  _checks(check_invariants))
    return _finish(made, requires_grad)


def sparse_csr_tensor(crow_indices, col_indices, values, size=None, **options):
    """Makes a CSR tensor: the values of each row one after the other."""
    return sparse_compressed_tensor(crow_indices, col_indices, values, size,
                                    layout=_C.sparse_csr, **options)


def sparse_csc_tensor(ccol_indices, row_indices, values, size=None, **options):
    """Makes a CSC tensor: the values of each column one after the other."""
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size,
                                    layout=_C.sparse_csc, **options)


def sparse_bsr_tensor(crow_indices, col_indices, values, size=None, **options):
    """Makes a BSR tensor: the blocks of each row of blocks one after the other, values [n, height, width]."""
    return sparse_compressed_tensor(crow_indices, col_indices, values, size,
                                    layout=_C.sparse_bsr, **options)


def sparse_bsc_tensor(ccol_indices, row_indices, values, size=None, **options):
    """Makes a BSC tensor: the blocks of each column of blocks one after the other, values [n, height, width]."""
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size,
                                    layout=_C.sparse_bsc, **options)


def spmm(input, mat2, *, out=None):
    """The product of two matrices, of which one may be sparse: another name of mm."""
    return ops.mm(input, mat2) if out is None else ops.mm(input, mat2, out=out)


dsmm = spmm
hsmm = ops.hspmm


def saddmm(input, mat1, mat2, *, beta=1, alpha=1, out=None):
    """See torch.sparse.addmm."""
    return ops.sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha,
                        **({} if out is None else {"out": out}))
