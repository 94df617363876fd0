"""Calls between ranks as operators: results are new tensors, and autograd, fakes, capture and the compiler know the calls.

An operator `_c10d_functional.NAME` starts the call and returns; wait_tensor waits for it, and is an operator as well, so a
compiled program may compute in between.  The functions below wait.  Their derivatives are calls again: all_reduce of
cotangents for all_reduce, reduce_scatter for all_gather and back, all_to_all for itself.
"""
import cresset

from . import distributed_c10d as dist
from ._gloo import ProcessGroupGloo
from ._groups import ReduceOp, _Several

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
    """Returns the name of the group that a program means.  A name is looked up by the call: tensors of meta need no group."""
    return group if isinstance(group, str) else _name_of(_resolve_group(group, tag))


def _name_of(pg):
    name = dist._world.pg_names.get(pg)
    if name is None:  # the group was destroyed
        raise dist._no_such_name(pg.group_name)
    return name


# --- operators ---------------------------------------------------------------------------------------------------
# They are entries of the operator table (collective.op): `_c10d_functional.NAME` starts a call, and wait_tensor waits for it.

_REDUCTIONS = {"sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN, "max": ReduceOp.MAX,
               "band": ReduceOp.BAND, "bor": ReduceOp.BOR, "bxor": ReduceOp.BXOR}


def _find(name, device):
    """Returns the handle of the group's backend for a device, or None where the group is a program's class, and the rank."""
    pg = _resolve_process_group(name)
    own = pg._handle is not None and type(pg) in (dist.ProcessGroup, ProcessGroupGloo)
    return pg._by_device.get(device, pg._handle) if own else None, pg.rank()


def _start(kind, reduction, root, name, calls):
    """Starts calls of a group that is a program's class; each is (input, output, rows for each rank, rows of each rank)."""
    pg, works = _resolve_process_group(name), []
    if reduction and reduction not in _REDUCTIONS:
        raise RuntimeError(f"Unrecognized reduce_op: {reduction}")
    for x, out, ins, outs in calls:
        if kind == "all_reduce":
            works.append(dist.all_reduce(out, _REDUCTIONS[reduction], pg, async_op=True))
        elif kind == "broadcast":
            works.append(dist.broadcast(out, group=pg, group_src=root, async_op=True))
        elif kind == "all_gather":
            works.append(dist.all_gather_into_tensor(out, x, pg, async_op=True))
        elif kind == "reduce_scatter":
            works.append(dist.reduce_scatter_tensor(out, x, _REDUCTIONS[reduction], pg, async_op=True))
        else:
            works.append(dist.all_to_all_single(out, x, outs, ins, pg, async_op=True))
    works = [work for work in works if work is not None]
    return works[0] if len(works) == 1 else _Several(works) if works else None


cresset._C._collective_set(_find, _start)


def _register_work(tensor, work):
    """Makes wait_tensor of a tensor wait for a work."""
    cresset._C._collective_register(tensor, work)


def _get_work_registry_size():
    """Returns the number of calls that nobody has waited for."""
    return cresset._C._collective_pending()


def _op(name):
    return getattr(cresset.ops._c10d_functional, name)


# --- functions ---------------------------------------------------------------------------------------------------

class AsyncCollectiveTensor(cresset.Tensor):
    """A result that is waited for at its first use.  The functions here return results that have been waited for, so none
    of them is of this class; it stands for programs that ask."""

    def __new__(cls, elem):
        raise TypeError("results of functional collectives are plain tensors")


def wait_tensor(tensor):
    """Waits for the call that makes a tensor, and returns it."""
    return _op("wait_tensor")(tensor)


def broadcast(self, src, group, tag=""):
    """Returns rank src's tensor; src is a number of the group."""
    return wait_tensor(_op("broadcast")(self, src, _resolve_group_name(group, tag)))


def all_reduce(self, reduceOp, group, tag=""):
    """Returns the reduction over all ranks; reduceOp is "sum", "avg", "min", ..."""
    return wait_tensor(_op("all_reduce")(self, reduceOp.lower(), _resolve_group_name(group, tag)))


