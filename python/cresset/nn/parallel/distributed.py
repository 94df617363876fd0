"""Data parallelism over processes: every rank has the module, and gradients are averaged (src/dist/reducer.h)."""
import inspect
import logging
import os
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import cresset

from ... import _C
from ..modules.module import Module

__all__ = ["DistributedDataParallel"]

logger = logging.getLogger(__name__)
_LOGGED_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "TORCH_DISTRIBUTED_DEBUG", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME",
                     "GLOO_DEVICE_TRANSPORT")
_DTYPE_NAMES = {cresset.float32: "float", cresset.float64: "double", cresset.float16: "c10::Half", cresset.bfloat16: "c10::BFloat16",
                cresset.complex64: "c10::complex<float>", cresset.complex128: "c10::complex<double>"}
_DEFAULT_BUCKET_MB = 25
# what decides how ranks meet and how the engines send
_VARIABLES = """RANK LOCAL_RANK WORLD_SIZE MASTER_PORT MASTER_ADDR CUDA_VISIBLE_DEVICES GLOO_SOCKET_IFNAME GLOO_DEVICE_TRANSPORT
    NCCL_SOCKET_IFNAME TORCH_NCCL_BLOCKING_WAIT NCCL_DEBUG NCCL_DEBUG_SUBSYS NCCL_IB_DISABLE NCCL_P2P_DISABLE NCCL_P2P_LEVEL
    NCCL_SHM_DISABLE NCCL_SOCKET_NTHREADS NCCL_NSOCKS_PERTHREAD NCCL_BUFFSIZE NCCL_NTHREADS NCCL_RINGS NCCL_MAX_NCHANNELS
    NCCL_MIN_NCHANNELS NCCL_CHECKS_DISABLE NCCL_CHECK_POINTERS NCCL_LAUNCH_MODE NCCL_IB_HCA NCCL_IB_TIMEOUT NCCL_IB_RETRY_CNT
    NCCL_IB_GID_INDEX NCCL_IB_SL NCCL_IB_TC NCCL_IB_AR_THRESHOLD NCCL_IB_CUDA_SUPPORT NCCL_NET_GDR_LEVEL NCCL_NET_GDR_READ
    NCCL_SINGLE_RING_THRESHOLD NCCL_LL_THRESHOLD NCCL_TREE_THRESHOLD NCCL_ALGO NCCL_PROTO NCCL_IGNORE_CPU_AFFINITY NCCL_DEBUG_FILE
    NCCL_COLLNET_ENABLE NCCL_TOPO_FILE NCCL_TOPO_DUMP_FILE TORCH_NCCL_ASYNC_ERROR_HANDLING""".split()


def _dump_DDP_relevant_env_vars():
    """Prints the environment variables of groups and engines."""
    print("".join(f"env:{name}={os.environ.get(name, 'N/A')}\n" for name in _VARIABLES))


@dataclass
class _MixedPrecision:
    """Lower dtypes of parameters and inputs, of the reduction of gradients, and of buffers."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None


def _cast(x, dtype):
    """Returns inputs with floating tensors of another dtype."""
    if isinstance(x, cresset.Tensor):
        return x.to(dtype) if x.is_floating_point() else x
    if isinstance(x, dict):
        return {k: _cast(v, dtype) for k, v in x.items()}
    return type(x)(_cast(v, dtype) for v in x) if type(x) in (list, tuple) else x


def _moved(x, device):
    """Returns inputs with tensors on a device."""
    if isinstance(x, cresset.Tensor):
        return x.to(device)
    if isinstance(x, dict):
        return {k: _moved(v, device) for k, v in x.items()}
    return type(x)(_moved(v, device) for v in x) if type(x) in (list, tuple) else x


def _tensors_in(x, found=None):
    """Returns the tensors of a module's output: in tuples, lists, dicts and dataclasses."""
    found = [] if found is None else found
    if isinstance(x, cresset.Tensor):
        found.append(x)
    elif isinstance(x, dict):
        for value in x.values():
            _tensors_in(value, found)
    elif isinstance(x, (list, tuple)):
        for value in x:
            _tensors_in(value, found)
    elif hasattr(x, "__dataclass_fields__"):
        for name in x.__dataclass_fields__:
            _tensors_in(getattr(x, name, None), found)
    return found


