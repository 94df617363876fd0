"""Functions of torch.functional as the compiler reads them (_forms.py): those whose number of results a constant chooses."""
from typing import Optional, Tuple

import cresset as torch
from cresset import Tensor

from ._forms import Choice, choose

# --- distinct elements ---


def _unique_impl(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
                 dim: Optional[int] = None) -> Tuple[Tensor, Tensor, Tensor]:
    if dim is None:
        return torch.ops.aten._unique2(input, sorted, return_inverse, return_counts)
    return torch.ops.aten.unique_dim(input, dim, sorted, return_inverse, return_counts)


def _return_output(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
                   dim: Optional[int] = None) -> Tensor:
    return _unique_impl(input, sorted, return_inverse, return_counts, dim)[0]


def _return_inverse(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
                    dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    output, inverse, _ = _unique_impl(input, sorted, return_inverse, return_counts, dim)
    return output, inverse


def _return_counts(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
                   dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    output, _, counts = _unique_impl(input, sorted, return_inverse, return_counts, dim)
    return output, counts


def _unique_consecutive_impl(input: Tensor, return_inverse: bool = False, return_counts: bool = False,
                             dim: Optional[int] = None) -> Tuple[Tensor, Tensor, Tensor]:
    values, inverse, counts = torch.ops.aten.unique_consecutive(input, return_inverse, return_counts, dim)
    return values, inverse, counts


def _consecutive_return_output(input: Tensor, return_inverse: bool = False, return_counts: bool = False,
                               dim: Optional[int] = None) -> Tensor:
    return _unique_consecutive_impl(input, return_inverse, return_counts, dim)[0]


def _consecutive_return_inverse(input: Tensor, return_inverse: bool = False, return_counts: bool = False,
                                dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    output, inverse, _ = _unique_consecutive_impl(input, return_inverse, return_counts, dim)
    return output, inverse


def _consecutive_return_counts(input: Tensor, return_inverse: bool = False, return_counts: bool = False,
                               dim: Optional[int] = None) -> Tuple[Tensor, Tensor]:
    output, _, counts = _unique_consecutive_impl(input, return_inverse, return_counts, dim)
    return output, counts


# --- LU factors ---


def _lu_with_infos(A: Tensor, pivot: bool = True, get_infos: bool = False,
                   out: Optional[Tuple[Tensor, Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor, Tensor]:
    factors, pivots, info = torch.ops.aten._lu_with_info(A, pivot, not get_infos)
    if out is None:
        return factors, pivots, info
    out[0].resize_as_(factors).copy_(factors)
    out[1].resize_as_(pivots).copy_(pivots)
    out[2].resize_as_(info).copy_(info)
    return out


def _lu_no_infos(A: Tensor, pivot: bool = True, get_infos: bool = False,
                 out: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor]:
    factors, pivots, _ = torch.ops.aten._lu_with_info(A, pivot, not get_infos)
    if out is None:
        return factors, pivots
    out[0].resize_as_(factors).copy_(factors)
    out[1].resize_as_(pivots).copy_(pivots)
    return out


for _fn in (_unique_impl, _return_output, _return_inverse, _return_counts, _unique_consecutive_impl, _consecutive_return_output,
            _consecutive_return_inverse, _consecutive_return_counts, _lu_with_infos, _lu_no_infos):
    _fn.__module__ = "torch.functional"


def _by_two(counts, inverse, functions):
    """The choice by return_counts at the place `counts`, and by return_inverse at the place `inverse`, of four functions."""
    all_, only_counts, only_inverse, none = functions
    return Choice("return_counts", counts, False, Choice("return_inverse", inverse, False, all_, only_counts),
                  Choice("return_inverse", inverse, False, only_inverse, none))


choose("unique", _by_two(3, 2, (_unique_impl, _return_counts, _return_inverse, _return_output)))
choose("unique_consecutive", _by_two(2, 1, (_unique_consecutive_impl, _consecutive_return_counts, _consecutive_return_inverse,
                                            _consecutive_return_output)))
choose("lu", Choice("get_infos", 2, False, _lu_with_infos, _lu_no_infos))
