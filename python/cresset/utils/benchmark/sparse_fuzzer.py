"""Random sparse tensors for measurements."""
from ... import _C
from ..._sparse import sparse_coo_tensor
from .fuzzer import FuzzedTensor

__all__ = ["FuzzedSparseTensor"]


class FuzzedSparseTensor(FuzzedTensor):
    """A COO tensor; its number of sparse dims, density and coalescing are parameters."""

    def __init__(self, name, size, min_elements=None, max_elements=None, dim_parameter=None, sparse_dim=None, nnz=None,
                 density=None, coalesced=None, dtype=None, cuda=False):
        super().__init__(name, size, min_elements=min_elements, max_elements=max_elements, dim_parameter=dim_parameter,
                         dtype=dtype, cuda=cuda)
        self._sparse_dim, self._nnz, self._density, self._coalesced = sparse_dim, nnz, density, coalesced

    @staticmethod
    def sparse_tensor_constructor(size, dtype, sparse_dim, nnz, is_coalesced):
        """A COO tensor with nnz values at random places."""
        places = _C.rand(sparse_dim, nnz) * _C.tensor(size[:sparse_dim], dtype=_C.float32).reshape(-1, 1)
        values = FuzzedTensor.default_tensor_constructor([nnz, *size[sparse_dim:]], dtype)
        made = sparse_coo_tensor(places.to(_C.int64), values, tuple(size))
        return made.coalesce() if is_coalesced else made

    def _make_tensor(self, params, state):
        size, _, _ = self._sizes(params)
        density, coalesced = params.get(self._density, 0.1), params.get(self._coalesced, True)
        dims = min(params.get(self._sparse_dim, len(size)) if isinstance(self._sparse_dim, str) else self._sparse_dim or len(size), len(size))
        count = 1
        for n in size[:dims]:
            count *= n
        nnz = max(1, int(count * density))
        tensor = self.sparse_tensor_constructor(size, self._dtype, dims, nnz, coalesced)
        tensor = tensor.cuda() if self._cuda else tensor
        return tensor, {"numel": tensor.numel(), "shape": tensor.size(), "is_coalesced": tensor.is_coalesced(),
                        "density": density, "sparsity": 1 - density, "sparse_dim": tensor.sparse_dim(),
                        "dense_dim": tensor.dense_dim(), "is_hybrid": tensor.dense_dim() > 0, "dtype": str(self._dtype)}
