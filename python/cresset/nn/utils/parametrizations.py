"""Ready-made parametrizations: orthogonal, weight norm, spectral norm."""
import cresset
from ... import Tensor
from .. import functional as F
from ..modules.conv import _ConvTransposeNd
from ..modules.module import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_MAPS = ("matrix_exp", "cayley", "householder")


def _identity(n, like):
    return cresset.eye(n, dtype=like.dtype, device=like.device)


def _is_orthogonal(q):
    n, k = q.size(-2), q.size(-1)
    eps = 10.0 * n * cresset.finfo(q.dtype).eps
    return cresset.allclose(q.mH @ q, _identity(k, q), atol=eps)


def _make_orthogonal(a):
    x, tau = cresset.geqrf(a)
    q = cresset.linalg.householder_product(x, tau)
    return q * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """Computes an orthogonal matrix from any matrix of the same shape."""

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError(
                "The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        wide = X.size(-2) < X.size(-1)
        X = X.mT if wide else X
        if self.orthogonal_map == "householder":
            q = self._by_reflections(X)
        else:
            q = self._by_exponential(X)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _by_exponential(self, x):
        n, k = x.size(-2), x.size(-1)
        x = x.tril()
        if n != k:
            zeros = x.new_zeros(n, n - k).expand(*x.shape[:-2], -1, -1)
            x = cresset.cat([x, zeros], dim=-1)
        a = x - x.mH  # skew-symmetric: its exponential is orthogonal
        if self.orthogonal_map == "matrix_exp":
            q = cresset.matrix_exp(a)
        else:
            one = _identity(n, a)
            q = cresset.linalg.solve(one - 0.5 * a, one + 0.5 * a)
        return q[..., :k] if n != k else q

    @staticmethod
    def _by_reflections(x):
        a = x.tril(diagonal=-1)
        tau = 2.0 / (1.0 + (a * a).sum(dim=-2))
        q = cresset.linalg.householder_product(a, tau)
        return q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)

    def right_inverse(self, Q):
        if Q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got "
                             f"a tensor of shape {Q.shape}.")
        with cresset.no_grad():
            if hasattr(self, "base"):
                return self._rebase(Q)
            return self._reflections_of(Q)

    def _rebase(self, q):
        """Makes `q` the base; the matrix that maps to the identity is minus the identity."""
        start = cresset.zeros_like(q)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        q = q.mT if q.size(-2) < q.size(-1) else q
        n, k = q.size(-2), q.size(-1)
        if n != k:
            rest = cresset.randn((*q.shape[:-2], n, n - k), dtype=q.dtype, device=q.device)
            q = _make_orthogonal(cresset.cat([q, rest], dim=-1))
        else:
            q = q.clone() if _is_orthogonal(q) else _make_orthogonal(q)
        self.base = q
        return start

    def _reflections_of(self, q):
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley "
                "parametrizations when use_trivialization=False.")
        wide = q.size(-2) < q.size(-1)
        a, tau = cresset.geqrf(q.mT if wide else q)
        a.diagonal(dim1=-2, dim2=-1).sign_()
        a.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
        return a.mT if wide else a


def _tensor_of(module, name):
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Keeps a matrix orthogonal."""
    weight = _tensor_of(module, name)
    if weight.ndim < 2:
        raise ValueError("Expected a matrix or batch of matrices. Got a tensor of "
                         f"{weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError('orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
                         f"Got: {orthogonal_map}")
    steps = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return parametrize.register_parametrization(module, name, steps, unsafe=True)


def _norm_except(v, dim):
    """Returns the norm of every slice along `dim`; of the whole tensor for dim -1."""
    if dim == -1:
        return v.norm(2)
    return v.norm(2, [d for d in range(v.dim()) if d != dim], keepdim=True)


class _WeightNorm(Module):
    """g * v / |v|."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / _norm_except(weight_v, self.dim))

    def right_inverse(self, weight):
        return _norm_except(weight, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """Splits a weight into length and direction."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, *rest):
        # State dicts of the older weight_norm have <name>_g and <name>_v.
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """The weight divided by its largest singular value, found by power iteration."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError("Dimension out of range (expected to be in range of "
                             f"[-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got "
                             f"n_power_iterations={n_power_iterations}")
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._reshape_weight_to_matrix(weight)
            u = matrix.new_empty(matrix.size(0)).normal_(0, 1)
            v = matrix.new_empty(matrix.size(1)).normal_(0, 1)
            self.register_buffer("_u", F.normalize(u, dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(v, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _reshape_weight_to_matrix(self, weight):
        if self.dim != 0:
            weight = weight.movedim(self.dim, 0)
        return weight.flatten(1)

    def _power_method(self, matrix, n):
        with cresset.no_grad():
            for _ in range(n):
                self._u.copy_(F.normalize(cresset.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(cresset.mv(matrix.mH, self._u), dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._reshape_weight_to_matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        # Copies, because backward needs these values after the next iteration has changed them.
        u, v = self._u.clone(), self._v.clone()
        return weight / cresset.vdot(u, cresset.mv(matrix, v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Keeps a weight's largest singular value at one."""
    weight = _tensor_of(module, name)
    if dim is None:
        dim = 1 if isinstance(module, _ConvTransposeNd) else 0
    steps = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, steps)
