"""Pools, convolutions, resampling and other layers of torch.nn as the compiler reads them (_forms.py)."""
import math
import warnings
from typing import Any, List, Optional, Tuple

import cresset as torch
from cresset import Tensor

from ._forms import _method, _of, form_of_choice, form_of_text
from .annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3

# --- pools ---

for _d in (1, 2, 3):
    _ints = f"BroadcastingList{_d}[int]"
    if _d != 2:
        form_of_text(
            f"max_pool{_d}d",
            f"def _max_pool{_d}d(input: Tensor, kernel_size: {_ints}, stride: Optional[{_ints}] = None, padding: {_ints} = 0, "
            f"dilation: {_ints} = 1, ceil_mode: bool = False, return_indices: bool = False) -> Tensor:\n"
            "    if stride is None:\n"
            "        stride = torch.jit.annotate(List[int], [])\n"
            f"    return torch.max_pool{_d}d(input, kernel_size, stride, padding, dilation, ceil_mode)\n", __file__, globals())
    form_of_text(
        f"max_pool{_d}d_with_indices",
        f"def max_pool{_d}d_with_indices(input: Tensor, kernel_size: {_ints}, stride: Optional[{_ints}] = None, "
        f"padding: {_ints} = 0, dilation: {_ints} = 1, ceil_mode: bool = False, return_indices: bool = False) "
        "-> Tuple[Tensor, Tensor]:\n"
        "    if stride is None:\n"
        "        stride = torch.jit.annotate(List[int], [])\n"
        f"    return torch.ops.aten.max_pool{_d}d_with_indices(input, kernel_size, stride, padding, dilation, ceil_mode)\n",
        __file__, globals())
    form_of_choice(f"max_pool{_d}d", "return_indices", 6, f"max_pool{_d}d_with_indices")
    form_of_text(
        f"adaptive_max_pool{_d}d_with_indices",
        f"def adaptive_max_pool{_d}d_with_indices(input: Tensor, output_size: {_ints}, return_indices: bool = False) "
        "-> Tuple[Tensor, Tensor]:\n"
        f"    return torch.ops.aten.adaptive_max_pool{_d}d(input, output_size)\n", __file__, globals())
    form_of_text(
        f"adaptive_max_pool{_d}d",
        f"def _adaptive_max_pool{_d}d(input: Tensor, output_size: {_ints}, return_indices: bool = False) -> Tensor:\n"
        f"    return torch.nn.functional.adaptive_max_pool{_d}d_with_indices(input, output_size)[0]\n", __file__, globals())
    form_of_choice(f"adaptive_max_pool{_d}d", "return_indices", 2, f"adaptive_max_pool{_d}d_with_indices")
    form_of_text(
        f"lp_pool{_d}d",
        f"def lp_pool{_d}d(input: Tensor, norm_type: float, kernel_size: {_ints}, stride: Optional[{_ints}] = None, "
        "ceil_mode: bool = False) -> Tensor:\n"
        "    if stride is None:\n"
        "        stride = torch.jit.annotate(List[int], [])\n"
        "    if math.isinf(norm_type):\n"
        "        sign = -1.0 if norm_type < 0.0 else 1.0\n"
        f"        return sign * torch.max_pool{_d}d(sign * input.abs(), kernel_size, stride, 0, 1, ceil_mode)\n"
        f"    mean = torch.ops.aten.avg_pool{_d}d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)\n"
        "    count = 1\n"
        "    for n in kernel_size:\n"
        "        count *= n\n"
        "    return (torch.sign(mean) * torch.relu(torch.abs(mean))).mul(count).pow(1.0 / norm_type)\n", __file__, globals())
    for _kind in ("MaxPool", "AdaptiveMaxPool"):
        _name, _given = ("max_pool", "self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode") \
            if _kind == "MaxPool" else ("adaptive_max_pool", "self.output_size")
        form_of_text(
            f"{_kind}{_d}d.forward",
            "def forward(self, input: Tensor):\n"
            f"    return torch.nn.functional.{_name}{_d}d(input, {_given}, return_indices=self.return_indices)\n",
            __file__, globals())



