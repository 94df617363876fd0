"""Names of the reducer that programs use: buckets of gradients, kinds of built-in hooks."""
import enum

import cresset

from .. import _C
from . import distributed_c10d as dist
from ._gloo import ProcessGroupGloo
from ._groups import ProcessGroup

_DEFAULT_FIRST_BUCKET_BYTES = 1024 * 1024
_DEFAULT_BUCKET_BYTES = 25 * 1024 * 1024


class Reducer:
    """Averages the gradients of parameters over the ranks of a group during backward, without a module.

    bucket_indices has each parameter's number once, in buckets of one dtype.  It is checked, and decides no more: buckets are
    full from bucket_bytes_cap bytes on, the first one from first_bucket_bytes_cap on, and are made anew in the order of the
    first backward.
    """

    def __init__(self, params, bucket_indices, per_bucket_size_limits, process_group, expect_sparse_gradients=(),
                 bucket_bytes_cap=_DEFAULT_BUCKET_BYTES, find_unused_parameters=False, gradient_as_bucket_view=False,
                 param_to_name_mapping=None, first_bucket_bytes_cap=_DEFAULT_FIRST_BUCKET_BYTES):
        params = list(params)
        if not params:
            raise RuntimeError("Expected at least one parameter.")
        if sorted(i for bucket in bucket_indices for i in bucket) != list(range(len(params))):
            raise RuntimeError(f"bucket_indices must have each of the numbers 0 to {len(params) - 1} once, not {bucket_indices}")
        if len(per_bucket_size_limits) != len(bucket_indices):
            raise RuntimeError(f"{len(bucket_indices)} buckets need as many limits, not {len(per_bucket_size_limits)}")
        for bucket in bucket_indices:
            if len({(params[i].dtype, params[i].device) for i in bucket}) > 1:
                raise RuntimeError("All parameters in a bucket must have the same dtype and device.")
        sparse = tuple(bool(s) for s in expect_sparse_gradients) or (False,) * len(params)
        self._group, self._params = process_group, params
        self._more = sparse, bucket_bytes_cap, first_bucket_bytes_cap, gradient_as_bucket_view, find_unused_parameters
        self._make(False)

    def _make(self, static_graph):
        sparse, cap, first, views, find = self._more
        handle = self._group._by_device.get(self._params[0].device.type, self._group._handle)
        self._find = find and not static_graph
        self._reducer = _C._comm_reducer(handle, tuple(self._params), sparse, cap, first, bool(views), bool(find), static_graph)

    def prepare_for_forward(self):
        """Call before a forward."""
        self._reducer.before_forward()

    def prepare_for_backward(self, outputs):
        """Call after a forward, with the tensors of which a backward begins: one, or a list."""
        outputs = [outputs] if isinstance(outputs, cresset.Tensor) else list(outputs)
        self._reducer.set_sync(True)
        self._reducer.after_forward(tuple(t for t in outputs if t.requires_grad) if self._find else ())

    def _set_static_graph(self):
        """Every backward uses the parameters as the first one does."""
        self._make(True)

    def _is_rebuilt(self):
        """Returns whether the buckets have the order of the first backward."""
        return self._reducer.rebuilt


class BuiltinCommHookType(enum.Enum):
    """Built-in communication hooks."""
    ALLREDUCE, FP16_COMPRESS = range(1, 3)


class Logger:
    """What a data-parallel module tells about itself."""

    def __init__(self, module):
        self._module = module

    def _get_ddp_logging_data(self):
        return self._module._get_ddp_logging_data()


class GradBucket:
    """A bucket of gradients, as communication hooks get it."""

    def __init__(self, index, reducer, parameters):
        self._index, self._reducer, self._all = index, reducer, parameters
        self._buffer = reducer.buffer(index)

    def index(self):
        """Returns the bucket's number, in the order of their starts."""
        return self._index

    def buffer(self):
        """Returns the gradients as one flat tensor."""
        return self._buffer

    def set_buffer(self, buffer):
        """Replaces the flat tensor."""
        self._buffer = buffer

    def gradients(self):
        """Returns the gradients as views of the bucket."""
        return self._reducer.views(self._index)

    def parameters(self):
        """Returns the parameters, in the order of the gradients."""
        return [self._all[i] for i in self._reducer.members(self._index)]

    def is_last(self):
        """Returns whether this is the last bucket of a backward."""
        return self._index == self._reducer.bucket_count - 1


