"""Approximate factorizations of matrices by random projections (Halko, Martinsson and Tropp)."""
from . import _C
from .linalg import qr, svd

__all__ = ["pca_lowrank", "svd_lowrank"]


def _multiply(A, B):
    return A @ B


def get_approximate_basis(A, q, niter=2, M=None):
    """A matrix with q orthonormal columns whose range is about that of A - M.

    A power iteration multiplies by A - M and its adjoint `niter` times, with a QR
    factorization after each product.
    """
    niter = 2 if niter is None else niter
    dtype = A.dtype if A.dtype.is_complex or A.dtype.is_floating_point else _C.float32
    Q = _C.randn(A.shape[-1], q, dtype=dtype, device=A.device)
    shifted = lambda X: _multiply(A, X) if M is None else _multiply(A, X) - _multiply(M, X)
    adjoint = lambda X: _multiply(A.mH, X) if M is None else _multiply(A.mH, X) - _multiply(M.mH, X)
    Q = qr(shifted(Q)).Q
    for _ in range(niter):
        Q = qr(adjoint(Q)).Q
        Q = qr(shifted(Q)).Q
    return Q


def svd_lowrank(A, q=6, niter=2, M=None):
    """U, S, V with A - M about U diag(S) V^H, of rank q."""
    if A.dim() < 2:
        raise ValueError(f"A must be a matrix or a batch of matrices, not of {A.dim()} dimensions")
    q = 6 if q is None else q
    rows, columns = A.shape[-2:]
    M = None if M is None else M.broadcast_to(A.shape)
    transposed = rows < columns  # the smaller side is factorized exactly
    if transposed:
        A, M = A.mH, None if M is None else M.mH
    Q = get_approximate_basis(A, q, niter=niter, M=M)
    B = _multiply(Q.mH, A) if M is None else _multiply(Q.mH, A) - _multiply(Q.mH, M)
    U, S, Vh = svd(B, full_matrices=False)
    U, V = _multiply(Q, U), Vh.mH
    return (V, S, U) if transposed else (U, S, V)


def pca_lowrank(A, q=None, center=True, niter=2):
    """svd_lowrank of A; with `center`, of A less the means of its columns."""
    rows, columns = A.shape[-2:]
    if q is None:
        q = min(6, rows, columns)
    elif not 0 <= q <= min(rows, columns):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than "
                         f"min(m, n)={min(rows, columns)}")
    if not niter >= 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        A = A - A.mean(dim=-2, keepdim=True)
    return svd_lowrank(A, q, niter=niter)