def _unpool_sizes(sizes: List[int], kernel_size: List[int], stride: List[int], padding: List[int],
                  output_size: Optional[List[int]]) -> List[int]:
    """The sizes of a max_unpool's result: those asked for, which must be near those that follow from the arguments."""
    dims = len(kernel_size)
    default: List[int] = []
    for d in range(dims):
        default.append((sizes[len(sizes) - dims + d] - 1) * stride[d] + kernel_size[d] - 2 * padding[d])
    if output_size is None:
        return default
    if len(output_size) == dims + 2:
        output_size = output_size[2:]
    if len(output_size) != dims:
        raise ValueError(f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a length of "
                         f"'{len(output_size)}'")
    for d in range(dims):
        least, most = default[d] - stride[d], default[d] + stride[d]
        if not (least < output_size[d] < most):
            raise ValueError(f'invalid output_size "{output_size}" (dim {d} must be between {least} and {most})')
    return output_size


for _d in (1, 2, 3):
    _ints = f"BroadcastingList{_d}[int]"
    _call = {1: "max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [size[0], 1]).squeeze(-1)",
             2: "max_unpool2d(input, indices, size)", 3: "max_unpool3d(input, indices, size, steps, padding)"}[_d]
    form_of_text(
        f"max_unpool{_d}d",
        f"def max_unpool{_d}d(input: Tensor, indices: Tensor, kernel_size: {_ints}, stride: Optional[{_ints}] = None, "
        f"padding: {_ints} = 0, output_size: Optional[{_ints}] = None) -> Tensor:\n"
        "    steps = kernel_size if stride is None else stride\n"
        "    size = _unpool_sizes(input.size(), kernel_size, steps, padding, output_size)\n"
        f"    return torch.ops.aten.{_call}\n", __file__, globals())
    form_of_text(
        f"MaxUnpool{_d}d.forward",
        "def forward(self, input: Tensor, indices: Tensor, output_size: Optional[List[int]] = None) -> Tensor:\n"
        f"    return torch.nn.functional.max_unpool{_d}d(input, indices, self.kernel_size, self.stride, self.padding, output_size)\n",
        __file__, globals())

for _d in (2, 3):
    _given = f"input: Tensor, kernel_size: BroadcastingList{_d}[int], output_size: Optional[BroadcastingList{_d}[int]] = None, " \
             f"output_ratio: Optional[BroadcastingList{_d}[float]] = None, return_indices: bool = False, " \
             "_random_samples: Optional[Tensor] = None"
    form_of_text(
        f"fractional_max_pool{_d}d_with_indices",
        f"def fractional_max_pool{_d}d_with_indices({_given}) -> Tuple[Tensor, Tensor]:\n"
        "    if output_size is None and output_ratio is None:\n"
        f"        raise ValueError('fractional_max_pool{_d}d requires specifying either an output_size or an output_ratio')\n"
        "    if output_size is None:\n"
        "        assert output_ratio is not None\n"
        f"        output_size = [{', '.join(f'int(input.size({k - _d}) * output_ratio[{k}])' for k in range(_d))}]\n"
        "    if _random_samples is None:\n"
        f"        n = 1 if input.dim() == {_d + 1} else input.size(0)\n"
        f"        _random_samples = torch.rand(n, input.size(-{_d + 1}), {_d}, dtype=input.dtype, device=input.device)\n"
        f"    return torch.ops.aten.fractional_max_pool{_d}d(input, kernel_size, output_size, _random_samples)\n", __file__, globals())
    form_of_text(
        f"fractional_max_pool{_d}d",
        f"def _fractional_max_pool{_d}d({_given}) -> Tensor:\n"
        f"    return torch.nn.functional.fractional_max_pool{_d}d_with_indices(input, kernel_size, output_size, output_ratio, "
        "return_indices, _random_samples)[0]\n", __file__, globals())
    form_of_choice(f"fractional_max_pool{_d}d", "return_indices", 4, f"fractional_max_pool{_d}d_with_indices")
    form_of_text(
        f"FractionalMaxPool{_d}d.forward",
        "def forward(self, input: Tensor):\n"
        f"    return torch.nn.functional.fractional_max_pool{_d}d(input, self.kernel_size, self.output_size, self.output_ratio, "
        "self.return_indices, _random_samples=self._random_samples)\n", __file__, globals())

# --- convolutions ---


@_method("Conv3d._conv_forward")
def conv3d_forward(self, input: Tensor, weight: Tensor, bias: Optional[Tensor]):
    if self.padding_mode != "zeros":
        return torch.conv3d(
            torch.nn.functional.pad(input, self._reversed_padding_repeated_twice, self.padding_mode), weight, bias, self.stride,
            [0, 0, 0], self.dilation, self.groups)
    return torch.conv3d(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)


