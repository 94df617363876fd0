"""Calls between ranks as operators: results are new tensors, and autograd, fakes, capture and the compiler know the calls.

An operator `_c10d_functional.NAME` starts the call and returns; wait_tensor waits for it, and is an operator as well, so a
compiled program may compute in between.  The functions below wait.  Their derivatives are calls again: all_reduce of
cotangents for all_reduce, reduce_scatter for all_gather and back, all_to_all for itself.
"""
import threading

import cresset

from . import distributed_c10d as dist
from ._groups import ReduceOp

__all__ = ["wait_tensor", "broadcast", "all_reduce", "all_gather_tensor", "all_gather_tensor_autograd", "reduce_scatter_tensor",
           "reduce_scatter_tensor_autograd", "all_reduce_coalesced", "all_gather_into_tensor_coalesced",
           "reduce_scatter_tensor_coalesced", "all_to_all_single", "all_to_all_single_autograd", "permute_tensor",
           "AsyncCollectiveTensor", "all_gather_tensor_inplace", "reduce_scatter_tensor_inplace", "all_reduce_inplace",
           "all_to_all_inplace", "all_gather_inplace"]


# --- groups ------------------------------------------------------------------------------------------------------

def _resolve_process_group(group_name):
    """Returns the group of a name."""
    return dist._resolve_process_group(group_name)


def _resolve_group(group, tag=""):
    """Returns the group that a program means: a group, a list of ranks, a mesh of one dim, or a mesh and its dim."""
    from .device_mesh import DeviceMesh
    if isinstance(group, str):
        return _resolve_process_group(group)
    if group is None or isinstance(group, dist.ProcessGroup):
        return dist._group_or_default_group(group)
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        return group.get_group()
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, (list, tuple)):
        ranks = [r for row in group for r in (row if isinstance(row, (list, tuple)) else [row])]
        for pg, numbers in dist._world.pg_group_ranks.items():
            if list(numbers) == ranks:
                return pg
        return dist.new_group(ranks, use_local_synchronization=True)
    raise ValueError("Invalid type for group, must be one of List, Processgroup, DeviceMesh or (DeviceMesh, int).")


def _resolve_group_name(group, tag=""):
    """Returns the name of the group that a program means."""
    return dist._world.pg_names[_resolve_group(group, tag)]


# --- operators ---------------------------------------------------------------------------------------------------

