"""Losses of torch.nn.functional as the compiler reads them (_forms.py)."""
import warnings
from typing import List, Optional

import cresset as torch
from cresset import Tensor

from ._forms import _of, form_of_text

# Losses that are one operator: their parameters, and the operator's arguments, where `number` is that of the reduction.
_OLD = "size_average: Optional[bool] = None, reduce: Optional[bool] = None"
_LOSSES = (
    ("soft_margin_loss", "input: Tensor, target: Tensor, {old}, reduction: str = 'mean'", "input, target, number"),
    ("multilabel_margin_loss", "input: Tensor, target: Tensor, {old}, reduction: str = 'mean'", "input, target, number"),
    ("binary_cross_entropy", "input: Tensor, target: Tensor, weight: Optional[Tensor] = None, {old}, reduction: str = 'mean'",
     "input, target, weight, number"),
    ("binary_cross_entropy_with_logits", "input: Tensor, target: Tensor, weight: Optional[Tensor] = None, {old}, "
     "reduction: str = 'mean', pos_weight: Optional[Tensor] = None", "input, target, weight, pos_weight, number"),
    ("margin_ranking_loss", "input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, {old}, reduction: str = 'mean'",
     "input1, input2, target, margin, number"),
    ("hinge_embedding_loss", "input: Tensor, target: Tensor, margin: float = 1.0, {old}, reduction: str = 'mean'",
     "input, target, margin, number"),
    ("cosine_embedding_loss", "input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, {old}, "
     "reduction: str = 'mean'", "input1, input2, target, margin, number"),
    ("multi_margin_loss", "input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Optional[Tensor] = None, "
     "{old}, reduction: str = 'mean'", "input, target, p, margin, weight, number"),
    ("triplet_margin_loss", "anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, "
     "eps: float = 1e-6, swap: bool = False, {old}, reduction: str = 'mean'",
     "anchor, positive, negative, margin, p, eps, swap, number"),
    ("poisson_nll_loss", "input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, "
     "size_average: Optional[bool] = None, eps: float = 1e-8, reduce: Optional[bool] = None, reduction: str = 'mean'",
     "input, target, log_input, full, eps, number"),
    ("ctc_loss", "log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int = 0, "
     "reduction: str = 'mean', zero_infinity: bool = False",
     "log_probs, targets, input_lengths, target_lengths, blank, number, zero_infinity"))

_legacy = ("    if size_average is not None or reduce is not None:\n"
           "        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)\n")
for _name, _parameters, _arguments in _LOSSES:
    form_of_text(_name, f"def {_name}({_parameters.format(old=_OLD)}) -> Tensor:\n"
                        f"{_legacy if '{old}' in _parameters or 'size_average' in _parameters else ''}"
                        "    number = torch.nn._reduction.get_enum(reduction)\n"
                        f"    return torch.ops.aten.{_name}({_arguments})\n", __file__, globals())


@_of
def _broadcast(input: Tensor, target: Tensor) -> List[Tensor]:
    if target.size() != input.size():
        warnings.warn(f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). This will "
                      "likely lead to incorrect results due to broadcasting. Please ensure they have the same size.")
    return torch.broadcast_tensors([input, target])


@_of
def _weighted(loss: Tensor, weight: Tensor, input: Tensor, reduction: str, divide_by_weight: bool) -> Tensor:
    if weight.size() != input.size():
        raise ValueError("Weights and input must have the same size.")
    loss = loss * weight
    if reduction == "none":
        return loss
    elif reduction == "sum":
        return torch.sum(loss)
    elif reduction == "mean":
        if divide_by_weight:
            return torch.sum(loss) / torch.sum(weight)
        return torch.mean(loss)
    else:
        raise ValueError(f"Invalid reduction mode: {reduction}. Expected one of 'none', 'mean', 'sum'.")


@_of
def mse_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
             reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    expanded = torch.nn._losses._broadcast(input, target)
    if weight is not None:
        return torch.nn._losses._weighted(torch.pow(expanded[0] - expanded[1], 2), weight, input, reduction, True)
    return torch.ops.aten.mse_loss(expanded[0], expanded[1], torch.nn._reduction.get_enum(reduction))


@_of
def l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
            reduction: str = "mean", weight: Optional[Tensor] = None) -> Tensor:
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    expanded = torch.nn._losses._broadcast(input, target)
    if weight is not None:
        return torch.nn._losses._weighted(torch.abs(expanded[0] - expanded[1]), weight, input, reduction, True)
    return torch.ops.aten.l1_loss(expanded[0], expanded[1], torch.nn._reduction.get_enum(reduction))


@_of
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
                   reduction: str = "mean", beta: float = 1.0) -> Tensor:
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    number = torch.nn._reduction.get_enum(reduction)
    expanded = torch.nn._losses._broadcast(input, target)
    if beta == 0.0:
        return torch.ops.aten.l1_loss(expanded[0], expanded[1], number)
    return torch.ops.aten.smooth_l1_loss(expanded[0], expanded[1], number, beta)


@_of
def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Optional[Tensor] = None) -> Tensor:
    number = torch.nn._reduction.get_enum(reduction)
    expanded = torch.nn._losses._broadcast(input, target)
    if weight is None:
        return torch.ops.aten.huber_loss(expanded[0], expanded[1], number, delta)
    loss = torch.ops.aten.huber_loss(expanded[0], expanded[1], 0, delta)
    return torch.nn._losses._weighted(loss, weight, input, reduction, False)


@_of
def kl_div(input: Tensor, target: Tensor, size_average: Optional[bool] = None, reduce: Optional[bool] = None,
           reduction: str = "mean", log_target: bool = False) -> Tensor:
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    number = torch.nn._reduction.get_enum("sum" if reduction == "batchmean" else reduction)
    reduced = torch.ops.aten.kl_div(input, target, number, log_target=log_target)
    if reduction == "batchmean" and input.dim() != 0:
        reduced = reduced / input.size(0)
    return reduced


@_of
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Optional[Tensor] = None,
                                size_average: Optional[bool] = None, reduce: Optional[bool] = None,
                                reduction: str = "mean") -> Tensor:
    if size_average is not None or reduce is not None:
        reduction = torch.nn._reduction.legacy_get_string(size_average, reduce)
    loss = -(target * torch.ops.aten.log_sigmoid(input) + (1 - target) * torch.ops.aten.log_sigmoid(-input))
    if weight is not None:
        loss = loss * weight
    rows = loss.sum(dim=input.dim() - 1) / input.size(input.dim() - 1)
    if reduction == "none":
        ret = rows
    elif reduction == "mean":
        ret = rows.mean()
    elif reduction == "sum":
        ret = rows.sum()
    else:
        ret = rows
        raise ValueError(reduction + " is not valid")
    return ret
