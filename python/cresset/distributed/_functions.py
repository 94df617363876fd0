"""Calls between ranks that are differentiated: the derivative of a call is a call."""
import cresset
from cresset.autograd import Function

from . import _functional_collectives as operators
from . import distributed_c10d as dist
from ._groups import ReduceOp

__all__ = ["all_reduce", "all_gather", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"]


def _group(group):
    return dist._group_or_default_group(group)


class _AllReduce(Function):
    """A reduction other than a sum: the cotangents of all ranks are reduced in the same way."""

    @staticmethod
    def forward(ctx, op, group, tensor):
        ctx.op, ctx.group = op, group
        result = tensor.clone(memory_format=cresset.contiguous_format)
        dist.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx, grad):
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _ReduceScatter(Function):
    """Sums of parts: the cotangent of a part is gathered by all ranks."""

    @staticmethod
    def forward(ctx, op, group, *tensors):
        ctx.group = group
        result = cresset.empty_like(tensors[0], memory_format=cresset.contiguous_format)
        dist.reduce_scatter(result, [t.contiguous() for t in tensors], op, group)
        return result

    @staticmethod
    def backward(ctx, grad):
        return (None, None, *all_gather(grad, ctx.group))


class _Reduce(Function):
    """A sum at one rank: its cotangent is copied to all."""

    @staticmethod
    def forward(ctx, dst, op, group, tensor):
        ctx.dst, ctx.group = dst, group
        result = tensor.clone(memory_format=cresset.contiguous_format)
        dist.reduce(result, dst, op, group)
        return result

    @staticmethod
    def backward(ctx, grad):
        return None, None, None, broadcast(grad, ctx.dst, ctx.group)


def all_reduce(tensor, op=ReduceOp.SUM, group=None):
    """Returns the reduction over all ranks."""
    if op == ReduceOp.SUM or op == ReduceOp.AVG:
        return operators.all_reduce(tensor, operators._reduction_name(op), _group(group))
    return _AllReduce.apply(op, _group(group), tensor)


def all_gather(tensor, group=None):
    """Returns a tuple of all ranks' tensors."""
    return operators.all_gather_tensor(tensor.unsqueeze(0), 0, _group(group)).unbind()


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None):
    """Returns this rank's part of the sums."""
    alike = len(input_list) == _group(group).size() and all(t.shape == input_list[0].shape for t in input_list)
    if alike and (op == ReduceOp.SUM or op == ReduceOp.AVG):
        whole = operators.reduce_scatter_tensor(cresset.stack(list(input_list)), operators._reduction_name(op), 0, _group(group))
        return whole.view(input_list[0].shape)
    return _ReduceScatter.apply(op, _group(group), *input_list)


def all_to_all(output_tensor_list, input_tensor_list, group=None):
    """Returns the tensors that all ranks gave this one."""
    return tuple(operators.all_to_all_lists(output_tensor_list, input_tensor_list, _group(group)))


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None):
    """Returns the parts that all ranks gave this one, as one tensor."""
    n = _group(group).size()
    outs, ins = output_split_sizes or [output.shape[0] // n] * n, input_split_sizes or [input.shape[0] // n] * n
    return operators.all_to_all_single(input, outs, ins, _group(group))


def broadcast(tensor, src, group=None):
    """Returns rank src's tensor."""
    return operators.broadcast(tensor, dist.get_group_rank(_group(group), src), _group(group))


def reduce(tensor, dst, op=ReduceOp.SUM, group=None):
    """Returns the sum at rank dst."""
    return _Reduce.apply(dst, op, _group(group), tensor)


def gather(tensor, dst=0, group=None):
    """Returns a tuple of all ranks' tensors, of zeros at ranks other than dst."""
    parts = all_gather(tensor, group)
    return parts if dist.get_rank(group) == dst else tuple(p * 0 for p in parts)


def scatter(tensors, src=0, group=None):
    """Returns this rank's tensor of rank src's list."""
    return broadcast(cresset.stack(list(tensors)), src, group)[dist.get_rank(group)]