def transposed_padding(input: Tensor, output_size: Optional[List[int]], given: List[int], stride: List[int],
                       padding: List[int], kernel_size: List[int], dilation: List[int]) -> List[int]:
    if output_size is None:
        return given
    n = len(stride)
    batched = 1 if input.dim() == n + 2 else 0
    size = output_size[batched + 1:] if len(output_size) == n + batched + 1 else output_size
    if len(size) != n:
        raise ValueError(f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or {n + batched + 1} "
                         f"elements (got {len(output_size)})")
    made: List[int] = []
    for d in range(n):
        least = (input.size(d + batched + 1) - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel_size[d] - 1) + 1
        if size[d] < least or size[d] > least + stride[d] - 1:
            raise ValueError(f"requested an output size of {output_size}, which no input of size {input.size()} gives")
        made.append(size[d] - least)
    return made


for _d in (1, 2, 3):
    form_of_text(
        f"ConvTranspose{_d}d.forward",
        "def forward(self, input: Tensor, output_size: Optional[List[int]] = None) -> Tensor:\n"
        "    if self.padding_mode != 'zeros':\n"
        f"        raise ValueError('Only `zeros` padding mode is supported for ConvTranspose{_d}d')\n"
        "    more = transposed_padding(input, output_size, self.output_padding, self.stride, self.padding, self.kernel_size, "
        "self.dilation)\n"
        f"    return torch.conv_transpose{_d}d(input, self.weight, self.bias, self.stride, self.padding, more, self.groups, "
        "self.dilation)\n", __file__, globals())


@_of
def unfold(input: Tensor, kernel_size: BroadcastingList2[int], dilation: BroadcastingList2[int] = 1,
           padding: BroadcastingList2[int] = 0, stride: BroadcastingList2[int] = 1) -> Tensor:
    return torch.ops.aten.im2col(input, kernel_size, dilation, padding, stride)


@_of
def fold(input: Tensor, output_size: BroadcastingList2[int], kernel_size: BroadcastingList2[int],
         dilation: BroadcastingList2[int] = 1, padding: BroadcastingList2[int] = 0,
         stride: BroadcastingList2[int] = 1) -> Tensor:
    return torch.ops.aten.col2im(input, output_size, kernel_size, dilation, padding, stride)


# --- norms ---

@_of
def instance_norm(input: Tensor, running_mean: Optional[Tensor] = None, running_var: Optional[Tensor] = None,
                  weight: Optional[Tensor] = None, bias: Optional[Tensor] = None, use_input_stats: bool = True,
                  momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    if use_input_stats:
        count = 1
        for n in input.size()[2:]:
            count *= n
        if count == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.size()}")
    return torch.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True)


