"""Constructors of sparse tensors as the compiler reads them (_forms.py)."""
from typing import List, Optional

import cresset as torch
from cresset import Tensor

from .._ops import ops
from ._forms import _of_module


@_of_module("torch")
def sparse_coo_tensor(indices: Tensor, values: Tensor, size: Optional[List[int]] = None, *, dtype: Optional[int] = None,
                      layout: Optional[torch.layout] = None, device: Optional[torch.device] = None,
                      pin_memory: Optional[bool] = None, is_coalesced: Optional[bool] = None) -> Tensor:
    if dtype is not None:
        values = values.to(dtype)
    if device is not None:
        values = values.to(device)
    return ops._sparse_coo(indices.to(values.device), values, size, is_coalesced, False)


@_of_module("torch")
def sparse_compressed_tensor(compressed_indices: Tensor, plain_indices: Tensor, values: Tensor,
                             size: Optional[List[int]] = None, *, dtype: Optional[int] = None, layout: Optional[torch.layout] = None,
                             device: Optional[torch.device] = None, pin_memory: Optional[bool] = False) -> Tensor:
    assert layout is not None, "sparse_compressed_tensor expected sparse compressed tensor layout but got none"
    if dtype is not None:
        values = values.to(dtype)
    if device is not None:
        values = values.to(device)
    compressed = compressed_indices.to(values.device)
    return ops._sparse_compressed(compressed, plain_indices.to(values.device), values, size, layout, False)


@_of_module("torch")
def sparse_csr_tensor(crow_indices: Tensor, col_indices: Tensor, values: Tensor, size: Optional[List[int]] = None, *,
                      dtype: Optional[int] = None, layout: Optional[torch.layout] = None, device: Optional[torch.device] = None,
                      pin_memory: Optional[bool] = False) -> Tensor:
    return torch.sparse_compressed_tensor(crow_indices, col_indices, values, size, dtype=dtype,
                                          layout=torch.sparse_csr, device=device, pin_memory=pin_memory)


@_of_module("torch")
def sparse_csc_tensor(ccol_indices: Tensor, row_indices: Tensor, values: Tensor, size: Optional[List[int]] = None, *,
                      dtype: Optional[int] = None, layout: Optional[torch.layout] = None, device: Optional[torch.device] = None,
                      pin_memory: Optional[bool] = False) -> Tensor:
    return torch.sparse_compressed_tensor(ccol_indices, row_indices, values, size, dtype=dtype,
                                          layout=torch.sparse_csc, device=device, pin_memory=pin_memory)


@_of_module("torch")
def sparse_bsr_tensor(crow_indices: Tensor, col_indices: Tensor, values: Tensor, size: Optional[List[int]] = None, *,
                      dtype: Optional[int] = None, layout: Optional[torch.layout] = None, device: Optional[torch.device] = None,
                      pin_memory: Optional[bool] = False) -> Tensor:
    return torch.sparse_compressed_tensor(crow_indices, col_indices, values, size, dtype=dtype,
                                          layout=torch.sparse_bsr, device=device, pin_memory=pin_memory)


@_of_module("torch")
def sparse_bsc_tensor(ccol_indices: Tensor, row_indices: Tensor, values: Tensor, size: Optional[List[int]] = None, *,
                      dtype: Optional[int] = None, layout: Optional[torch.layout] = None, device: Optional[torch.device] = None,
                      pin_memory: Optional[bool] = False) -> Tensor:
    return torch.sparse_compressed_tensor(ccol_indices, row_indices, values, size, dtype=dtype,
                                          layout=torch.sparse_bsc, device=device, pin_memory=pin_memory)
