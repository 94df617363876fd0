"""fully_shard: each rank keeps a part of every parameter, and has whole parameters only while a module computes.

The parameters of a module are DTensors divided along dim 0.  Before forward one call collects the parts of all of them.  The
whole parameters are results of a Function whose derivative is the reverse: the gradients are added over the ranks and divided,
in one call, when backward has all of them.  After forward the bytes of whole parameters are freed (reshard_after_forward) and
collected again when the gradient of the module's output comes; until the gradients of the parameters are there the module has
these whole parameters, so that a forward pass that checkpointing repeats uses them.  The bytes are freed for good when backward
has the gradients of the module's inputs: the graph, which refers to the whole parameters, may live until the next step.
"""
import functools
import weakref

import cresset

from ... import nn
from ...autograd import Function
from ...autograd.graph import increment_version
from ...utils._pytree import tree_flatten, tree_unflatten
from .. import distributed_c10d as dist
from .._composable.contract import contract
from ..device_mesh import DeviceMesh, init_device_mesh
from ..tensor import DTensor, Replicate, Shard, _StridedShard, distribute_tensor
from ..tensor._api import _FromLocal
from ..tensor._redistribute import _padded, part_of
from ..tensor._dtensor_spec import DTensorSpec, TensorMeta
from ._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy

__all__ = ["FSDPModule", "UnshardHandle", "fully_shard", "register_fsdp_forward_method", "share_comm_ctx"]