def _gathered(self, gather_dim, group, tag):
    pg = _resolve_group(group, tag)
    result = wait_tensor(_op("all_gather_into_tensor")(self.contiguous(), pg.size(), _name_of(pg)))
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
    return wait_tensor(_op("reduce_scatter_tensor")(self, reduceOp.lower(), pg.size(), _name_of(pg)))


def reduce_scatter_tensor(self, reduceOp, scatter_dim, group, tag=""):
    """Returns this rank's part, along a dim, of the reduction over all ranks."""
    return _scattered(self, reduceOp, scatter_dim, group, tag)


def reduce_scatter_tensor_autograd(self, reduceOp, scatter_dim, group, tag=""):
    """The same: reduce_scatter_tensor has a derivative, too."""
    return _scattered(self, reduceOp, scatter_dim, group, tag)


def all_reduce_coalesced(self, reduceOp, group, tag=""):
    """Returns the reductions of several tensors."""
    return [wait_tensor(t) for t in _op("all_reduce_coalesced")(self, reduceOp.lower(), _resolve_group_name(group, tag))]


def all_gather_into_tensor_coalesced(self, group, tag=""):
    """Returns all ranks' tensors, for several tensors."""
    pg = _resolve_group(group, tag)
    return [wait_tensor(t) for t in _op("all_gather_into_tensor_coalesced")(self, pg.size(), _name_of(pg))]


def reduce_scatter_tensor_coalesced(inputs, reduceOp, scatter_dim, group, tag=""):
    """Returns this rank's parts of the reductions of several tensors."""
    pg = _resolve_group(group, tag)
    if len(scatter_dim) != len(inputs):
        raise AssertionError(f"Length of scatter_dim ({len(scatter_dim)}) must equal length of inputs ({len(inputs)})")
    inputs = [cresset.cat(x.chunk(pg.size(), dim)) if dim else x for x, dim in zip(inputs, scatter_dim)]
    return [wait_tensor(t) for t in _op("reduce_scatter_tensor_coalesced")(inputs, reduceOp.lower(), pg.size(),
                                                                         _name_of(pg))]


def all_to_all_single(self, output_split_sizes, input_split_sizes, group, tag=""):
    """Returns the rows that all ranks gave this one."""
    pg = _resolve_group(group, tag)
    if output_split_sizes is None or input_split_sizes is None:
        if output_split_sizes is not None or input_split_sizes is not None:
            raise AssertionError("output_split_sizes and input_split_sizes must either be specified together or both set to None")
        output_split_sizes = input_split_sizes = [self.shape[0] // pg.size()] * pg.size()
    return wait_tensor(_op("all_to_all_single")(self, output_split_sizes, input_split_sizes, _name_of(pg)))


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


def reduce_scatter_inplace(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Fills output with the reduction of this rank's tensors of the lists."""
    if any(t.shape != output.shape for t in input_list) or len(input_list) != _resolve_group(group).size():
        return NotImplemented
    whole = reduce_scatter_tensor(cresset.stack(list(input_list)), _reduction_name(op), 0, group)
    return output.copy_(whole.view(output.shape))


def all_to_all_lists(outputs, inputs, group=None):
    """Returns the elements that all ranks give this one, for tensors of these sizes."""
    flat = cresset.cat([t.reshape(-1) for t in inputs])
    made = all_to_all_single(flat, [t.numel() for t in outputs], [t.numel() for t in inputs], group)
    return [part.view(t.shape) for part, t in zip(made.split([t.numel() for t in outputs]), outputs)]


def all_to_all_list_inplace(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Fills a list with the tensors that all ranks give this one."""
    n = _resolve_group(group).size()
    if len(output_tensor_list) != n or len(input_tensor_list) != n:
        return NotImplemented
    for out, made in zip(output_tensor_list, all_to_all_lists(output_tensor_list, input_tensor_list, group)):
        out.copy_(made)
    return output_tensor_list


def all_reduce_list_inplace(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces tensors over all ranks, in place."""
    tensors = [tensors] if isinstance(tensors, cresset.Tensor) else tensors
    for tensor, made in zip(tensors, all_reduce_coalesced(list(tensors), _reduction_name(op), group)):
        tensor.copy_(made)
    return tensors


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
