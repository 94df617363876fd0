"""Operators on sparse tensors."""
from .. import _C, _root, _sparse
from .._absent import DTYPES
from .._ops import ops
from .._sparse import sparse_coo_tensor

__all__ = ["addmm", "check_sparse_tensor_invariants", "mm", "sum", "softmax", "log_softmax",
           "as_sparse_gradcheck"]


def mm(sparse, dense, reduce=None):
    """The product of two matrices.  Gradients of sparse matrices have values where these have.

    Of a CSR and a dense matrix, `reduce` combines the products of an element in another way: sum, mean, amax or amin.
    """
    return ops._sparse_mm(sparse, dense) if reduce is None else ops._sparse_mm(sparse, dense, reduce)


def addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * mat + alpha * mat1 @ mat2, as mm."""
    return ops._sparse_addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sum(input, dim=None, dtype=None):
    """The sum of all elements, or over dims; the gradient has values where the input has."""
    return ops._sparse_sum(input, dim, dtype=dtype)


def softmax(input, dim, *, dtype=None):
    """softmax over the values that the input has; others count as minus infinity."""
    return ops._sparse_softmax(input, dim, dtype)


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of softmax."""
    return ops._sparse_log_softmax(input, dim, dtype)


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0):
    """beta * input + alpha * the elements of mat1 @ mat2 at the indices of the CSR input."""
    return ops.sparse_sampled_addmm(input, mat1, mat2, beta=beta, alpha=alpha)


def spdiags(diagonals, offsets, shape, layout=None):
    """A sparse matrix with the rows of `diagonals` as diagonals; element j is in column j."""
    if diagonals.dim() == 1:
        diagonals = diagonals[None]
    offsets = offsets.reshape(-1)
    if len(shape) != 2:
        raise RuntimeError(f"Output shape must be 2d")
    if offsets.numel() != diagonals.size(0):
        raise RuntimeError(f"Number of diagonals ({diagonals.size(0)}) does not match the number of "
                           f"offsets ({offsets.numel()})")
    if offsets.unique().numel() != offsets.numel():
        raise RuntimeError("Offset tensor contains duplicate values")
    column = _C.arange(diagonals.size(1)).expand(diagonals.shape)
    row = column - offsets[:, None]
    kept = (row >= 0) & (row < shape[0]) & (column < shape[1])
    made = sparse_coo_tensor(_C.stack([row[kept], column[kept]]), diagonals[kept], tuple(shape))
    return made if layout in (None, _C.sparse_coo) else made.to_sparse(layout=layout)


class check_sparse_tensor_invariants:
    """Whether constructors of sparse tensors check indices and sizes by default: a context
    manager, a decorator, and functions."""

    def __init__(self, enable=True):
        self.state = enable
        self.saved = None

    @staticmethod
    def is_enabled():
        return bool(_sparse._state["check"])

    @staticmethod
    def enable():
        _sparse._state["check"] = True

    @staticmethod
    def disable():
        _sparse._state["check"] = False

    def __enter__(self):
        if self.saved is not None:
            raise RuntimeError("This context manager instance is already activated. Use a different "
                               "context manager instance for context nesting.")
        self.saved = [_sparse._state["check"]]
        _sparse._state["check"] = self.state

    def __exit__(self, *exc):
        (_sparse._state["check"],), self.saved = self.saved, None

    def __call__(self, function):
        from functools import wraps

        @wraps(function)
        def checked(*args, **kwargs):
            with type(self)(self.state):
                return function(*args, **kwargs)
        return checked


def as_sparse_gradcheck(gradcheck):
    """A gradcheck whose function may take and return sparse tensors: their values are varied."""
    def to_values(x):
        if isinstance(x, _C.Tensor) and x.layout != _C.strided and x.requires_grad:
            plain = x.detach()
            return ops._sparse_values(plain).clone().requires_grad_(), plain
        return x, None

    def sparse_gradcheck(func, inputs, **options):
        masked = options.pop("masked", False)
        inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        pairs = [to_values(x) for x in inputs]

        def on_values(*values):
            args = [v if like is None else ops._sparse_with_values(like, v)
                    for v, (_, like) in zip(values, pairs)]
            out = func(*args)
            results = out if isinstance(out, (tuple, list)) else (out,)
            dense = tuple(r.to_dense() for r in results)
            return dense if isinstance(out, (tuple, list)) else dense[0]
        return gradcheck(on_values, tuple(v for v, _ in pairs), **options)
    return sparse_gradcheck


class _SparseType(type):
    """The class of torch.sparse.FloatTensor and the like: their instances are Tensors."""

    def __instancecheck__(cls, x):
        return isinstance(x, _C.Tensor) and x.is_sparse and x.dtype == cls.dtype

    def __call__(cls, *args, **options):
        if len(args) >= 2 and isinstance(args[0], _C.Tensor):
            return sparse_coo_tensor(*args, **options)
        size = args[0] if len(args) == 1 and not isinstance(args[0], int) else args
        return sparse_coo_tensor(tuple(size), dtype=cls.dtype, **options)


for _kind in DTYPES:
    if _kind != "Bool":
        globals()[f"{_kind}Tensor"] = _SparseType(f"{_kind}Tensor", (), {
            "__module__": f"{_root.NAME}.sparse", "layout": _C.sparse_coo,
            "dtype": getattr(_C, {"Byte": "uint8", "Char": "int8"}.get(_kind, _kind.lower()))})


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
