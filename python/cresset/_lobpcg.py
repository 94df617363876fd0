"""Some eigenvalues of a large symmetric matrix, or of a pair of matrices, by products with it."""
from . import _C
from .overrides import handle_torch_function, has_torch_function

__all__ = ["lobpcg"]


def _basis(S, B):
    """Columns that span S and are orthonormal in the product with B; those of no weight are left out."""
    S = S / S.norm(dim=0).clamp(min=_C.finfo(S.dtype).tiny)
    gram = S.mT @ (S if B is None else B @ S)
    weight, vectors = _eigh(gram)
    keep = weight > weight[-1] * S.shape[0] * _C.finfo(S.dtype).eps
    return S @ (vectors[:, keep] / weight[keep].sqrt())


def _eigh(matrix):
    from .linalg import eigh
    return tuple(eigh(matrix))


def _largest(A, B, X, k, preconditioner, tol, niter, largest, tracker):
    """The loop of Knyazev's method: Rayleigh-Ritz in the span of X, of the residuals and of the last directions."""
    sign = -1 if largest else 1
    directions = None
    for iteration in range(niter + 1):
        S = _basis(_C.cat([X, *([] if directions is None else [directions])], 1), B)
        values, vectors = _eigh(sign * (S.mT @ (A @ S)))
        X, E = S @ vectors[:, :k], sign * values[:k]
        BX = X if B is None else B @ X
        residual = A @ X - BX * E
        norms = residual.norm(dim=0)
        scale = (A @ X).norm(dim=0) + E.abs() * BX.norm(dim=0)
        converged = int((norms <= tol * scale.clamp(min=_C.finfo(X.dtype).tiny)).sum())
        if tracker is not None:
            tracker(iteration, E, X, norms, converged)
        if converged >= k or iteration == niter:
            break
        W = residual if preconditioner is None else preconditioner @ residual
        P = [] if directions is None else [directions - X @ (X.mT @ (directions if B is None else B @ directions))]
        directions = _C.cat([W, *P], 1)[:, :2 * X.shape[1]]
    return E, X


def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None, tracker=None,
           ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):
    """(the k largest or smallest eigenvalues, eigenvectors) of A, or of A x = e B x with a positive definite B.

    X: the vectors to begin with; iK: a preconditioner; tracker: called with each iteration's results.
    """
    if has_torch_function((A, B, X, iK)):
        return handle_torch_function(lobpcg, (A, B, X, iK), A, k=k, B=B, X=X, n=n, iK=iK, niter=niter, tol=tol, largest=largest,
                                     method=method, tracker=tracker)
    if A.shape[-1] != A.shape[-2]:
        raise ValueError(f"A must be a square matrix, got shape {tuple(A.shape)}")
    if A.dim() > 2:
        flat = A.reshape(-1, *A.shape[-2:])
        made = [lobpcg(a, k, None if B is None else B.expand(A.shape).reshape(flat.shape)[i],
                       None if X is None else X.reshape(-1, *X.shape[-2:])[i], n, iK, niter, tol, largest)
                for i, a in enumerate(flat)]
        E, V = (_C.stack(parts) for parts in zip(*made))
        return E.reshape(*A.shape[:-2], -1), V.reshape(*A.shape[:-1], -1)
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if X is None else X.shape[-1]) if n is None else n
    size = A.shape[-1]
    if size < 3 * n:
        raise ValueError(f"LOBPCG algorithm is not applicable when the number of A rows (={size}) is smaller than 3 x the number of requested eigenpairs (={n})")
    X = _C.randn(size, n, dtype=A.dtype, device=A.device) if X is None else X
    tol = {_C.float32: 1.2e-07, _C.float64: 2.2e-16}[A.dtype] ** 0.5 if tol is None else tol
    E, V = _largest(A, B, X, n, iK, tol, 1000 if niter is None or niter < 0 else niter, largest is None or largest, tracker)
    return E[:k], V[:, :k]