class _Param:
    """A parameter: the modules that have it, its DTensor, and the sizes of parts.

    A parameter that is a DTensor already (of tensor parallelism, over another dimension of the ranks) is divided further: "whole" is
    here the part of it that the other dimension gives this rank."""

    def __init__(self, param, places, mesh, placement, offload):
        self.places, self.dim = places, placement.dim
        self.inner = param._spec if isinstance(param, DTensor) else None  # of whole parameters
        whole = param._local_tensor if self.inner else param.detach()
        ranks = mesh.size(mesh.ndim - 1)
        if self.dim and whole.shape[self.dim] % ranks:
            raise NotImplementedError(f"FSDP does not support uneven sharding on dim {self.dim}: {whole.shape} (world size: {ranks})")
        self.shape = whole.shape
        self.length = -(-whole.shape[self.dim] // ranks)  # of the longest part
        self.even = not self.dim and whole.shape[0] == self.length * ranks  # all ranks have as much
        self.padded = (self.length, *(n for d, n in enumerate(whole.shape) if d != self.dim))
        self.count = cresset.Size(self.padded).numel()
        places_on = [Replicate()] * (mesh.ndim - 1) + [Shard(self.dim)]
        made = self._of_part(param, mesh, places_on) if self.inner else distribute_tensor(whole, mesh, places_on, src_data_rank=None)
        if offload is not None:
            made = DTensor(made._local_tensor.cpu(), made._spec)
        self.sharded = nn.Parameter(made, param.requires_grad)

    def _of_part(self, param, mesh, places_on):
        """Returns the DTensor of both meshes: it divides the parts of the inner one."""
        factor = self.inner.num_shards_map[self.dim]
        if factor > 1:
            places_on[-1] = _StridedShard(self.dim, split_factor=factor)
        both = DeviceMesh._concatenate([mesh, self.inner.mesh])
        local = part_of(param._local_tensor, self.dim, mesh.size(mesh.ndim - 1), mesh.get_coordinate()[-1])
        if local.data_ptr() == param._local_tensor.data_ptr():
            local = local.clone()
        return DTensor(local, DTensorSpec(both, (*places_on, *self.inner.placements), self.inner.tensor_meta))

    def as_whole(self, local):
        """Returns the whole parameter of its elements: a DTensor of the inner mesh if there is one."""
        if self.inner is None:
            return local
        meta = self.inner.tensor_meta
        return _FromLocal.apply(local, DTensorSpec(self.inner.mesh, self.inner.placements,
                                                   TensorMeta(meta.shape, meta.stride, local.dtype)), None)

    def register(self, value):
        """Makes a tensor the parameter of the modules."""
        for module, name in self.places:
            module._parameters[name] = value
            module.__dict__.pop(name, None)

    def follow(self):
        """Takes a parameter that replaced the DTensor, as by to_empty() or load_state_dict(assign=True)."""
        module, name = self.places[0]
        value = module._parameters[name]
        if isinstance(value, DTensor) and value is not self.sharded:
            self.sharded = value


class _Whole(Function):
    """Whole parameters of DTensors; the cotangents of DTensors are those of the whole, added over the ranks and divided."""

    @staticmethod
    def forward(ctx, group, key, *params):
        ctx.group, ctx.key = group, key
        ctx.set_materialize_grads(False)
        return tuple(group.collect())

    @staticmethod
    def backward(ctx, *grads):
        parts = ctx.group.reduce(grads)
        ctx.group.leave_backward(ctx.key)
        return (None, None, *parts)


class _Wholes:
    """The whole parameters of one forward pass, their elements, and the parts of which they are made."""

    def __init__(self, key, tensors, wholes, params):
        self.key, self.tensors, self.wholes, self.versions = key, tensors, wholes, [_version(p) for p in params]
        self.away = False  # whether the bytes were freed

    def empty(self):
        """Frees the bytes."""
        cresset._C._comm_resize_storages(self.tensors, False)
        self.away = True

    def changed(self, params):
        """Tells for each parameter whether its elements are others by now."""
        return [old[0] is not p.sharded or old[1:] != _version(p.sharded)[1:] for old, p in zip(self.versions, params)]


def _version(param):
    """What changes with each assignment to the elements of a DTensor."""
    return param, param._version, param._local_tensor._version


class _Calls:
    """Calls that collect the parts of a group's parameters, and the versions of these parts."""

    def __init__(self, group):
        self.versions, self.calls = [_version(p.sharded) for p in group.params], []

    def holds(self, group):
        """Tells whether the parts are still those that were sent."""
        return all(old[0] is p.sharded and old[1:] == _version(p.sharded)[1:] for old, p in zip(self.versions, group.params))

    def wait(self):
        """Waits for the calls."""
        for _, _, _, work in self.calls:
            if work is not None:
                work.wait()


class _Begun:
    """The groups of a root in the order in which forward began, in this pass and in the one before."""

    def __init__(self):
        self.now, self.before = [], {}

    def start(self):
        """Begins a pass."""
        self.before = {a: b for a, b in zip(self.now, self.now[1:])}
        self.now = []

    def next_of(self, group):
        """Notes that forward of a group begins; returns the group that came next in the pass before, in a list."""
        if group not in self.now:
            self.now.append(group)
        following = self.before.get(group)
        return () if following is None else (following,)


class _Group:
    """The parameters that one call of fully_shard divides."""

    def __init__(self, params, mesh, policy, reshard):
        self.params, self.mesh, self.policy = params, mesh, policy
        self.reshard_after_forward, self.is_root = reshard, None
        self.shard_group = mesh.get_group(mesh.ndim - 1)
        self.repeat_group = mesh.get_group(0) if mesh.ndim == 2 else None
        self.ranks, self.rank = mesh.size(mesh.ndim - 1), mesh.get_coordinate()[-1]
        self.sync, self.all_reduce, self.factor = True, True, None
        self.reshard_after_backward, self.unshard_in_backward, self.reduces_unused = True, True, False
        self.gather, self.scatter, self.hook, self.scatter_group = None, None, None, self.shard_group  # of the program
        self.order, self.event = [], None  # the groups in the order in which forward came to their ends; the root's event
        self.forward_next, self.backward_next = None, None  # groups that are collected ahead, by the program's choice
        self.begun = _Begun()  # of the root
        self.started, self.held = None, None  # calls ahead, and whole elements that backward has left
        self.freed, self.filled = weakref.WeakSet(), weakref.WeakSet()  # the second: of forward passes, for reshard() by the program
        self.device = cresset.device(mesh.device_type, cresset.cuda.current_device()) if mesh.device_type == "cuda" else \
            cresset.device(mesh.device_type)
        self.kept = [None] * len(params)  # gradients that wait for the next synchronization
        self.wholes = None  # of the forward pass that runs
        self.has_graph = False  # whether backward comes from self.wholes to the DTensors
        self.rows = None  # the parts of which _calls() made rows, and its result
        self.pending = []  # ends of reductions in progress, of all groups of a root
        self.waiting, self.run = [], None  # wholes whose gradients backward computes now, and the number of this backward
        self.used = []  # wholes whose bytes this backward has collected or found, and has not freed

    # --- parameters ---
    def _dtype(self, param):
        lower = self.policy.param_dtype
        return lower if lower is not None and param.sharded.is_floating_point() else param.sharded.dtype

    def _calls(self):
        """Returns the parameters of each dtype, which are collected in one call: (dtype, numbers, rows).  A row is a view of this rank's
        elements; None where these are on another device, in another order, or fewer than those of other ranks."""
        if self.rows is not None and all(a is p.sharded and b is a._local_tensor and c == b.data_ptr() and d is a.dtype
                                         for (a, b, c, d), p in zip(self.rows[0], self.params)):
            return self.rows[1]
        kinds, of = {}, []
        for k, p in enumerate(self.params):
            local = p.sharded._local_tensor
            of.append((p.sharded, local, local.data_ptr(), p.sharded.dtype))
            numbers, rows = kinds.setdefault((self._dtype(p), p.sharded.dtype), ([], []))
            numbers.append(k)
            plain = not p.dim and local.shape[0] == p.length and local.device == self.device and local.is_contiguous()
            rows.append(local.detach().view(-1) if plain else None)
        self.rows = of, [(dtype, *found) for (dtype, _), found in kinds.items()]
        return self.rows[1]

    def _row(self, k):
        p = self.params[k]
        return _padded(p.sharded._local_tensor.detach().to(self.device), p.dim, p.length).flatten()

    def _start(self):
        """Starts the calls that collect the parts."""
        made = _Calls(self)
        with cresset.no_grad():
            for dtype, numbers, rows in self._calls():
                mine = cresset.cat([self._row(k) if row is None else row for k, row in zip(numbers, rows)]).to(dtype)
                if self.gather is None:
                    every = mine.new_empty((self.ranks * mine.numel(),))
                    work = dist.all_gather_into_tensor(every, mine, self.shard_group, async_op=True)
                else:
                    every = self.gather.allocate((self.ranks * mine.numel(),), dtype=mine.dtype, device=mine.device)
                    work = self.gather(every, mine, self.shard_group, async_op=True)
                made.calls.append((numbers, mine, every, work))
        return made

    def next_in_forward(self):
        """Returns the groups that are collected while forward of this one computes."""
        if cresset._C._current_graph_task_id() != -1:  # checkpointing repeats a forward pass
            return ()
        following = self.begun.next_of(self)
        return following if self.forward_next is None else self.forward_next

    def prefetch(self):
        """Starts to collect the parameters that forward or backward needs next."""
        if self.started is None and self.held is None and self.params and (self.freed or (self.wholes is None and not self.waiting)):
            if not self.freed:
                for p in self.params:
                    p.follow()
            self.started = self._start()

    def discard(self):
        """Drops what was collected ahead."""
        if self.started is not None:
            self.started.wait()
        self.started = self.held = None

    def collect(self, into=None):
        """Returns the whole parameters of all ranks' parts."""
        held, self.held = self.held, None
        if held is not None and not any(held.changed(self.params)):
            return [x.detach() if into is None else into[k].data.copy_(x) for k, x in enumerate(held.tensors)]
        calls, self.started = self.started, None
        if calls is None or not calls.holds(self):
            if calls is not None:
                calls.wait()
            calls = self._start()
        calls.wait()
        out = [None] * len(self.params)
        for numbers, _, every, _ in calls.calls:
            own = into is not None or (self.gather is None and self.ranks > 1)
            if own and all(self.params[k].even for k in numbers):
                made = [into[k] if into is not None else every.new_empty(self.params[k].shape) for k in numbers]
                cresset._C._comm_take_gathered(every, made, self.ranks)
                for k, x in zip(numbers, made):
                    out[k] = x
                continue
            every, at = every.view(self.ranks, -1), 0
            for k in numbers:
                p = self.params[k]
                parts = every[:, at:at + p.count]
                at += p.count
                whole = parts.reshape(self.ranks * p.length, *p.padded[1:])
                if p.shape[p.dim] != whole.shape[0]:
                    whole = whole[:p.shape[p.dim]]
                whole = whole.movedim(0, p.dim) if p.dim else whole
                if into is not None:
                    out[k] = into[k].data.copy_(whole)
                else:  # bytes of its own, which can be freed; a program may use the memory of its call again
                    shares = self.gather is not None or self.ranks == 1
                    out[k] = whole.clone(memory_format=cresset.contiguous_format) if shares else whole.contiguous()
        return out

    def unshard(self):
        """Registers whole parameters."""
        if self.waiting:
            return
        if self.wholes is None:
            for p in self.params:
                if self.held is not None:
                    p.register(p.sharded)
                p.follow()
        elif (self.has_graph or not cresset.is_grad_enabled()) and not any(self.wholes.changed(self.params)):
            return
        params, key = [p.sharded for p in self.params], object()
        made = list(_Whole.apply(self, key, *params))
        made = [x.detach() if x.requires_grad and not p.requires_grad else x for x, p in zip(made, params)]
        wholes = [p.as_whole(x) for p, x in zip(self.params, made)]
        self.wholes, self.has_graph = _Wholes(key, made, wholes, params), cresset.is_grad_enabled()
        self._register(wholes)

    def _register(self, wholes):
        for p, whole in zip(self.params, wholes):
            whole._is_param = True  # isinstance(whole, Parameter) holds
            p.register(whole)

    def reshard(self):
        """Registers the DTensors."""
        if self.wholes is not None or self.waiting or self.held is not None:
            for p in self.params:
                p.register(p.sharded)
        self.wholes, self.waiting, self.run, self.held = None, [], None, None

    # --- backward ---
    def enter_backward(self, wholes):
        """Registers the whole parameters of a forward pass again, for the backward pass that comes to its output."""
        if not self.unshard_in_backward:
            return
        self.fill(wholes)
        if self.backward_next is not None:
            ahead = self.backward_next
        else:  # the group whose forward ended before
            at = self.order.index(self) if self in self.order else 0
            ahead = self.order[at - 1:at] if at else ()
        for group in ahead:
            if group.freed:
                group.prefetch()
        self.waiting = [w for w in self.waiting if w is not wholes] + [wholes]
        self.run = cresset._C._current_graph_task_id()
        self._register(wholes.wholes)
        if not any(w is wholes for w in self.used):
            self.used.append(wholes)
        cresset._C._at_backward_end(self.end_pass)

    def leave_backward(self, key):
        """Ends that; a backward pass inside another one leaves it to the outer one, which may repeat more of the forward pass."""
        if not self.waiting or self.run != cresset._C._current_graph_task_id():
            return
        left = [w for w in self.waiting if w.key is not key]
        if left:
            self.waiting = left
            self._register(left[-1].wholes)
        else:
            self.end_backward()

    def end_backward(self):
        """Registers the DTensors, or leaves whole parameters to the next forward pass."""
        last = self.waiting[-1] if self.waiting else None
        if self.reshard_after_backward or last is None:
            if self.held is None:
                self.reshard()
            return
        self.wholes, self.waiting, self.run, self.held = None, [], None, last

    # --- bytes ---
    def free(self, wholes):
        """Frees the bytes of whole parameters that backward needs again."""
        wholes.empty()
        self.freed.add(wholes)

    def free_after(self, wholes):
        """Frees the bytes of whole parameters when backward has the gradients of the module's inputs, or ends.  A backward whose
        result has a graph, and one that leaves whole parameters to the next forward pass, keeps them."""
        if not any(w is wholes for w in self.used):
            return
        self.used = [w for w in self.used if w is not wholes]
        if self.reshard_after_backward and not cresset.is_grad_enabled():
            self.filled.discard(wholes)
            wholes.empty()

    def end_pass(self):
        """Ends a backward pass; frees also whole parameters for whose inputs no gradient came."""
        self.end_backward()
        for wholes in list(self.used):
            self.free_after(wholes)

    def fill(self, wholes):
        """Collects them again into the same tensors.  Those of changed DTensors count as changed, which autograd refuses."""
        tensors = wholes.tensors
        self.freed.discard(wholes)
        self.filled.discard(wholes)
        if not tensors or not wholes.away:
            return
        with cresset.no_grad():
            cresset._C._comm_resize_storages(tensors, True)
            wholes.away = False
            self.collect(tensors)
            for x, whole, changed in zip(tensors, wholes.wholes, wholes.changed(self.params)):
                if changed:
                    increment_version(x if whole is x else (x, whole))

    # --- gradients ---
    def reduce(self, grads):
        """Returns this rank's parts of the averages of gradients over the ranks; None until they are synchronized, and for those
        parameters that have no gradient.

        Where backward adds to .grad of the DTensors and no hook waits for it, the parts are not returned: they become .grad when the
        next group has started its reduction, or when backward ends.  The calls so run beside the backward of other groups."""
        grads = [g if old is None else old if g is None else old + g for g, old in zip(grads, self.kept)]
        self.kept = [None] * len(self.params)
        if not self.sync:
            lower = self.policy.reduce_dtype  # gradients are added in the dtype in which the ranks add them
            self.kept = [g if g is None or lower is None else g.to(lower) for g in grads]
            return [None] * len(grads)
        with cresset.no_grad():
            if self.reduces_unused:
                grads = [cresset.zeros(p.shape, dtype=self._dtype(p), device=self.device)
                         if g is None and p.sharded.requires_grad else g for g, p in zip(grads, self.params)]
            self._agree(grads)
            later = cresset._C._is_checkpoint_valid() and not any(cresset._C._leaf_has_hooks(p.sharded) for p in self.params)
            calls = self._start_averages(grads)
            self.end_reductions()
            if later:
                self.pending.append(functools.partial(self._end_averages, calls, True))
                cresset._C._at_backward_end(self.end_reductions)
                return [None] * len(grads)
            return self._end_averages(calls, False)

    def end_reductions(self):
        """Waits for the reductions in progress, whose results become gradients."""
        with cresset.no_grad():
            while self.pending:
                self.pending.pop(0)()

    def _agree(self, grads):
        """Refuses gradients that other ranks do not have: their sums would be those of other parameters."""
        has = [g is not None for g, p in zip(grads, self.params) if p.sharded.requires_grad]
        if all(has):
            return
        mine = every = cresset.tensor(has, dtype=cresset.uint8, device=self.device)
        for group in (self.shard_group, self.repeat_group if self.all_reduce else None):
            if group is not None:
                sent, every = every, every.new_empty((dist.get_world_size(group) * every.numel(),))
                dist.all_gather_into_tensor(every, sent, group)
        if not (every.view(-1, len(has)) == mine).all():
            raise RuntimeError("fully_shard: the ranks have gradients of different parameters; all ranks must use the same "
                               "parameters of a module in forward")

    def _start_averages(self, grads):
        """Starts a call for each dtype in which gradients are added; returns (numbers, sent, averages, work) of each."""
        kinds, calls, total = {}, [], self._total()
        for k, g in enumerate(grads):
            if g is not None:
                kinds.setdefault(self.policy.reduce_dtype or g.dtype, []).append(k)
        for dtype, numbers in kinds.items():
            rows = [_padded(grads[k], self.params[k].dim, self.params[k].length * self.ranks).view(self.ranks, self.params[k].count)
                    for k in numbers]
            rows = rows if all(r.dtype == rows[0].dtype for r in rows) else [r.to(dtype) for r in rows]
            every = cresset.cat(rows, 1).to(dtype)
            every = every.div_(total) if self._divides_first(dtype) else every
            calls.append((numbers, every, *self._start_scatter(every)))
        return calls

    def _total(self):
        return self.ranks * (self.mesh.size(0) if self.repeat_group is not None else 1)

    def _divides_first(self, dtype):
        """Sums of half dtypes could exceed their range."""
        return self.factor is None and dtype in (cresset.float16, cresset.bfloat16)

    def _start_scatter(self, every):
        if self.scatter is None:
            mine = every.new_empty((every.shape[1],))
            return mine, dist.reduce_scatter_tensor(mine, every.view(-1), dist.ReduceOp.SUM, self.scatter_group, async_op=True)
        sent = self.scatter.allocate((every.numel(),), dtype=every.dtype, device=every.device).copy_(every.view(-1))
        mine = self.scatter.allocate((every.shape[1],), dtype=every.dtype, device=every.device)
        return mine, self.scatter(mine, sent, self.scatter_group, dist.ReduceOp.SUM)

    def _end_averages(self, calls, gives):
        """Returns this rank's parts of the averages, or adds them to .grad of the DTensors."""
        out = [None] * len(self.params)
        for numbers, _, mine, work in calls:
            if work is not None:
                work.wait()
            if self.repeat_group is not None and self.all_reduce:
                dist.all_reduce(mine, dist.ReduceOp.SUM, self.repeat_group)
            by = self.factor or self._total()
            if by != 1 and not self._divides_first(mine.dtype):
                mine.div_(by)
            if self.hook is not None:
                self.hook(mine)
            for k, part in self._parts_of(numbers, mine):
                p = self.params[k].sharded
                old = p.grad if gives else None
                if old is None:
                    out[k] = DTensor(part, p._spec)
                    if gives:
                        p.grad = out[k]
                elif isinstance(old, DTensor) and old._spec is p._spec:
                    old._local_tensor.add_(part)
                else:
                    old.add_(DTensor(part, p._spec))
        return out

    def _parts_of(self, numbers, mine):
        """Yields this rank's part of each parameter's average."""
        for k, part in zip(numbers, mine.split([self.params[k].count for k in numbers])):
            p, local = self.params[k], self.params[k].sharded._local_tensor
            part = part.view(p.padded)
            if p.dim or p.shape[0] != p.length * self.ranks:
                n, _ = Shard.local_shard_size_and_offset(p.shape[p.dim], self.ranks, self.rank)
                part = part[:n].movedim(0, p.dim).contiguous()
            yield k, part if part.dtype == local.dtype and part.device == local.device else part.to(local.device, local.dtype)


class _State:
    """What fully_shard keeps for a module: its group, and the hooks around forward."""

    def __init__(self):
        self.group, self.modules = None, ()

    def begin(self, modules, group):
        """Adds the hooks to the modules of one call."""
        self.modules, self.group = modules, group
        for module in modules:
            module.register_forward_pre_hook(self.before, prepend=True, with_kwargs=True)
            module.register_forward_hook(self.after)

    def before(self, module, args, kwargs):
        """Collects the parameters, and converts inputs."""
        group = self.group
        if group.is_root is None:
            _find_roots(module)
        if group.waiting and cresset._C._current_graph_task_id() == -1:
            group.reshard()  # an error has ended that backward pass
        if group.is_root:
            group.order.clear()
            group.begun.start()
            if group.event is not None:
                group.event.wait()
                group.event = None
        group.unshard()
        for other in group.next_in_forward():
            other.prefetch()
        lower = group.policy.param_dtype
        casts = lower is not None and group.policy.cast_forward_inputs
        if not casts and not cresset.is_grad_enabled():
            return None
        flat, spec = tree_flatten((args, kwargs))
        if casts:
            flat = [x.to(lower) if isinstance(x, cresset.Tensor) and x.is_floating_point() else x for x in flat]
        if group.wholes is not None and not group.waiting:
            _Inputs.watch(group, [x for x in flat if isinstance(x, cresset.Tensor) and x.grad_fn is not None])
        return tree_unflatten(flat, spec) if casts else None

    def after(self, module, args, output):
        """Frees the parameters after the last module of the call, and waits for the gradient of the output."""
        group = self.group
        flat, spec = tree_flatten(output)
        if group.policy.output_dtype is not None:
            flat = [x.to(group.policy.output_dtype) if isinstance(x, cresset.Tensor) and x.is_floating_point() else x for x in flat]
        wholes = group.wholes
        if group.waiting or wholes is None:
            return tree_unflatten(flat, spec)  # a repeated forward pass: the first one has the hooks
        outputs = [x for x in flat if isinstance(x, cresset.Tensor) and x.requires_grad]
        for x in outputs:
            x.register_hook(functools.partial(_before_backward, group, wholes))
        if module is self.modules[-1]:
            group.reshard()
            frees = group.reshard_after_forward if group.reshard_after_forward is not None else not group.is_root
            # inside of backward the pass is repeated for tensors that backward needs now
            if outputs and cresset._C._current_graph_task_id() == -1:
                group.free(wholes) if frees else group.filled.add(wholes)
            if group not in group.order:
                group.order.append(group)
        return tree_unflatten(flat, spec)


def _before_backward(group, wholes, grad):
    group.enter_backward(wholes)
    return grad


class _Inputs:
    """Inputs of a forward pass: when backward has the gradients of all, it needs the whole parameters no longer.

    Refers to these weakly, because an input may outlive the results of the pass."""

    def __init__(self, group, count):
        self.group, self.wholes, self.count, self.left, self.run = group, weakref.ref(group.wholes), count, count, None

    @classmethod
    def watch(cls, group, inputs):
        """Waits for the gradients of tensors that are results of calls."""
        if inputs:
            made = cls(group, len(inputs))
            for x in inputs:
                x.register_hook(made.come)

    def come(self, grad):
        run = cresset._C._current_graph_task_id()
        if run != self.run:  # a backward through the same graph again
            self.run, self.left = run, self.count
        self.left -= 1
        wholes = self.wholes()
        if not self.left and wholes is not None:
            self.group.free_after(wholes)
        return grad


def _find_roots(module):
    """The module whose forward is called first is the root of those inside."""
    first = module._get_fsdp_state().group
    order = first.order
    for sub in module.modules():
        if isinstance(sub, FSDPModule):
            group = sub._get_fsdp_state().group
            group.is_root, group.order = sub._get_fsdp_state() is module._get_fsdp_state(), order
            group.pending, group.begun = first.pending, first.begun


class _Bare:
    """The compiled forward of a divided module, whose parameters are whole while it runs.

    It is compiled as the method of a module of the class that was divided, with the same parameters, buffers, submodules and attributes
    but without hooks and the state of fully_shard: these hold DTensors, which no graph takes, and forward does not read them."""

    def __init__(self, module, how):
        plain = next(c for c in type(module).__mro__[1:] if c is not FSDPModule and issubclass(c, nn.Module))
        self.module, self.bare = module, plain.__new__(plain)
        self._copy(module, self.bare)
        for name, value in module.__dict__.items():
            if "_hooks" in name:
                self.bare.__dict__[name] = type(value)() if isinstance(value, dict) else value
        self.compiled = how.function(self.bare.forward)

    @staticmethod
    def _copy(source, target):
        """Makes the attributes of one module those of the other, without a write where they are the same objects."""
        values, to = source.__dict__, target.__dict__
        for name, value in values.items():
            if name != "forward" and not _is_of_hooks(name) and to.get(name, _Bare) is not value:
                to[name] = value
        for name in [name for name in to if name not in values and not _is_of_hooks(name) and name != "forward"]:
            del to[name]

    def __call__(self, *args, **kwargs):
        self._copy(self.module, self.bare)
        try:
            return self.compiled(*args, **kwargs)
        finally:
            self._copy(self.bare, self.module)


def _is_of_hooks(name):
    return "_hooks" in name or name.startswith("__composable_api")


class UnshardHandle:
    """The handle of FSDPModule.unshard(async_op=True)."""

    _group = None

    def wait(self):
        """Waits until the parameters are there."""
        if self._group is not None:
            self._group.unshard()
            self._group = None


class FSDPModule:
    """The class of modules that fully_shard() returns."""

    def __new__(cls, *args, **kwargs):
        """An instance of the class that was divided."""
        plain = next((c for c in cls.__mro__[1:] if c is not FSDPModule and issubclass(c, nn.Module)), None)
        if plain is None:
            raise AssertionError("FSDPModule should not be instantiated directly")
        made = plain.__new__(plain, *args, **kwargs)
        made.__init__(*args, **kwargs)
        return made

    def _get_fsdp_state(self):
        state = fully_shard.state(self)
        if state is None:
            raise AssertionError(f"No FSDP state found on {self}")
        return state

    def _groups(self, recurse):
        return [m._get_fsdp_state().group for m in (self.modules() if recurse else [self]) if isinstance(m, FSDPModule)]

    def reshard(self):
        """Frees the whole parameters: those of the modules are the DTensors.  Backward collects those of forward passes again."""
        group = self._get_fsdp_state().group
        group.reshard()
        group.discard()
        for wholes in list(group.filled):
            group.filled.discard(wholes)
            group.free(wholes)

    def unshard(self, async_op=False):
        """Collects the parameters of this module; with async_op it starts to, and the module has them after wait() of the result, or
        when its forward begins."""
        group = self._get_fsdp_state().group
        if not async_op:
            group.unshard()
            return None
        group.prefetch()
        made = UnshardHandle()
        made._group = group
        return made

    def reset_iter_state(self):
        """Forgets what an iteration left that an exception has ended, also gradients that wait.  For the root alone."""
        if self._get_fsdp_state().group.is_root is False:
            raise RuntimeError("reset_iter_state must be called on the root FSDP module")
        for group in self._groups(True):
            group.reshard()
            group.discard()
            group.kept = [None] * len(group.params)
            group.order.clear()
            group.end_reductions()

    def set_is_last_backward(self, is_last_backward):
        """Gradients are synchronized in each backward; nothing waits for the last one."""

    def set_requires_gradient_sync(self, requires_gradient_sync, *, recurse=True):
        """Whether backward adds gradients over the ranks, or keeps them until the next one that does."""
        for group in self._groups(recurse):
            group.sync = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce, *, recurse=True):
        """Whether gradients are added over the first dimension of a mesh of two."""
        for group in self._groups(recurse):
            group.all_reduce = requires_all_reduce

    def set_reshard_after_forward(self, reshard_after_forward, recurse=True):
        """Whether whole parameters are freed after forward."""
        if not isinstance(reshard_after_forward, bool):
            raise ValueError(f"reshard_after_forward should be a bool, got {type(reshard_after_forward)}")
        for group in self._groups(recurse):
            group.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward, *, recurse=True):
        """Whether whole parameters are freed after backward; the next forward uses them if no part has changed."""
        for group in self._groups(recurse):
            group.reshard_after_backward = reshard_after_backward

    def set_unshard_in_backward(self, unshard_in_backward):
        """Whether backward needs the parameters."""
        for group in self._groups(False):
            group.unshard_in_backward = unshard_in_backward

    def set_modules_to_forward_prefetch(self, modules):
        """Starts to collect the parameters of these modules when forward of this one begins; without a list, those of the module whose
        forward began next in the pass before."""
        self._get_fsdp_state().group.forward_next = _groups_of(modules)

    def set_modules_to_backward_prefetch(self, modules):
        """The same in backward; without a list it is the module whose forward ended before this one's."""
        self._get_fsdp_state().group.backward_next = _groups_of(modules)

    def set_post_optim_event(self, event):
        """The next forward of the root waits for this event before parameters are collected."""
        self._get_fsdp_state().group.event = event

    def set_all_reduce_hook(self, hook, *, stream=None):
        """Calls a function with this rank's parts of averages; it may change them."""
        group = self._get_fsdp_state().group
        if stream is not None and group.repeat_group is not None:
            raise ValueError("stream cannot be set when using native HSDP")
        group.hook = hook

    def set_custom_all_gather(self, comm):
        """Collects parameters by a call of the program."""
        self._get_fsdp_state().group.gather = comm

    def set_custom_reduce_scatter(self, comm):
        """Reduces gradients by a call of the program."""
        self._get_fsdp_state().group.scatter = comm

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params, *, recurse=True):
        """Whether parameters without a gradient are reduced as zeros, because other ranks may have used them."""
        for group in self._groups(recurse):
            group.reduces_unused = reduce_scatter_unused_params

    def set_separate_reduce_scatter_group(self, enable=True, *, recurse=True):
        """Whether gradients are reduced in a process group of their own; all ranks of the mesh call it."""
        made = {}
        for group in self._groups(recurse):
            ranks = tuple(dist.get_process_group_ranks(group.shard_group))
            if enable and ranks not in made:
                made[ranks] = dist.new_group(list(ranks), use_local_synchronization=True)
            group.scatter_group = made[ranks] if enable else group.shard_group

    def set_force_sum_reduction_for_comms(self, enable):
        """Gradients are always added and then divided."""

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers, *, recurse=True):
        """A bound of the buffers that wait to be reduced; each is reduced before the next one is made."""
        if isinstance(max_input_buffers, bool) or not isinstance(max_input_buffers, int):
            raise TypeError(f"max_input_buffers must be an int, got {type(max_input_buffers).__name__}")
        if max_input_buffers < 1:
            raise ValueError(f"max_input_buffers must be a positive int, got {max_input_buffers}")

    def set_gradient_divide_factor(self, factor):
        """Divides sums of gradients by this number instead of the number of ranks."""
        for group in self._groups(False):
            group.factor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor

    def _compile(self, how):
        """Returns a function that calls this module with compiled forwards of the divided modules inside that contain no divided one,
        and the first of them.  The calls between ranks before and after each forward, and code between these modules, run around the
        graphs.  Twice None with fullgraph=True, which refuses calls between ranks."""
        if how.nopython:
            return None, None
        inside = [m for m in self.modules() if isinstance(m, FSDPModule) and "forward" not in m.__dict__
                  and not any(isinstance(sub, FSDPModule) for sub in m.modules() if sub is not m)]
        if not inside:
            return None, None
        bare = [_Bare(m, how) for m in inside]

        def call(*args, **kwargs):
            for b in bare:
                b.module.__dict__["forward"] = b
            try:
                return self(*args, **kwargs)
            finally:
                for b in bare:
                    b.module.__dict__.pop("forward", None)
        return call, bare[0].compiled

    def _apply(self, *args, **kwargs):
        self.reshard()
        made = super()._apply(*args, **kwargs)
        for p in self._get_fsdp_state().group.params:
            p.follow()
        return made