def _compute_bucket_assignment_by_size(tensors, bucket_size, expect_sparse_gradient=(), tensor_indices=(), logger=None):
    """Returns buckets of tensors' numbers, and each bucket's limit in bytes.

    A bucket has tensors of one dtype and device, and is full from its limit on; the i-th full bucket of a dtype and device
    has the i-th limit, later ones the last.  Gradients that are sparse have buckets of their own, without a limit.
    """
    if not tensors:
        raise RuntimeError("Expected tensors.size() > 0 to be true, but got false.")
    if not bucket_size:
        raise RuntimeError("Expected bucket_size_limits.size() > 0 to be true, but got false.")
    if expect_sparse_gradient and len(expect_sparse_gradient) != len(tensors):
        raise RuntimeError("Expected expect_sparse_gradient.empty() || (tensors.size() == expect_sparse_gradient.size()) to be "
                           "true, but got false.")
    made, open_buckets, full = [], {}, {}
    for i, tensor in enumerate(tensors):
        if tensor.is_sparse:
            raise RuntimeError("No support for sparse tensors.")
        number = tensor_indices[i] if tensor_indices else i
        if expect_sparse_gradient and expect_sparse_gradient[number]:
            made.append(([number], 0))
            continue
        key = tensor.dtype, tensor.device
        limit = bucket_size[min(full.get(key, 0), len(bucket_size) - 1)]
        members, size = open_buckets.get(key, ([], 0))[:2]
        members.append(number)
        open_buckets[key] = members, size + tensor.numel() * tensor.element_size(), limit
        if open_buckets[key][1] >= limit:
            del open_buckets[key]
            full[key] = full.get(key, 0) + 1
            made.append((members, limit))
    made += [(members, limit) for members, _, limit in open_buckets.values()]
    if not tensor_indices:
        made.sort(key=lambda bucket: min(bucket[0]))
    return [members for members, _ in made], [limit for _, limit in made]


def _broadcast_coalesced(process_group, tensors, buffer_size=0, src=0):
    """Copies rank src's tensors to all ranks, as one work.  Neighbours of one dtype travel together, whatever
    their size: buffer_size has no effect."""
    if not tensors:
        return
    pg, tensors = dist._group_or_default_group(process_group), sorted(tensors, key=lambda t: str(t.dtype))
    with cresset.no_grad():
        if _has_own_broadcast(pg, tensors):
            ProcessGroup.broadcast(pg, [t.detach() if t.requires_grad else t for t in tensors], src).wait()
            return
        with dist._coalescing_manager(process_group):
            for tensor in tensors:
                dist.broadcast(tensor.detach(), group=process_group, group_src=src)


def _has_own_broadcast(pg, tensors):
    """Tells whether a call of the library sends the tensors: neither a program's group nor a recording or a mode sees each call."""
    return (isinstance(pg, ProcessGroup) and pg._handle is not None and pg._coalesced is None
            and type(pg).broadcast in (ProcessGroup.broadcast, ProcessGroupGloo.broadcast)
            and not cresset.compiler.is_compiling() and not _C._len_torch_dispatch_stack() and not any(map(dist._wraps_others, tensors)))


def _verify_params_across_processes(process_group, params, logger=None, names=()):
    """Raises an error at every rank unless all ranks have the same numbers, sizes and dtypes of parameters.
    logger has no effect: the error says what differs."""
    own = [(tuple(p.shape), str(p.dtype)) for p in params]
    every = [None] * dist.get_world_size(process_group)
    dist.all_gather_object(every, own, process_group)
    rank = dist.get_rank(process_group)
    for other, theirs in enumerate(every):
        if len(theirs) != len(own):
            raise RuntimeError(f"DDP expects same model across all ranks, but Rank {rank} has {len(own)} params, while "
                               f"rank {other} has inconsistent {len(theirs)} params.")
        for i, (mine, their) in enumerate(zip(own, theirs)):
            if mine != their:
                name = f" ({names[i]})" if names else ""
                raise RuntimeError(f"[{rank}]: params[{i}]{name} in this process with sizes {list(mine[0])} ({mine[1]}) appears "
                                   f"not to match sizes of the same param in process {other}: {list(their[0])} ({their[1]}).")
