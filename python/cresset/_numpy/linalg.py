"""numpy.linalg as compositions of operators."""
import math

import numpy as np

from .. import _C
from .. import linalg as torch_linalg
from . import functions
from .array import ndarray, wrap
from .convert import InNumpy, axes_of, promoted, torch_dtype
from .functions import array_of, function


def _matrix(a):
    """Returns the tensor of stacked matrices in a dtype of LAPACK."""
    a = array_of(a)
    if a.ndim < 2:
        raise np.linalg.LinAlgError(f"{a.ndim}-dimensional array given. Array must be at least two-dimensional")
    if a.dtype == np.float16:
        raise TypeError("array type float16 is unsupported in linalg")
    return a._t if a.dtype.kind in "fc" else a._t.to(_C.float64)


def _square(a):
    t = _matrix(a)
    if t.size(-1) != t.size(-2):
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return t


def _named(name, parts):
    """Returns a result as NumPy's named tuple."""
    kind = type(getattr(np.linalg, name)(np.eye(1)))
    return kind(*(wrap(p) for p in parts))


def _checked(call):
    """Runs a factorization; NumPy raises its own LinAlgError for matrices that have none."""
    try:
        return call()
    except torch_linalg.LinAlgError as error:
        raise InNumpy(str(error)) from None


@function("linalg.norm")
def norm(x, ord=None, axis=None, keepdims=False):
    a = array_of(x)
    a = a if a.dtype.kind in "fc" else a.astype(float)
    if axis is None and (ord is None or ord in ("f", "fro") and a.ndim == 2 or ord == 2 and a.ndim == 1):
        t = a._t.reshape(-1)
        made = _C.sqrt((t.real.square() + t.imag.square() if t.is_complex() else t * t).sum())
        return wrap(made.reshape([1] * a.ndim) if keepdims else made)
    dims = axes_of(axis, a.ndim)
    if len(dims) == 1:
        return _vector_norm(a, ord, dims[0], keepdims)
    if len(dims) == 2:
        return wrap(torch_linalg.matrix_norm(a._t, "fro" if ord is None else ord, dims, keepdims))
    raise ValueError("Improper number of dimensions to norm.")


def _vector_norm(a, ord, dim, keepdims):
    t = a._t
    if ord is None or ord == 2:
        return wrap(_C.sqrt((t.real.square() + t.imag.square() if t.is_complex() else t * t).sum(dim, keepdims)))
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    return wrap(torch_linalg.vector_norm(t, ord, dim, keepdims))


@function("linalg.vector_norm")
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    a = array_of(x)
    a = a if a.dtype.kind in "fc" else a.astype(float)
    return wrap(torch_linalg.vector_norm(a._t, ord, axes_of(axis, a.ndim), keepdims))


@function("linalg.matrix_norm")
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    return wrap(torch_linalg.matrix_norm(_matrix(x), ord, (-2, -1), keepdims))


@function("linalg.det")
def det(a):
    return wrap(torch_linalg.det(_square(a)))


@function("linalg.slogdet")
def slogdet(a):
    return _named("slogdet", torch_linalg.slogdet(_square(a)))


@function("linalg.inv")
def inv(a):
    return wrap(_checked(lambda: torch_linalg.inv(_square(a))))


@function("linalg.solve")
def solve(a, b):
    a, b = (array_of(x) for x in promoted(_wrapped(_square(a)), b))
    t = _matrix(a)
    if b.ndim == 1:
        return wrap(_checked(lambda: torch_linalg.solve(t, b._t.unsqueeze(-1))).squeeze(-1))
    return wrap(_checked(lambda: torch_linalg.solve(t, b._t)))


def _wrapped(t):
    return ndarray(t)


@function("linalg.cholesky")
def cholesky(a, /, *, upper=False):
    return wrap(_checked(lambda: torch_linalg.cholesky(_square(a), upper=upper)))


@function("linalg.qr")
def qr(a, mode="reduced"):
    if mode not in ("reduced", "complete", "r"):
        raise InNumpy("another mode")
    q, r = torch_linalg.qr(_matrix(a), mode)
    return wrap(r) if mode == "r" else _named("qr", (q, r))


@function("linalg.svd")
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    if hermitian:
        raise InNumpy("a hermitian matrix")
    t = _matrix(a)
    if not compute_uv:
        return wrap(torch_linalg.svdvals(t))
    return _named("svd", torch_linalg.svd(t, full_matrices))