def _check_hook(hook):
    """Refuses a hook that cannot be called, or whose annotations say that it takes or returns something else."""
    from ...distributed._reducer import GradBucket
    from ...futures import Future
    if not callable(hook):
        raise TypeError("Communication hook must be callable.")
    try:
        signature = inspect.signature(hook)
    except ValueError:  # a builtin function without one
        return
    bucket = signature.parameters.get("bucket")
    if bucket is not None and bucket.annotation not in (inspect.Parameter.empty, GradBucket, "GradBucket", "dist.GradBucket"):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
    returned = signature.return_annotation
    kind = getattr(returned, "__origin__", returned)
    if returned is not inspect.Signature.empty and kind is not Future and not isinstance(returned, str):
        raise ValueError("Communication hook: return annotation should be torch.futures.Future[torch.Tensor].")


class DistributedDataParallel(Module):
    """A module on every rank of a group, whose gradients become the ranks' averages during backward.

    With deterministic="ranks", gradients, buffers and random masks have the same bits for any number of ranks that divides
    `parts`: the program computes its batch in the parts that `parts()` gives (src/dist/parts.h).
    """

    _active_ddp_module = None

    def __init__(self, module, device_ids=None, output_device=None, dim=0, broadcast_buffers=True, init_sync=True,
                 process_group=None, bucket_cap_mb=None, find_unused_parameters=False, check_reduction=False,
                 gradient_as_bucket_view=False, static_graph=False, delay_all_reduce_named_params=None,
                 param_to_hook_all_reduce=None, mixed_precision=None, device_mesh=None,
                 skip_all_reduce_unused_params=False, *, deterministic=None, parts=8):
        from ... import distributed as dist
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            if device_mesh.ndim != 1:
                raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
            process_group = device_mesh.get_group(mesh_dim=0)
        self.process_group = dist.distributed_c10d._get_default_group() if process_group is None else process_group
        dist.distributed_c10d._adopt(self.process_group)
        self.device_mesh = device_mesh
        self._check_module(module, device_ids, output_device)
        self.module, self.mixed_precision = module, mixed_precision
        self.device = next(p for p in module.parameters() if p.requires_grad).device
        self.device_ids = [self.device] if self.device.type == "cuda" and device_ids else None
        self.output_device, self.dim = output_device, dim
        self.device_type = self.device.type
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = False
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._delayed = self._delayed_parameters(delay_all_reduce_named_params, param_to_hook_all_reduce)
        self.bucket_bytes_cap_default = bucket_cap_mb is None
        self.bucket_bytes_cap = int((_DEFAULT_BUCKET_MB if bucket_cap_mb is None else bucket_cap_mb) * 1024 * 1024)
        if self.bucket_bytes_cap <= 0:
            raise ValueError(f"bucket_cap_mb must be positive, not {bucket_cap_mb}")
        self._hook, self._futures, self._after_uneven = None, {}, None
        self._names, self._parameters_list = self._reduced_parameters()
        self._check_parameters_fit()
        if init_sync:
            self._sync_module_states()
        self._cast_buffers()
        self._static_asked = static_graph
        if deterministic not in (None, "ranks"):
            raise ValueError(f"deterministic must be None or 'ranks', not {deterministic!r}")
        self.deterministic, self._batch = deterministic, None
        if deterministic:
            from ._parts import Batch
            self._batch = Batch(self, parts)
        else:
            self._make_reducer(static_graph)

    # --- construction ---
    def _check_module(self, module, device_ids, output_device):
        parameters = list(module.parameters())
        if not any(p.requires_grad for p in parameters):
            raise RuntimeError("DistributedDataParallel is not needed when a module doesn't have any parameter that requires "
                               "a gradient.")
        if device_ids is not None and len(device_ids) > 1:
            raise ValueError("device_ids can only be None or contain a single element.")
        kinds = {p.device.type for p in parameters}
        if len(kinds) != 1:
            raise ValueError("DistributedDataParallel's input module must be on the same type of devices, but input module "
                             f"parameters locate in {kinds}.")
        if kinds == {"cpu"} and (device_ids or output_device is not None):
            raise ValueError("DistributedDataParallel device_ids and output_device arguments only work with single-device/"
                             "multiple-device GPU modules or CPU modules, but got device_ids "
                             f"{device_ids}, output_device {output_device}, and module parameters "
                             f"{({p.device for p in parameters})}.")
        for name, p in module.named_parameters():
            if p.requires_grad and type(p).__name__ == "UninitializedParameter":
                raise RuntimeError("Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a "
                                   "dummy forward pass to correctly initialize the modules")

    def _reduced_parameters(self):
        pairs = [(name, p) for name, p in self.module.named_parameters()
                 if p.requires_grad and name not in self.parameters_to_ignore and name not in self._ignored_in_buckets]
        return [name for name, _ in pairs], [p for _, p in pairs]

    def _delayed_parameters(self, named, hooked):
        """Parameters that are reduced together, when `hooked` has its gradient, and not by the reducer."""
        if named is None:
            return []
        if hooked is None:
            raise ValueError("delay_all_reduce_named_params needs param_to_hook_all_reduce, the parameter whose gradient starts "
                             "their reduction")
        self._ignored_in_buckets = {name for name, _ in named}
        hooked.register_post_accumulate_grad_hook(lambda _: self._reduce_delayed())
        return [p for _, p in named]

    _ignored_in_buckets = frozenset()

    def _reduce_delayed(self):
        from ... import distributed as dist
        if not self.require_backward_grad_sync:
            return
        with cresset.no_grad():
            grads = [cresset.zeros_like(p) if p.grad is None else p.grad for p in self._delayed]
            flat = cresset.cat([g.reshape(-1) for g in grads])
            dist.all_reduce(flat, dist.ReduceOp.AVG, self.process_group)
            for p, part in zip(self._delayed, flat.split([g.numel() for g in grads])):
                p.grad = part.view(p.shape).clone() if p.grad is None else p.grad.copy_(part.view(p.shape))

    def _sparse_parameters(self):
        """Returns the parameters whose gradients are sparse: those of embeddings with sparse=True."""
        from ..modules.sparse import Embedding, EmbeddingBag
        return {m.weight for m in self.module.modules() if isinstance(m, (Embedding, EmbeddingBag)) and m.sparse}

    def _check_parameters_fit(self):
        """All ranks must have the same parameters."""
        from ...distributed._reducer import _verify_params_across_processes
        _verify_params_across_processes(self.process_group, self._parameters_list, names=self._names)

    def _synced_buffers(self):
        return [b for name, b in self.module.named_buffers() if name not in self.parameters_to_ignore]

    def _broadcast(self, tensors):
        from ...distributed._reducer import _broadcast_coalesced
        _broadcast_coalesced(self.process_group, tensors)

    def _sync_module_states(self):
        self._broadcast([p for name, p in self.module.named_parameters() if name not in self.parameters_to_ignore]
                        + self._synced_buffers())

    def _make_reducer(self, static_graph):
        from ...distributed._reducer import _DEFAULT_FIRST_BUCKET_BYTES
        first = _DEFAULT_FIRST_BUCKET_BYTES if self.bucket_bytes_cap_default else self.bucket_bytes_cap
        self.static_graph = static_graph
        sparse = self._sparse_parameters()
        group = self.process_group
        handle = group._by_device.get(self.device_type, group._handle)
        if handle is None:  # a group of the program's class, whose allreduce _reduce_by_class calls
            handle = _C._comm_group("fake", "gradients", group.rank(), group.size(), None, None, 60000, "")
        self.reducer = _C._comm_reducer(handle, tuple(self._parameters_list),
                                        tuple(p in sparse for p in self._parameters_list), self.bucket_bytes_cap, first,
                                        bool(self.gradient_as_bucket_view), bool(self.find_unused_parameters),
                                        bool(static_graph))
        self._first_bucket_sizes = self._bucket_sizes()
        if self._hook is not None:
            self._set_hook(*self._hook)
        elif group._handle is None:
            self._reduce_by_class()
        elif self._reduce_dtype() is not None:
            from ...distributed.algorithms.ddp_comm_hooks.default_hooks import _compressed
            self._set_hook(None, lambda state, bucket: _compressed(self._reduce_dtype(), self.process_group, bucket))

    def _reduce_by_class(self):
        """Buckets are reduced by the allreduce of the group's class."""
        from ...distributed import AllreduceOptions

        def start(i):
            buffer = self.reducer.buffer(i)
            with cresset.no_grad():
                buffer.div_(self.process_group.size())
            self._futures[i] = self.process_group.allreduce([buffer], AllreduceOptions())

        def finish(i):
            work, result = self._futures.pop(i), None
            if self._has_future(work):
                result = work.get_future().wait()
            else:
                work.wait(timedelta(0))
            result = result[0] if isinstance(result, (list, tuple)) else result
            buffer = self.reducer.buffer(i)
            if isinstance(result, cresset.Tensor) and result is not buffer:
                with cresset.no_grad():
                    buffer.copy_(result.reshape(buffer.shape))
        self.reducer.set_hook(start, finish)

    @staticmethod
    def _has_future(work):
        from ...distributed import Work
        return type(work).get_future is not Work.get_future

    def _set_static_graph(self):
        """Says that every iteration uses the parameters as the first one does."""
        if self._has_trained:
            raise RuntimeError("set_static_graph() should be called before training loop starts and after "
                               "DistributedDataParallel is constructed.")
        if not self.static_graph:
            self._make_reducer(True)

    # --- training ---
    def will_sync_module_buffers(self):
        """Returns whether the next forward copies rank 0's buffers."""
        return self.require_forward_param_sync and self.broadcast_buffers and bool(self._synced_buffers())

    def _before_forward(self):
        if self._batch is not None:
            return self._batch.check()
        if cresset.is_grad_enabled() and self.require_backward_grad_sync:
            if self._joining is not None:
                active = self._joining.notify(self)
                self.reducer.set_divisor(self.process_group.size() if self._divide_by_all else active)
            self.reducer.before_forward()
        if self.require_forward_param_sync and self.broadcast_buffers and self.process_group.size() > 1:
            self._broadcast(self._synced_buffers())

    def _compile(self, how):
        """Returns a function that calls this module with a compiled module inside, and the latter: the calls between ranks that precede
        and follow forward are no part of a graph.  Twice None in mixed precision and with deterministic="ranks"."""
        if self.mixed_precision is not None or self._batch is not None:
            return None, None
        inside = how.function(self.module)

        def call(*inputs, **kwargs):
            before, self.__dict__["_compiled"] = self._compiled, inside
            try:
                return self(*inputs, **kwargs)
            finally:
                self.__dict__["_compiled"] = before
        return call, inside

    _compiled = None
    _joining, _has_trained, _divide_by_all, _active_ranks, _synced = None, False, True, None, 0

    # --- mixed precision ---
    def _reduce_dtype(self):
        """Returns the dtype of the reduction, or None for that of the gradients."""
        how = self.mixed_precision
        return None if how is None else how.reduce_dtype or how.param_dtype

    def _cast_buffers(self):
        how = self.mixed_precision
        if how is not None and how.buffer_dtype is not None:
            for buffer in self.module.buffers():
                if buffer.is_floating_point():
                    buffer.data = buffer.data.to(how.buffer_dtype)

    def _call_module(self, inputs, kwargs):
        """Calls the module; in mixed precision with parameters and inputs of the lower dtype, whose gradients return to the
        parameters through the cast."""
        dtype = self.mixed_precision.param_dtype if self.mixed_precision is not None else None
        if dtype is None:
            return (self._compiled or self.module)(*inputs, **kwargs)
        lower = {name: p.to(dtype) for name, p in self.module.named_parameters() if p.is_floating_point()}
        return cresset.func.functional_call(self.module, lower, _cast(inputs, dtype), _cast(kwargs, dtype))

    def _pre_forward(self, *inputs, **kwargs):
        """What precedes a call of the module.  Returns the inputs on its device."""
        self._before_forward()
        if self.device_ids:
            inputs, kwargs = _moved(inputs, self.device), _moved(kwargs, self.device)
        return inputs, kwargs

    def _post_forward(self, output):
        """What follows a call of the module.  Returns its output."""
        if self._batch is not None:
            return output
        sync = cresset.is_grad_enabled() and self.require_backward_grad_sync
        self.reducer.set_sync(sync)
        if sync:
            self.require_forward_param_sync = self._has_trained = True
            self._synced += 1
            outputs = [t for t in _tensors_in(output) if t.requires_grad] if self.find_unused_parameters else []
            self.reducer.after_forward(tuple(outputs))
        else:
            self.require_forward_param_sync = False
        return output

    def forward(self, *inputs, **kwargs):
        """Calls the module."""
        try:
            inputs, kwargs = self._pre_forward(*inputs, **kwargs)
        except RuntimeError as error:
            self._last_error = str(error)
            raise
        return self._post_forward(self._call_module(inputs, kwargs))

    def parts(self, *tensors):
        """With deterministic="ranks": yields the parts of this rank's batch, one after the other.  Call the module and
        backward() for each; after the last one the parameters have the averages as gradients."""
        if self._batch is None:
            raise RuntimeError("parts() needs DistributedDataParallel(..., deterministic='ranks')")
        return self._batch.parts(tensors)

    def average_of_parts(self, values):
        """Returns the average over all parts of numbers, such as losses, of which `values` has this rank's."""
        if self._batch is None:
            raise RuntimeError("average_of_parts() needs DistributedDataParallel(..., deterministic='ranks')")
        return self._batch.average(values)

    @contextmanager
    def no_sync(self):
        """Inside of the context, gradients stay at each rank and add up; the next backward outside reduces the sums."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def train(self, mode=True):
        super().train(mode)
        return self

    def scatter(self, inputs, kwargs, device_ids):
        """Returns the inputs on the module's device: there is one."""
        return (_moved(inputs, self.device),), (_moved(kwargs, self.device),)

    def to_kwargs(self, inputs, kwargs, device_id):
        """Returns the inputs on the module's device: there is one."""
        return (_moved(inputs, self.device),), (_moved(kwargs, self.device),)

    def gather(self, outputs, output_device):
        """Returns the outputs: there is one device."""
        return outputs

    # --- communication hooks ---
    def register_comm_hook(self, state, hook):
        """Makes hook(state, bucket) reduce buckets: it returns a future of the bucket's new elements."""
        _check_hook(hook)
        if self._hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._hook = (state, hook)
        self._set_hook(state, hook)

    def _set_hook(self, state, hook):
        from ...distributed._reducer import GradBucket
        from ...futures import Future

        def start(i):
            bucket = GradBucket(i, self.reducer, self._parameters_list)
            self._futures[i] = hook(state, bucket)
            if not isinstance(self._futures[i], Future):
                raise RuntimeError("callback must return a torch.futures.Future object, but got "
                                   f"{type(self._futures[i]).__name__}")

        def finish(i):
            result = self._futures.pop(i)
            result = result.wait() if hasattr(result, "wait") else result
            result = result[0] if isinstance(result, (list, tuple)) else result
            buffer = self.reducer.buffer(i)
            if result is not buffer:
                with cresset.no_grad():
                    buffer.copy_(result if result.is_sparse else result.reshape(buffer.shape))
        self.reducer.set_hook(start, finish)

    def _register_comm_hook(self, state, hook):
        self.register_comm_hook(state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type):
        from ...distributed.algorithms.ddp_comm_hooks import default_hooks
        from ...distributed._reducer import BuiltinCommHookType
        names = {BuiltinCommHookType.ALLREDUCE: default_hooks.allreduce_hook,
                 BuiltinCommHookType.FP16_COMPRESS: default_hooks.fp16_compress_hook}
        self.register_comm_hook(self.process_group, names[comm_hook_type])

    # --- uneven inputs ---
    def join(self, divide_by_initial_world_size=True, enable=True, throw_on_early_termination=False):
        """A context in which ranks may have different numbers of iterations."""
        from ...distributed.algorithms.join import Join
        return Join([self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size)

    def join_hook(self, **kwargs):
        """Returns what this rank does while others still train."""
        return _JoinHook(self, kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self):
        """The device of calls about ranks that ended."""
        return self.device

    @property
    def join_process_group(self):
        """The group of calls about ranks that ended."""
        return self.process_group

    # --- copies and files ---
    def __getstate__(self):
        state = dict(self.__dict__)
        for name in ("process_group", "reducer", "device_mesh"):
            state.pop(name, None)
        state["_futures"] = {}
        return state

    def __setstate__(self, state):
        from ... import distributed as dist
        self.__dict__.update(state)
        self.process_group, self.device_mesh = dist.distributed_c10d._get_default_group(), None
        self._names, self._parameters_list = self._reduced_parameters()
        self._make_reducer(self.static_graph)

    def _get_ddp_logging_data(self):
        """Returns facts by torch's names: numbers and texts.  Times of forward and backward are not among them."""
        group, params, output = self.process_group, self._parameters_list, self.output_device
        facts = {
            "backend_name": group.name(), "module_name": type(self.module).__name__, "bucket_sizes": self._first_bucket_sizes,
            "dtypes": ", ".join(sorted({_DTYPE_NAMES.get(p.dtype, str(p.dtype)) for p in params})),
            "device_ids": ", ".join(str(d.index or 0) for d in self.device_ids or ()),
            **{name.lower(): os.environ.get(name) or "N/A" for name in _LOGGED_VARIABLES},
            "world_size": group.size(), "rank": group.rank(), "iteration": max(0, self._synced - 1),
            "find_unused_parameters": int(self.find_unused_parameters), "broadcast_buffers": int(self.broadcast_buffers),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view), "static_graph": int(self.static_graph),
            "bucket_cap_bytes": self.bucket_bytes_cap, "num_parameter_tensors": len(params),
            "total_parameter_size_bytes": sum(p.numel() * p.element_size() for p in params), "is_multi_device_module": 0,
            "output_device": -1 if output is None else cresset.device(output).index or 0,
            "has_sync_bn": int(any(isinstance(m, cresset.nn.SyncBatchNorm) for m in self.module.modules()))}
        if self._synced > 1:
            count = self.reducer.bucket_count
            facts.update(has_rebuilt_buckets=int(self.reducer.rebuilt), num_buckets_reduced=count)
            if self.reducer.rebuilt:
                facts.update(rebuilt_bucket_sizes=self._bucket_sizes(), rebuilt_per_bucket_param_indices=", ".join(
                    " ".join(map(str, self.reducer.members(i))) for i in range(count)))
        if self._last_error is not None:
            facts.update(has_error=1, error=self._last_error)
        return facts

    _last_error = None  # of the reduction that the last forward was to wait for

    def _bucket_sizes(self):
        members = [[self._parameters_list[k] for k in self.reducer.members(i)] for i in range(self.reducer.bucket_count)]
        return ", ".join(str(sum(p.numel() * p.element_size() for p in bucket)) for bucket in members)

    @classmethod
    def _get_active_ddp_module(cls):
        return cls._active_ddp_module

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module, params_and_buffers_to_ignore):
        """Names parameters and buffers of a module that DistributedDataParallel leaves alone."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore


class _JoinHook:
    """While other ranks train, this rank adds zeros to their buckets."""

    def __init__(self, ddp, divide_by_initial_world_size):
        self.ddp = ddp
        ddp._divide_by_all = divide_by_initial_world_size

    def main_hook(self):
        """Answers the calls of one iteration of the others."""
        ddp = self.ddp
        ddp.reducer.set_divisor(ddp.process_group.size() if ddp._divide_by_all else ddp._active_ranks)
        ddp.reducer.before_forward()
        if ddp.broadcast_buffers and ddp._synced_buffers():
            ddp._broadcast(ddp._synced_buffers())
        ddp.reducer.idle()

    def post_hook(self, is_last_joiner):
        """Copies the last rank's parameters to all."""
        from ... import distributed as dist
        ddp = self.ddp
        ddp.reducer.set_divisor(ddp.process_group.size())
        who = cresset.tensor([dist.get_rank(ddp.process_group) if is_last_joiner else -1])
        dist.all_reduce(who, dist.ReduceOp.MAX, ddp.process_group)
        with cresset.no_grad():
            for tensor in [*ddp.module.parameters(), *ddp._synced_buffers()]:
                dist.broadcast(tensor.detach(), group=ddp.process_group, group_src=int(who))