def _groups_of(modules):
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects FSDPModule but got {type(module)}: {module}")
    return [module._get_fsdp_state().group for module in modules]


def share_comm_ctx(modules):
    """Checks that all are divided modules.  The calls of a process group run in one thread, whichever module makes them."""
    for module in modules:
        if not isinstance(module, FSDPModule):
            raise ValueError(f"Expects list of FSDPModules but got {module}")


def _no_deepcopy(self, memo):
    raise AssertionError("FSDP does not support deepcopy. Please use state dict for serialization.")


@functools.cache
def _class_of(cls):
    return type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__deepcopy__": _no_deepcopy})


def _managed(modules, ignored):
    """Returns the parameters of modules that no call inside has divided: {parameter: [(module, name)]}."""
    found, seen = {}, set()

    def visit(module, top):
        if module in seen or (not top and isinstance(module, FSDPModule)):
            return
        seen.add(module)
        for name, param in module._parameters.items():
            if param is not None and param not in ignored:
                found.setdefault(param, []).append((module, name))
        for child in module.children():
            visit(child, False)
    for module in modules:
        visit(module, True)
    return found


def _check(modules, mesh, reshard):
    for module in modules:
        if isinstance(module, (nn.ModuleList, nn.ModuleDict)) and type(module).forward is nn.Module.forward:
            raise ValueError(f"fully_shard does not support containers that do not implement forward: {module}")
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.ndim == 2 and mesh.mesh_dim_names is None:
        raise AssertionError("Please init the 2D mesh for HSDP with mesh_dim_names specified")
    if reshard is not None and not isinstance(reshard, bool):
        size = mesh.size(mesh.ndim - 1)
        if not isinstance(reshard, int) or not 1 <= reshard <= size or size % reshard:
            raise ValueError("If passing reshard_after_forward as an integer, it should be a factor of "
                             f"{size}, not {reshard}")


