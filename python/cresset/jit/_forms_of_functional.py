"""Functions of torch.functional as the compiler reads them (_forms.py)."""
from typing import List, Optional, Tuple

import cresset as torch
from cresset import Tensor

from ._forms import Choice, _of_module, choose, overload

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


# --- Fourier transforms, distances, products ---

@_of_module("torch.functional")
def stft(input: Tensor, n_fft: int, hop_length: Optional[int] = None, win_length: Optional[int] = None,
         window: Optional[Tensor] = None, center: bool = True, pad_mode: str = "reflect", normalized: bool = False,
         onesided: Optional[bool] = None, return_complex: Optional[bool] = None,
         align_to_window: Optional[bool] = None) -> Tensor:
    if center:
        if align_to_window is not None:
            raise RuntimeError("stft align_to_window should only be set when center = False.")
        extra = n_fft // 2
        shape = [1] * (3 - input.dim()) + list(input.size())
        padded = torch.nn.functional.pad(input.view(shape), [extra, extra], pad_mode)
        input = padded.view(padded.shape[-input.dim():])
    return torch.ops.aten.stft(input, n_fft, hop_length, win_length, window, normalized, onesided, return_complex)


@_of_module("torch.functional")
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    if compute_mode == "use_mm_for_euclid_dist_if_necessary":
        return torch.ops.aten.cdist(x1, x2, p, None)
    elif compute_mode == "use_mm_for_euclid_dist":
        return torch.ops.aten.cdist(x1, x2, p, 1)
    elif compute_mode == "donot_use_mm_for_euclid_dist":
        return torch.ops.aten.cdist(x1, x2, p, 2)
    else:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")


def _tensordot_of_int(a: Tensor, b: Tensor, dims: int = 2, out: Optional[Tensor] = None) -> Tensor:
    if dims < 0:
        raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
    if dims > min(a.dim(), b.dim()):
        raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
    dims_a, dims_b = list(range(-dims, 0)), list(range(dims))
    if out is None:
        return torch.ops.aten.tensordot(a, b, dims_a, dims_b)
    return torch.ops.aten.tensordot(a, b, dims_a, dims_b, out=out)


def _tensordot_of_tuple(a: Tensor, b: Tensor, dims: Tuple[List[int], List[int]], out: Optional[Tensor] = None) -> Tensor:
    dims_a, dims_b = dims
    if out is None:
        return torch.ops.aten.tensordot(a, b, dims_a, dims_b)
    return torch.ops.aten.tensordot(a, b, dims_a, dims_b, out=out)


def _tensordot_of_lists(a: Tensor, b: Tensor, dims: List[List[int]], out: Optional[Tensor] = None) -> Tensor:
    dims_a, dims_b = dims[0], dims[1]
    if out is None:
        return torch.ops.aten.tensordot(a, b, dims_a, dims_b)
    return torch.ops.aten.tensordot(a, b, dims_a, dims_b, out=out)


def _tensordot_of_tensor(a: Tensor, b: Tensor, dims: Tensor, out: Optional[Tensor] = None) -> Tensor:
    pairs: List[List[int]] = [[int(x) for x in row] for row in dims] if dims.dim() == 2 else [[int(x)] for x in dims]
    if out is None:
        return torch.ops.aten.tensordot(a, b, pairs[0], pairs[1])
    return torch.ops.aten.tensordot(a, b, pairs[0], pairs[1], out=out)


overload("tensordot", "torch.functional", _tensordot_of_int, _tensordot_of_tuple, _tensordot_of_lists, _tensordot_of_tensor)