_REDUCTIONS = {"sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN, "max": ReduceOp.MAX,
               "band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR}
_pending = {}  # address of the result's bytes: (work, the result)
_pending_lock = threading.Lock()


def _reduction(name):
    if name.lower() not in _REDUCTIONS:
        raise ValueError(f"Unknown reduce operation: {name}")
    return _REDUCTIONS[name.lower()]


def _started(result, work):
    """Remembers the work of a result until wait_tensor."""
    if work is not None and result.numel():
        with _pending_lock:
            before = _pending.pop(result.data_ptr(), None)
            _pending[result.data_ptr()] = (work, result)
        if before is not None:
            before[0].wait()
    elif work is not None:
        work.wait()
    return result


def _register_work(tensor, work):
    """Makes wait_tensor of a tensor wait for a work."""
    _started(tensor, work)


def _get_work_registry_size():
    """Returns the number of calls that nobody has waited for."""
    return len(_pending)


def _wait(tensor):
    with _pending_lock:
        found = _pending.pop(tensor.data_ptr(), None) if tensor.numel() else None
    if found is not None:
        found[0].wait()


_libraries = {name: cresset.library.Library(name, "DEF") for name in ("_c10d_functional", "_c10d_functional_autograd")}


def _define(schema, run, fake, backward=None, setup=None, space="_c10d_functional"):
    """Defines an operator: run(args) computes, fake(args) gives sizes alone, backward(ctx, grads) the derivative."""
    name, library = schema.partition("(")[0], _libraries[space]
    library.define(schema)
    library.impl(name, run, "CompositeExplicitAutograd")
    cresset.library.register_fake(f"{space}::{name}", fake)
    cresset.library._find(f"{space}::{name}").make_opaque()
    if backward is not None:
        cresset.library.register_autograd(f"{space}::{name}", backward, setup_context=setup)


def _keep_arguments(ctx, inputs, output):
    ctx.arguments = inputs[1:]


def _op(name):
    return getattr(cresset.ops._c10d_functional, name)


def _like(x, rows=None):
    return x.new_empty(x.shape if rows is None else (rows, *x.shape[1:]))


def _contiguous(x):
    return x.contiguous().resolve_conj().resolve_neg()


# all_reduce
def _run_all_reduce(x, reduce_op, group_name):
    return _run_all_reduce_inplace(x.clone(memory_format=cresset.contiguous_format), reduce_op, group_name)


def _run_all_reduce_inplace(x, reduce_op, group_name):
    return _started(x, dist.all_reduce(x, _reduction(reduce_op), _resolve_process_group(group_name), async_op=True))


def _all_reduce_backward(ctx, grad):
    reduce_op, group_name = ctx.arguments
    if reduce_op.lower() not in ("sum", "avg"):
        raise RuntimeError(f"all_reduce with '{reduce_op}' has no derivative; 'sum' and 'avg' have")
    return _finished(_op("all_reduce")(_contiguous(grad), reduce_op, group_name)), None, None


_define("all_reduce(Tensor input, str reduce_op, str group_name) -> Tensor", _run_all_reduce,
        lambda x, reduce_op, group_name: _like(x), _all_reduce_backward, _keep_arguments)
_define("all_reduce_(Tensor(a!) input, str reduce_op, str group_name) -> Tensor(a!)", _run_all_reduce_inplace,
        lambda x, reduce_op, group_name: x)


# all_gather and reduce_scatter, along dim 0
def _run_all_gather(x, group_size, group_name):
    out = _like(x, x.shape[0] * group_size) if x.dim() else x.new_empty((group_size,))
    work = dist.all_gather_into_tensor(out, _contiguous(x), _resolve_process_group(group_name), async_op=True)
    return _started(out, work)


def _run_reduce_scatter(x, reduce_op, group_size, group_name):
    if x.shape[0] % group_size:
        raise RuntimeError(f"input dimension 0 ({x.shape[0]}) must be a multiple of group_size {group_size}")
    out = _like(x, x.shape[0] // group_size)
    work = dist.reduce_scatter_tensor(out, _contiguous(x), _reduction(reduce_op), _resolve_process_group(group_name),
                                      async_op=True)
    return _started(out, work)


def _all_gather_backward(ctx, grad):
    size, group_name = ctx.arguments
    return _finished(_op("reduce_scatter_tensor")(_contiguous(grad), "sum", size, group_name)), None, None


def _reduce_scatter_backward(ctx, grad):
    reduce_op, size, group_name = ctx.arguments
    if reduce_op.lower() not in ("sum", "avg"):
        raise RuntimeError(f"reduce_scatter_tensor with '{reduce_op}' has no derivative; 'sum' and 'avg' have")
    whole = _finished(_op("all_gather_into_tensor")(_contiguous(grad), size, group_name))
    return whole / size if reduce_op.lower() == "avg" else whole, None, None, None


def _fake_all_gather(x, group_size, group_name):
    return _like(x, x.shape[0] * group_size) if x.dim() else x.new_empty((group_size,))


def _fake_reduce_scatter(x, reduce_op, group_size, group_name):
    return _like(x, x.shape[0] // group_size)


# all_to_all, of rows
def _run_all_to_all(x, output_split_sizes, input_split_sizes, group_name):
    out = _like(x, sum(output_split_sizes))
    work = dist.all_to_all_single(out, _contiguous(x), list(output_split_sizes), list(input_split_sizes),
                                  _resolve_process_group(group_name), async_op=True)
    return _started(out, work)


def _all_to_all_backward(ctx, grad):
    outs, ins, group_name = ctx.arguments
    return _finished(_op("all_to_all_single")(_contiguous(grad), ins, outs, group_name)), None, None, None


def _fake_all_to_all(x, output_split_sizes, input_split_sizes, group_name):
    return _like(x, sum(output_split_sizes))


for _space in _libraries:
    _define("all_gather_into_tensor(Tensor input, int group_size, str group_name) -> Tensor", _run_all_gather,
            _fake_all_gather, _all_gather_backward, _keep_arguments, _space)
    _define("reduce_scatter_tensor(Tensor input, str reduce_op, int group_size, str group_name) -> Tensor",
            _run_reduce_scatter, _fake_reduce_scatter, _reduce_scatter_backward, _keep_arguments, _space)
    _define("all_to_all_single(Tensor input, SymInt[] output_split_sizes, SymInt[] input_split_sizes, str group_name) -> Tensor",
            _run_all_to_all, _fake_all_to_all, _all_to_all_backward, _keep_arguments, _space)


# broadcast
def _run_broadcast(x, src, group_name):
    return _run_broadcast_inplace(x.clone(memory_format=cresset.contiguous_format), src, group_name)


def _run_broadcast_inplace(x, src, group_name):
    return _started(x, dist.broadcast(x, group=_resolve_process_group(group_name), group_src=src, async_op=True))


def _broadcast_backward(ctx, grad):
    src, group_name = ctx.arguments
    whole = _finished(_op("all_reduce")(_contiguous(grad), "sum", group_name))
    return whole if _resolve_process_group(group_name).rank() == src else cresset.zeros_like(whole), None, None


_define("broadcast(Tensor input, int src, str group_name) -> Tensor", _run_broadcast,
        lambda x, src, group_name: _like(x), _broadcast_backward, _keep_arguments)
_define("broadcast_(Tensor(a!) input, int src, str group_name) -> Tensor(a!)", _run_broadcast_inplace,
        lambda x, src, group_name: x)


# waiting
def _run_wait(x):
    _wait(x)
    return x.view_as(x)


_define("wait_tensor(Tensor tensor) -> Tensor", _run_wait, _like, lambda ctx, grad: grad)


# lists
def _run_list(run):
    return lambda xs, *arguments: [run(x, *arguments) for x in xs]


_define("all_reduce_coalesced(Tensor[] inputs, str reduce_op, str group_name) -> Tensor[]", _run_list(_run_all_reduce),
        lambda xs, reduce_op, group_name: [_like(x) for x in xs])
_define("all_gather_into_tensor_coalesced(Tensor[] inputs, int group_size, str group_name) -> Tensor[]",
        _run_list(_run_all_gather), lambda xs, size, group_name: [_fake_all_gather(x, size, group_name) for x in xs])
_define("reduce_scatter_tensor_coalesced(Tensor[] inputs, str reduce_op, int group_size, str group_name) -> Tensor[]",
        _run_list(_run_reduce_scatter), lambda xs, op, size, group_name: [_fake_reduce_scatter(x, op, size, group_name) for x in xs])


# --- functions ---------------------------------------------------------------------------------------------------

class AsyncCollectiveTensor(cresset.Tensor):
    """A result that is waited for at its first use.  The functions here return results that have been waited for, so none
    of them is of this class; it stands for programs that ask."""

    def __new__(cls, elem):
        raise TypeError("results of functional collectives are plain tensors")


def wait_tensor(tensor):
    """Waits for the call that makes a tensor, and returns it."""
    return _op("wait_tensor")(tensor)


def _finished(tensor):
    """Returns a result that is there: in a recorded program by an operator, else at once."""
    if cresset.compiler.is_compiling():
        return wait_tensor(tensor)
    _wait(tensor)
    return tensor


def broadcast(self, src, group, tag=""):
    """Returns rank src's tensor; src is a number of the group."""
    return _finished(_op("broadcast")(self, src, _resolve_group_name(group, tag)))


def all_reduce(self, reduceOp, group, tag=""):
    """Returns the reduction over all ranks; reduceOp is "sum", "avg", "min", ..."""
    return _finished(_op("all_reduce")(self, reduceOp.lower(), _resolve_group_name(group, tag)))


def _gathered(self, gather_dim, group, tag):
    pg = _resolve_group(group, tag)
    result = _finished(_op("all_gather_into_tensor")(self.contiguous(), pg.size(), dist._world.pg_names[pg]))
    return cresset.cat(result.chunk(pg.size(), 0), gather_dim) if gather_dim else result


def all_gather_tensor(self, gather_dim, group, tag=""):
    """Returns all ranks' tensors, joined along a dim."""
    return _gathered(self, gather_dim, group, tag)


def all_gather_tensor_autograd(self, gather_dim, group, tag=""):
    """The same: all_gather_tensor has a derivative, too."""
    return _gathered(self, gather_dim, group, tag)


def _scattered(self, reduceOp, scatter_dim, group, tag):
    pg = _resolve_group(group, tag)
    if self.size(scatter_dim) % pg.size():
        raise AssertionError(f"input dimension {scatter_dim} ({self.size(scatter_dim)}) must be a multiple of group_size {pg.size()}")
    if scatter_dim:
        self = cresset.cat(self.chunk(pg.size(), scatter_dim))
    return _finished(_op("reduce_scatter_tensor")(self, reduceOp.lower(), pg.size(), dist._world.pg_names[pg]))


def reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=""):
    """Returns this rank's part, along a dim, of the reduction over all ranks."""
    return _scattered(self, reduceOp, scatter_dim, group, tag)


def reduce_scatter_tensor_autograd(self, reduceOp, scatter_dim, group, tag=""):
    """The same: reduce_scatter_tensor has a derivative, too."""
    return _scattered(self, reduceOp, scatter_dim, group, tag)


def all_reduce_coalesced(self, reduceOp, group, tag=""):
    """Returns the reductions of several tensors."""
    return [_finished(t) for t in _op("all_reduce_coalesced")(self, reduceOp.lower(), _resolve_group_name(group, tag))]


def all_gather_into_tensor_coalesced(self, group, tag=""):
    """Returns all ranks' tensors, for several tensors."""
    pg = _resolve_group(group, tag)
    return [_finished(t) for t in _op("all_gather_into_tensor_coalesced")(self, pg.size(), dist._world.pg_names[pg])]


def reduce_scatter_tensor_coalesced(inputs, reduceOp, scatter_dim, group, tag=""):
    """Returns this rank's parts of the reductions of several tensors."""
    pg = _resolve_group(group, tag)
    inputs = [cresset.cat(x.chunk(pg.size(), dim)) if dim else x for x, dim in zip(inputs, scatter_dim)]
    return [_finished(t) for t in _op("reduce_scatter_tensor_coalesced")(inputs, reduceOp.lower(), pg.size(),
                                                                         dist._world.pg_names[pg])]


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=""):
    """Returns the rows that all ranks gave this one."""
    pg = _resolve_group(group, tag)
    if output_split_sizes is None or input_split_sizes is None:
        if output_split_sizes is not None or input_split_sizes is not None:
            raise AssertionError("output_split_sizes and input_split_sizes must either be specified together or both set to None")
        output_split_sizes = input_split_sizes = [self.shape[0] // pg.size()] * pg.size()
    return _finished(_op("all_to_all_single")(self, output_split_sizes, input_split_sizes, dist._world.pg_names[pg]))


def all_to_all_single_autograd(self, output_split_sizes, input_split_sizes, group, tag=""):
    """The same: all_to_all_single has a derivative, too."""
    return all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag)


def permute_tensor(self, src_dst, group, tag=""):
    """Returns the tensor of the rank that sends to this one; src_dst[i] is the rank that i sends to."""
    pg = _resolve_group(group, tag)
    ins, outs = [0] * pg.size(), [0] * pg.size()
    for src, dst in enumerate(src_dst):
        if src == pg.rank():
            ins[dst] = self.shape[0]
        if dst == pg.rank():
            outs[src] = self.shape[0]
    return all_to_all_single(self, outs, ins, pg, tag)


# --- torch.distributed's calls in recorded programs: the parameters are those of the calls -----------------------------

def all_gather_tensor_inplace(output_tensor, input_tensor, group=None, async_op=False, tag="", gather_dim=0):
    """Fills output_tensor with all ranks' tensors."""
    made = all_gather_tensor(input_tensor, gather_dim, group, tag)
    return output_tensor.copy_(made.view(output_tensor.shape))


def reduce_scatter_tensor_inplace(output, input, op=ReduceOp.SUM, group=None, async_op=False, scatter_dim=0, tag=""):
    """Fills output with this rank's part of the reduction."""
    rows = input.view(_resolve_group(group, tag).size(), -1) if input.numel() else input
    return output.copy_(reduce_scatter_tensor(rows, _reduction_name(op), scatter_dim, group, tag).view(output.shape))


def all_reduce_inplace(tensor, op=ReduceOp.SUM, group=None, async_op=False, tag=""):
    """Reduces a tensor over all ranks, in place."""
    return tensor.copy_(all_reduce(tensor, _reduction_name(op), group, tag))


def broadcast_inplace(tensor, src=None, group=None, async_op=False, group_src=None):
    """Copies a rank's tensor to all ranks, in place."""
    pg = _resolve_group(group)
    return tensor.copy_(broadcast(tensor, dist._canonicalize_group_rank(pg, src, group_src), pg))


def all_to_all_inplace(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False, tag=""):
    """Fills output with the rows that all ranks gave this one."""
    return output.copy_(all_to_all_single(input, output_split_sizes, input_split_sizes, group, tag))


def all_gather_inplace(tensor_list, tensor, group=None, async_op=False, tag=""):
    """Fills tensor_list with all ranks' tensors of one size."""
    if any(t.numel() != tensor.numel() for t in tensor_list):
        return NotImplemented
    whole = all_gather_tensor(tensor.reshape(1, -1), 0, group, tag)
    for part, made in zip(tensor_list, whole):
        part.copy_(made.view(part.shape))
    return tensor_list


def _reduction_name(op):
    """Returns the name of a reduction for the operators."""
    if isinstance(op, str):
        return op
    found = [name for name, known in _REDUCTIONS.items() if op == known]
    if not found:
        raise ValueError(f"the reduction {op} has no operator")
    return found[0]


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