_meshes = weakref.WeakKeyDictionary()  # {default group: mesh of all its ranks}


def _default_mesh():
    group = dist._get_default_group()
    if group not in _meshes:
        kind = "cuda" if cresset.cuda.is_available() and dist.get_backend() == "nccl" else "cpu"
        _meshes[group] = init_device_mesh(kind, (dist.get_world_size(),))
    return _meshes[group]


@contract(state_cls=_State)
def fully_shard(module, *, mesh=None, reshard_after_forward=None, shard_placement_fn=None, mp_policy=MixedPrecisionPolicy(),
                offload_policy=OffloadPolicy(), ignored_params=None):
    """Divides the parameters of a module, or of a list of modules, over a mesh; submodules first."""
    modules = [module] if isinstance(module, nn.Module) else list(module)
    if mesh is None:
        if not dist.is_initialized():
            dist.init_process_group()
        mesh = _default_mesh()
    _check(modules, mesh, reshard_after_forward)
    offload = offload_policy if isinstance(offload_policy, CPUOffloadPolicy) else None
    params = []
    for param, places in _managed(modules, set(ignored_params or ())).items():
        placement = (shard_placement_fn(param) if shard_placement_fn is not None else None) or Shard(0)
        if not param.dim():
            raise ValueError("fully_shard doesn't support scalar parameters. "
                             f"Change {places[0][1]} to a 1D tensor with numel equal to 1.")
        dim = placement.dim + param.dim() if placement.dim < 0 else placement.dim
        params.append(_Param(param, places, mesh, Shard(dim), offload))
    # a number of ranks to divide by after forward: parameters stay whole, which needs more memory and no further group
    reshard = reshard_after_forward if reshard_after_forward is None or isinstance(reshard_after_forward, bool) else \
        reshard_after_forward > 1
    group = _Group(params, mesh, mp_policy, reshard)
    for p in params:
        p.register(p.sharded)
    fully_shard.state(modules[0]).begin(modules, group)
    for m in modules:
        m.__class__ = _class_of(m.__class__)
    return module


def register_fsdp_forward_method(module, method_name):
    """Makes a method of a divided module collect the parameters, as forward does."""
    if not isinstance(module, FSDPModule):
        return
    if not hasattr(module, method_name):
        raise ValueError(f"{type(module)} does not have a method {method_name}")
    method = getattr(module, method_name)

    @functools.wraps(method)
    def wrapped(*args, **kwargs):
        state = module._get_fsdp_state()
        changed = state.before(module, args, kwargs)
        args, kwargs = changed if changed is not None else (args, kwargs)
        return state.after(module, args, method(*args, **kwargs))
    module.__dict__[method_name] = wrapped
