"""Cross entropy of class scores that are divided along the classes, without a rank that has all of them."""
from contextlib import contextmanager

from .... import ops
from .. import _dispatch
from .._api import DTensor
from .._redistribute import _reduce, sizes_at
from .._dtensor_spec import DTensorSpec, TensorMeta, row_major
from ..placement_types import Replicate, Shard

__all__ = ["loss_parallel"]


def _class_dim(x, dim):
    """Returns the dim of the mesh that divides the classes of a DTensor that is otherwise whole, or None."""
    if not isinstance(x, DTensor) or not x.dim():
        return None
    dim = dim % x.dim()
    found = [i for i, p in enumerate(x.placements) if p == Shard(dim)]
    rest = [p for i, p in enumerate(x.placements) if i not in found[:1]]
    return found[0] if len(found) == 1 and all(p.is_replicate() for p in rest) else None


def _divided_by(x, dim):
    """Returns the dim of the mesh that divides the classes; raises where none does."""
    i = _class_dim(x, dim)
    if i is None:
        raise ValueError(f"loss_parallel() should be enabled only when the input tensor is sharded on dimension {dim % max(x.dim(), 1)}.")
    return i


def _over(x, op, mesh, i):
    return _reduce(x, op, mesh.get_group(i), mesh.size(i))


def _whole(x, mesh):
    """Returns a DTensor of a tensor that all ranks have."""
    return DTensor(x, DTensorSpec(mesh, (Replicate(),) * mesh.ndim, TensorMeta(x.shape, x.stride(), x.dtype)))


def _like(local, x):
    return DTensor(local, DTensorSpec(x.device_mesh, x.placements, TensorMeta(x.shape, row_major(x.shape), local.dtype)))


def _extreme(local, dim):
    """Returns maxima; minus infinity of a part without elements."""
    return local.amax(dim, True) if local.shape[dim] else local.new_full(
        [1 if d == dim else n for d, n in enumerate(local.shape)], -float("inf"))


def _log_softmax(x, dim, half_to_float):
    i, dim = _divided_by(x, dim), dim % max(x.dim(), 1)
    local = x._local_tensor.float() if half_to_float else x._local_tensor
    c = local - _over(_extreme(local, dim), "max", x.device_mesh, i)
    return _like(c - _over(c.exp().sum(dim, True), "sum", x.device_mesh, i).log(), x)


def _log_softmax_backward(grad, output, dim, input_dtype):
    i, dim = _class_dim(output, dim), dim % max(output.dim(), 1)
    if i is None or not isinstance(grad, DTensor) or grad.placements != output.placements:
        return NotImplemented
    g, y = grad._local_tensor, output._local_tensor
    total, version = getattr(grad, "_class_sums", (None, -1))  # what nll_loss's derivative knows without the other ranks
    if total is None or version != g._version:
        total = _over(g.sum(dim, True), "sum", output.device_mesh, i)
    return _like((g - y.exp() * total).to(input_dtype), output)


def _targets(x, target, weight, ignored):
    """Returns what a loss needs of whole targets: this rank's classes, the rows of these, the rows that count, their weights."""
    mesh = x.device_mesh
    i = _class_dim(x, -1)
    sizes = sizes_at(x.shape, mesh, x.placements, mesh.ndim)
    n, first = Shard.local_shard_size_and_offset(x.shape[-1], mesh.size(i), mesh.get_coordinate()[i])
    target = target._whole() if isinstance(target, DTensor) else target
    weight = weight._whole() if isinstance(weight, DTensor) else weight
    target = target.reshape(-1)
    kept = target != ignored
    rows = kept.to(x.dtype) if weight is None else weight[target.masked_fill(~kept, 0)] * kept
    own = kept & (target >= first) & (target < first + n)
    return (target - first).masked_fill(~own, 0), own, kept, rows, sizes


def _nll_loss(x, target, weight, reduction, ignored):
    i = _divided_by(x, -1)
    classes, own, _, rows, _ = _targets(x, target, weight, ignored)
    local = x._local_tensor.reshape(len(own), -1)
    picked = local.gather(1, classes.unsqueeze(1)).squeeze(1) if local.shape[1] else local.new_zeros(len(own))
    picked = _over(-picked.masked_fill(~own, 0) * rows, "sum", x.device_mesh, i)
    total = rows.sum()
    if reduction == 0:
        return _whole(picked.reshape(x.shape[:-1]), x.device_mesh), _whole(rows.new_zeros(()), x.device_mesh)
    loss = picked.sum() / total if reduction == 1 else picked.sum()
    return _whole(loss, x.device_mesh), _whole(total, x.device_mesh)


def _nll_loss_backward(grad, x, target, weight, reduction, ignored, total):
    i = _class_dim(x, -1)
    if i is None:
        return NotImplemented
    classes, own, kept, rows, sizes = _targets(x, target, weight, ignored)
    grad, total = (y._whole() if isinstance(y, DTensor) else y for y in (grad, total))
    values = -grad.reshape(-1) * rows
    values = values / total if reduction == 1 else values
    made = x._local_tensor.new_zeros((len(own), sizes[-1]))
    if sizes[-1]:
        made.scatter_(1, classes.unsqueeze(1), values.masked_fill(~own, 0).to(made.dtype).unsqueeze(1))
    made = _like(made.reshape(sizes), x)
    made._class_sums = values.masked_fill(~kept, 0).to(made.dtype).reshape([*sizes[:-1], 1]), made._local_tensor._version
    return made


_CALLS = {ops.aten._log_softmax.default: _log_softmax, ops.aten._log_softmax_backward_data.default: _log_softmax_backward,
          ops.aten.nll_loss_forward.default: _nll_loss, ops.aten.nll_loss_backward.default: _nll_loss_backward}


@contextmanager
def loss_parallel():
    """Inside, cross_entropy of scores that are divided along the classes sends numbers of rows in place of the scores.  Backward
    belongs inside, too."""
    before = dict(_dispatch.calls)
    _dispatch.calls.update(_CALLS)
    try:
        yield
    finally:
        _dispatch.calls.clear()
        _dispatch.calls.update(before)