@_of
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    dim = input.dim()
    if dim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {dim} dimensions)")
    if input.numel() == 0:
        return input
    div = input.mul(input)
    if dim == 3:
        div = torch.ops.aten.pad(div.unsqueeze(1), [0, 0, size // 2, (size - 1) // 2])
        div = torch.ops.aten.avg_pool2d(div, [size, 1], [1, 1]).squeeze(1)
    else:
        sizes = input.size()
        div = torch.ops.aten.pad(div.view(sizes[0], 1, sizes[1], sizes[2], -1), [0, 0, 0, 0, size // 2, (size - 1) // 2])
        div = torch.ops.aten.avg_pool3d(div, [size, 1, 1], [1, 1, 1]).squeeze(1).view(sizes)
    return input / div.mul(alpha).add(k).pow(beta)


# --- activations and dropouts ---

@_of
def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.rrelu_(input, lower, upper, training)
    else:
        result = torch.rrelu(input, lower, upper, training)
    return result


@_of
def _threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    if inplace:
        result = torch.threshold_(input, threshold, value)
    else:
        result = torch.threshold(input, threshold, value)
    return result


@_of
def softmin(input: Tensor, dim: Optional[int] = None, _stacklevel: int = 3, dtype: Optional[int] = None) -> Tensor:
    return torch.nn.functional.softmax(-input, dim, _stacklevel, dtype)


for _d in (1, 2, 3):
    _dropped = "" if _d == 2 else \
        f"    if input.dim() != {_d + 2}:\n" \
        "        return torch.feature_dropout(input.unsqueeze(0), p, training).squeeze(0)\n"
    form_of_text(
        f"dropout{_d}d",
        f"def dropout{_d}d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:\n"
        "    if p < 0.0 or p > 1.0:\n"
        "        raise ValueError(f'dropout probability has to be between 0 and 1, but got {p}')\n"
        "    if inplace:\n"
        "        return torch.feature_dropout_(input, p, training)\n"
        f"{_dropped}"
        "    return torch.feature_dropout(input, p, training)\n", __file__, globals())


for _name in ("alpha_dropout", "feature_alpha_dropout"):
    form_of_text(
        _name,
        f"def {_name}(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:\n"
        "    if p < 0.0 or p > 1.0:\n"
        "        raise ValueError(f'dropout probability has to be between 0 and 1, but got {p}')\n"
        "    if inplace:\n"
        f"        return torch.{_name}_(input, p, training)\n"
        f"    return torch.{_name}(input, p, training)\n", __file__, globals())


@_of
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.")
    noise = -torch.empty_like(logits, memory_format=torch.legacy_contiguous_format).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    chosen = torch.zeros_like(logits, memory_format=torch.legacy_contiguous_format).scatter_(dim, index, 1.0)
    return chosen - soft.detach() + soft


# --- embeddings ---

@_method("EmbeddingBag.forward")
def embedding_bag_forward(self, input: Tensor, offsets: Optional[Tensor] = None, per_sample_weights: Optional[Tensor] = None) -> Tensor:
    return torch.nn.functional.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
                                             self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)


@_of
def embedding_bag(input: Tensor, weight: Tensor, offsets: Optional[Tensor] = None, max_norm: Optional[float] = None,
                  norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                  per_sample_weights: Optional[Tensor] = None, include_last_offset: bool = False,
                  padding_idx: Optional[int] = None) -> Tensor:
    if mode == "sum":
        number = 0
    elif mode == "mean":
        number = 1
    elif mode == "max":
        number = 2
        if scale_grad_by_freq:
            raise ValueError("max mode does not support scaling the gradient by the frequency")
        if sparse:
            raise ValueError("max mode does not support sparse weights")
    else:
        number = -1
        raise ValueError("mode has to be one of sum, mean or max")
    if max_norm is not None:
        torch.nn.functional._limit_rows(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
                                  f"mode='sum' (got mode='{mode}'). Please open a feature request on GitHub.")
    if input.dim() == 2 and offsets is not None:
        raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                         "sequences. However, found offsets of type Tensor")
    if input.dim() != 2 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    flat = input.reshape(-1)
    starts = flat
    if offsets is not None:
        starts = offsets
    else:
        starts = torch.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
    if per_sample_weights is not None:
        per_sample_weights = per_sample_weights.reshape(-1)
    last = include_last_offset and offsets is not None
    return torch.ops.aten.embedding_bag(weight, flat, starts, scale_grad_by_freq, number, sparse, per_sample_weights, last,
                                        padding_idx)[0]


# --- resampling ---

@_of
def _default_align_corners() -> bool:
    warnings.warn("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
                  "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.")
    return False


@_of
def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: Optional[bool] = None) -> Tensor:
    if mode != "bilinear" and mode != "nearest" and mode != "bicubic":
        raise ValueError("nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
                         f"'{mode}'")
    if padding_mode != "zeros" and padding_mode != "border" and padding_mode != "reflection":
        raise ValueError("nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but "
                         f"got: '{padding_mode}'")
    if mode == "bilinear":
        mode_enum = 0
    elif mode == "nearest":
        mode_enum = 1
    else:
        mode_enum = 2
    if padding_mode == "zeros":
        padding_enum = 0
    elif padding_mode == "border":
        padding_enum = 1
    else:
        padding_enum = 2
    if align_corners is None:
        align_corners = torch.nn._resampling._default_align_corners()
    return torch.grid_sampler(input, grid, mode_enum, padding_enum, align_corners)


@_of
def affine_grid(theta: Tensor, size: List[int], align_corners: Optional[bool] = None) -> Tensor:
    if align_corners is None:
        align_corners = torch.nn._resampling._default_align_corners()
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    n = len(size) - 2
    if n != 2 and n != 3:
        raise NotImplementedError("affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
                                  f"Got size {size}.")
    if theta.dim() != 3 or theta.shape[-2] != n or theta.shape[-1] != n + 1:
        raise ValueError(f"Expected a batch of {n}D affine matrices of shape Nx{n}x{n + 1} for size {size}. "
                         f"Got {theta.shape}.")
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    return torch.affine_grid_generator(theta, size, align_corners)


@_of
def interpolate(input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: Optional[bool] = None, recompute_scale_factor: Optional[bool] = None,
                antialias: bool = False) -> Tensor:
    plain = mode == "nearest" or mode == "area" or mode == "nearest-exact"
    if plain and align_corners is not None:
        raise ValueError("align_corners option can only be set with the interpolating modes: "
                         "linear | bilinear | bicubic | trilinear")
    aligned = align_corners is not None and align_corners
    n = input.dim() - 2
    made: List[int] = []
    factors: List[float] = []
    if isinstance(size, int):
        for _ in range(n):
            made.append(size)
    elif isinstance(size, List[int]):
        made = size
    elif isinstance(size, Tuple[int]):
        made = [size[0]]
    elif isinstance(size, Tuple[int, int]):
        made = [size[0], size[1]]
    elif isinstance(size, Tuple[int, int, int]):
        made = [size[0], size[1], size[2]]
    if isinstance(scale_factor, float):
        for _ in range(n):
            factors.append(scale_factor)
    elif isinstance(scale_factor, int):
        for _ in range(n):
            factors.append(float(scale_factor))
    elif isinstance(scale_factor, List[float]):
        factors = scale_factor
    elif isinstance(scale_factor, Tuple[float]):
        factors = [scale_factor[0]]
    elif isinstance(scale_factor, Tuple[float, float]):
        factors = [scale_factor[0], scale_factor[1]]
    elif isinstance(scale_factor, Tuple[float, float, float]):
        factors = [scale_factor[0], scale_factor[1], scale_factor[2]]
    if len(made) > 0 and len(factors) > 0:
        raise ValueError("only one of size or scale_factor should be defined")
    if len(made) == 0 and len(factors) == 0:
        raise ValueError("either size or scale_factor should be defined")
    if len(made) > 0 and len(made) != n or len(factors) > 0 and len(factors) != n:
        raise ValueError("Input and output must have the same number of spatial dimensions, but got input with spatial "
                         f"dimensions of {input.size()[2:]} and output size of {made}")
    again = recompute_scale_factor is not None and recompute_scale_factor
    if again and len(made) > 0:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    rounded = again or mode == "area"
    if len(factors) > 0 and rounded:
        for i in range(n):
            made.append(int(math.floor(float(input.size(i + 2)) * factors[i])))
    sizes: Optional[List[int]] = None
    scales: Optional[List[float]] = None
    if len(made) > 0:
        sizes = made
    if len(factors) > 0 and not rounded:
        scales = factors
    if antialias and n == 2 and mode == "bilinear":
        return torch.ops.aten._upsample_bilinear2d_aa(input, sizes, aligned, scales)
    if antialias and n == 2 and mode == "bicubic":
        return torch.ops.aten._upsample_bicubic2d_aa(input, sizes, aligned, scales)
    if antialias:
        raise ValueError("Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as "
                         "input")
    if mode == "nearest" and n == 1:
        return torch.ops.aten.upsample_nearest1d(input, sizes, scales)
    if mode == "nearest" and n == 2:
        return torch.ops.aten.upsample_nearest2d(input, sizes, scales)
    if mode == "nearest" and n == 3:
        return torch.ops.aten.upsample_nearest3d(input, sizes, scales)
    if mode == "nearest-exact" and n == 1:
        return torch.ops.aten._upsample_nearest_exact1d(input, sizes, scales)
    if mode == "nearest-exact" and n == 2:
        return torch.ops.aten._upsample_nearest_exact2d(input, sizes, scales)
    if mode == "nearest-exact" and n == 3:
        return torch.ops.aten._upsample_nearest_exact3d(input, sizes, scales)
    if mode == "area" and n == 1:
        return torch.ops.aten.adaptive_avg_pool1d(input, made)
    if mode == "area" and n == 2:
        return torch.ops.aten.adaptive_avg_pool2d(input, made)
    if mode == "area" and n == 3:
        return torch.ops.aten.adaptive_avg_pool3d(input, made)
    if mode == "linear" and n == 1:
        return torch.ops.aten.upsample_linear1d(input, sizes, aligned, scales)
    if mode == "bilinear" and n == 2:
        return torch.ops.aten.upsample_bilinear2d(input, sizes, aligned, scales)
    if mode == "bicubic" and n == 2:
        return torch.ops.aten.upsample_bicubic2d(input, sizes, aligned, scales)
    if mode == "trilinear" and n == 3:
        return torch.ops.aten.upsample_trilinear3d(input, sizes, aligned, scales)
    raise NotImplementedError("Input Error: Only 3D, 4D and 5D input Tensors supported "
                              f"(got {input.dim()}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | "
                              f"lanczos | area | nearest-exact (got {mode})")