@function("linalg.svdvals")
def svdvals(x, /):
    return wrap(torch_linalg.svdvals(_matrix(x)))


@function("linalg.eigh")
def eigh(a, UPLO="L"):
    return _named("eigh", torch_linalg.eigh(_square(a), UPLO.upper()))


@function("linalg.eigvalsh")
def eigvalsh(a, UPLO="L"):
    return wrap(torch_linalg.eigvalsh(_square(a), UPLO.upper()))


def _maybe_real(t, given):
    """Eigenvalues of a real matrix that are all real are real in NumPy."""
    if given.is_complex() or bool((t.imag != 0).any()):
        return t, False
    return t.real.contiguous(), True


@function("linalg.eigvals")
def eigvals(a):
    t = _square(a)
    return wrap(_maybe_real(torch_linalg.eigvals(t), t)[0])


@function("linalg.eig")
def eig(a):
    t = _square(a)
    values, vectors = torch_linalg.eig(t)
    values, is_real = _maybe_real(values, t)
    return _named("eig", (values, vectors.real.contiguous() if is_real else vectors))


@function("linalg.pinv")
def pinv(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    if hermitian or rcond is not None or rtol is not np._NoValue:
        raise InNumpy("another cutoff")
    return wrap(torch_linalg.pinv(_matrix(a), rtol=1e-15))


@function("linalg.matrix_rank")
def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    if tol is not None or hermitian or rtol is not None or array_of(A).ndim < 2:
        raise InNumpy("another tolerance")
    return wrap(torch_linalg.matrix_rank(_matrix(A)))


@function("linalg.matrix_power")
def matrix_power(a, n):
    a = array_of(a)
    if a.dtype.kind in "bui" and n >= 0:
        if n == 0:
            return wrap(_C.eye(a.shape[-1], dtype=a._t.dtype, device=a._t.device).expand(a.shape).clone())
        made = a
        for _ in range(n - 1):
            made = np.matmul(made, a)
        return made
    return wrap(_checked(lambda: torch_linalg.matrix_power(_square(a), n)))


@function("linalg.lstsq")
def lstsq(a, b, rcond=None):
    x, y = promoted(a, b)
    x, y = (t if t.is_floating_point() or t.is_complex() else t.double() for t in (x, y))
    if x.dim() != 2 or rcond not in (None, -1):
        raise InNumpy("another cutoff")
    u, s, vh = torch_linalg.svd(x, False)
    cutoff = (_C.finfo(x.dtype).eps * max(x.shape) if rcond is None else _C.finfo(x.dtype).eps) * s.amax()
    rank = (s > cutoff).sum()
    columns = y.unsqueeze(-1) if y.dim() == 1 else y
    found = vh.mH @ _C.where((s > cutoff).unsqueeze(-1), (u.mH @ columns) / s.unsqueeze(-1).to(columns.dtype), 0)
    n = int(rank)
    left = columns - x @ found
    residuals = (left.abs().square().sum(0) if n == x.size(1) and x.size(0) > n else s.new_empty(0))
    return wrap(found.squeeze(-1) if y.dim() == 1 else found), ndarray(residuals), np.int32(n), wrap(s)


@function("linalg.multi_dot")
def multi_dot(arrays, *, out=None):
    made = array_of(arrays[0])
    if any(array_of(x).ndim != 2 for x in arrays) or out is not None:
        raise InNumpy("vectors at the ends")
    return wrap(torch_linalg.multi_dot(promoted(*arrays))) if len(arrays) > 1 else made


@function("linalg.cond")
def cond(x, p=None):
    if p is not None and p != 2:
        raise InNumpy("another norm")
    s = torch_linalg.svdvals(_matrix(x))
    return wrap(s[..., 0] / s[..., -1])


@function("linalg.trace")
def trace(x, /, *, offset=0, dtype=None):
    return functions.trace(x, offset, -2, -1, dtype)


@function("linalg.diagonal")
def diagonal(x, /, *, offset=0):
    return functions.diagonal(x, offset, -2, -1)


functions.FUNCTIONS["linalg.matmul"] = lambda x1, x2, /: np.matmul(x1, x2)
functions.FUNCTIONS["linalg.vecdot"] = lambda x1, x2, /, *, axis=-1: np.vecdot(x1, x2, axis=axis) if axis != -1 else np.vecdot(x1, x2)
