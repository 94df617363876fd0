"""FullyShardedDataParallel: a wrapper around fully_shard with the older interface.

Parameters keep their sizes and names, and are DTensors between forward and backward, as with use_orig_params=True: there is no flat
parameter.  State dicts have the names of the wrapped modules.
"""
import warnings
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import cresset

from ...nn.modules.module import Module
from ...nn.utils import clip_grad_norm_
from ...utils import swap_tensors
from ...utils._pytree import tree_map
from .. import distributed_c10d as dist
from ..device_mesh import DeviceMesh, init_device_mesh
from ..tensor import DTensor, Replicate
from ..tensor._redistribute import part_of, redistribute_local
from ..tensor._dtensor_spec import DTensorSpec, TensorMeta
from ._fully_shard import FSDPModule, fully_shard
from ._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from .api import (BackwardPrefetch, CPUOffload, FullOptimStateDictConfig, FullStateDictConfig, LocalOptimStateDictConfig,  # noqa: F401
                  LocalStateDictConfig, MixedPrecision, OptimStateDictConfig, OptimStateKeyType, ShardedOptimStateDictConfig,
                  ShardedStateDictConfig, ShardingStrategy, StateDictConfig, StateDictSettings, StateDictType)
from .wrap import _Policy, _or_policy, _recursive_wrap, _wrap_chosen, _wrap_module_cls_individually

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]

_INNER = "_fsdp_wrapped_module"
_CONFIGS = {StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
            StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
            StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig)}


def _mesh_of(process_group, device_mesh, strategy):
    """Returns the mesh over whose last dimension parameters are divided."""
    kind = "cuda" if cresset.cuda.is_available() and dist.get_backend(process_group) == "nccl" else "cpu"
    if device_mesh is not None:
        return device_mesh
    if strategy is ShardingStrategy.NO_SHARD:
        if process_group is not None:
            raise ValueError("NO_SHARD takes a device_mesh of two dimensions in place of a process group")
        return init_device_mesh(kind, (dist.get_world_size(), 1), mesh_dim_names=("replicate", "shard"))
    if strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2):
        if not isinstance(process_group, tuple):
            raise ValueError("Manual wrapping with ShardingStrategy.HYBRID_SHARD requires explicit specification of process group or "
                             "device_mesh.")
        raise ValueError("ShardingStrategy.HYBRID_SHARD takes a device_mesh of two dimensions in place of process groups")
    if process_group is not None:
        return DeviceMesh.from_group(process_group, kind)
    return init_device_mesh(kind, (dist.get_world_size(),))


def _placed_as(value, own):
    """Returns a whole tensor as the DTensor that a module has."""
    if not isinstance(own, DTensor) or isinstance(value, DTensor) or value.shape != own.shape:
        return value
    whole = tuple(Replicate() for _ in own.placements)
    local = redistribute_local(value.detach().to(own._local_tensor.device), own.shape, own.device_mesh, whole, own.placements)
    return DTensor(local.clone(), DTensorSpec(own.device_mesh, own.placements, TensorMeta(own.shape, own.stride(), value.dtype)))


def _own_modules(module, ignored):
    """Returns the modules inside, without those of wrappers inside."""
    found, left = [], [module]
    while left:
        m = left.pop(0)
        if m not in ignored and not isinstance(m, (FullyShardedDataParallel, FSDPModule)) and m not in found:
            found.append(m)
            left += m.children()
    return found


def _materialize(module, param_init_fn, device, ignored_modules, ignored):
    """Makes the parameters of a module that has some on meta: by a function of each module inside, or by its reset_parameters()."""
    modules = _own_modules(module, ignored_modules)
    if not any(p.is_meta and p not in ignored for m in modules for p in m.parameters(recurse=False)):
        return
    if param_init_fn is not None:
        if not callable(param_init_fn):
            raise ValueError(f"Expected {param_init_fn} to be callable but got {type(param_init_fn)}")
        for m in modules:
            param_init_fn(m)
        return
    for m in modules:
        if [*m.parameters(recurse=False), *m.buffers(recurse=False)]:
            try:
                with cresset.no_grad():
                    m.to_empty(device=device, recurse=False)
                    m.reset_parameters()
            except BaseException as e:
                warnings.warn(f"Unable to call `reset_parameters()` for module on meta device with error {e}. Please ensure that your "
                              f"module of type {type(m)} implements a `reset_parameters()` method.", stacklevel=3)
                raise


def _keep_precision(module, classes):
    """Modules of some classes get wrappers of their own without mixed precision; they compute in float32."""
    def cast(dtype):
        return lambda x: x.to(dtype) if isinstance(x, cresset.Tensor) and x.is_floating_point() else x

    def before(m, args):
        dtypes = [x.dtype for x in args if isinstance(x, cresset.Tensor) and x.is_floating_point()]
        m._fsdp_input_dtype = dtypes[-1] if dtypes else None
        return tree_map(cast(cresset.float32), args)

    def after(m, args, output):
        return output if m._fsdp_input_dtype is None else tree_map(cast(m._fsdp_input_dtype), output)
    found = [m for m in module.modules() if isinstance(m, classes)]
    for m in found:
        m._wrap_overrides = {"mixed_precision": None}
        m.register_forward_pre_hook(before)
        m.register_forward_hook(after)
    return found


def _wrap_inside(module, policy, precision, ignored_modules, ignored, options):
    """Wraps the submodules that a policy picks, and those that have no mixed precision."""
    classes = tuple(precision._module_classes_to_ignore or ()) if precision is not None else ()
    kept = _keep_precision(module, classes) if classes else []
    if kept:
        warnings.warn("Both mixed precision and an auto_wrap_policy were specified to FSDP, where the wrapped module has submodules of "
                      f"type:\n{ {type(m) for m in kept} }\nThese modules will be wrapped as separate FSDP instances with mixed precision "
                      "disabled.", stacklevel=3)
    if isinstance(policy, _Policy):
        chosen = policy._run_policy(module, ignored_modules, options)
        chosen.update({m: {**chosen.get(m, options), "mixed_precision": None} for m in kept if m not in ignored_modules})
        _wrap_chosen(module, chosen, FullyShardedDataParallel)
        return
    if kept:
        inner, alone = policy, partial(_wrap_module_cls_individually, module_classes=classes)
        policy = partial(_or_policy, policies=[inner, alone])
    _recursive_wrap(module, policy, FullyShardedDataParallel, ignored_modules, ignored, only_wrap_children=True, **options)


class FullyShardedDataParallel(Module):
    """A module whose parameters are divided over ranks.  With use_orig_params the parameters become DTensors, which an optimizer that
    has them already steps; else the module gets new ones.  forward_prefetch, limit_all_gathers and backward_prefetch change nothing:
    in backward the parameters of the module before are collected ahead."""

    def __init__(self, module, process_group=None, sharding_strategy=None, cpu_offload=None, auto_wrap_policy=None,
                 backward_prefetch=BackwardPrefetch.BACKWARD_PRE, mixed_precision=None, ignored_modules=None, param_init_fn=None,
                 device_id=None, sync_module_states=False, forward_prefetch=False, limit_all_gathers=True, use_orig_params=False,
                 ignored_states=None, device_mesh=None):
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise ValueError("Cannot pass both process_group and device_mesh at the same time. Please just pass only one of them.")
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        ignored_modules, ignored = self._ignored(ignored_modules, ignored_states)
        mesh = _mesh_of(process_group, device_mesh, strategy)
        device = cresset.device(device_id if not isinstance(device_id, int) else f"{mesh.device_type}:{device_id}") \
            if device_id is not None else cresset.device(mesh.device_type)
        if mixed_precision is not None and mixed_precision.keep_low_precision_grads:
            raise NotImplementedError("MixedPrecision(keep_low_precision_grads=True): gradients have the dtype of the parameters")
        options = {"sharding_strategy": strategy, "cpu_offload": cpu_offload, "mixed_precision": mixed_precision, "device_mesh": mesh,
                   "ignored_states": list(ignored), "use_orig_params": use_orig_params, "param_init_fn": param_init_fn,
                   "device_id": device_id, "sync_module_states": sync_module_states}
        if auto_wrap_policy is not None:
            _wrap_inside(module, auto_wrap_policy, mixed_precision, ignored_modules, ignored, options)
        _materialize(module, param_init_fn, device, ignored_modules, ignored)
        if device_id is not None:
            module = module.to(device)
        if sync_module_states:
            self._synchronize(module, mesh)
        precision = mixed_precision or MixedPrecision()
        self._buffer_dtypes = self._cast_buffers(module, precision.buffer_dtype, ignored_modules)
        policy = MixedPrecisionPolicy(precision.param_dtype, precision.reduce_dtype or precision.param_dtype,
                                      cast_forward_inputs=precision.cast_forward_inputs or precision.cast_root_forward_inputs)
        self._cast_at_root_alone(module)
        before = {(m, name): p for m in module.modules() for name, p in m._parameters.items()} if use_orig_params else {}
        fully_shard(module, mesh=mesh, mp_policy=policy, ignored_params=ignored,
                    reshard_after_forward=strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD),
                    offload_policy=CPUOffloadPolicy() if cpu_offload is not None and cpu_offload.offload_params else OffloadPolicy())
        for p in module._get_fsdp_state().group.params if use_orig_params else ():
            param = before[p.places[0]]
            swap_tensors(param, p.sharded)
            p.sharded = param
            p.register(param)
        self.sharding_strategy, self.mixed_precision, self._device_mesh = strategy, precision, mesh
        self.process_group = mesh.get_group(mesh.ndim - 1)
        self._settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())
        self.add_module(_INNER, module)
        self.register_load_state_dict_pre_hook(_before_load)

    @staticmethod
    def _ignored(modules, states):
        """Returns the modules and the parameters that stay as they are."""
        found = list(modules or ()) + [x for x in states or () if isinstance(x, Module)]
        params = {p for m in found for p in m.parameters()} | {x for x in states or () if not isinstance(x, Module)}
        return {sub for m in found for sub in m.modules()}, params

    @staticmethod
    def _cast_buffers(module, dtype, ignored):
        """Casts the buffers of the modules inside that no other wrapper has.  Returns {(module, name): dtype before}."""
        found = {}
        for m in _own_modules(module, ignored) if dtype is not None else ():
            for name, buffer in m._buffers.items():
                if buffer is not None and buffer.is_floating_point():
                    found[m, name] = buffer.dtype
                    m._buffers[name] = buffer.to(dtype)
        return found

    @staticmethod
    def _cast_at_root_alone(module):
        """The wrappers inside are no roots: of their options cast_forward_inputs counts."""
        for m in module.modules():
            if isinstance(m, FullyShardedDataParallel):
                group = m.module._get_fsdp_state().group
                group.policy = replace(group.policy, cast_forward_inputs=m.mixed_precision.cast_forward_inputs)

    @staticmethod
    def _synchronize(module, mesh):
        """Gives all ranks the first one's parameters and buffers."""
        with cresset.no_grad():
            for x in (*module.parameters(), *module.buffers()):
                for i in range(mesh.ndim):
                    if not isinstance(x, DTensor):
                        dist.broadcast(x.data, group=mesh.get_group(i), group_src=0)

    @property
    def module(self):
        """The wrapped module."""
        return self._modules[_INNER]

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            if _INNER not in self.__dict__.get("_modules", ()):
                raise
            return getattr(self._modules[_INNER], name)

    def __getitem__(self, key):
        return self.module[key]

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    # --- training ---
    @contextmanager
    def no_sync(self):
        """Inside, gradients are kept until the next backward outside."""
        self.module.set_requires_gradient_sync(False)
        try:
            yield
        finally:
            self.module.set_requires_gradient_sync(True)

    def clip_grad_norm_(self, max_norm, norm_type=2.0):
        """Clips the gradients of all ranks by their norm, and returns it."""
        norm = clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def apply(self, fn):
        """Calls a function with each module while it has whole parameters."""
        with self.summon_full_params(self):
            return super().apply(fn)

    @staticmethod
    def fsdp_modules(module, root_only=False):
        """Returns the wrappers inside of a module."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        inner = {sub for m in found for sub in m.modules() if sub is not m} if root_only else ()
        return [m for m in found if m not in inner]

    @staticmethod
    @contextmanager
    def summon_full_params(module, recurse=True, writeback=True, rank0_only=False, offload_to_cpu=False, with_grads=False):
        """Inside, modules have whole parameters; what is written to them is kept, unless writeback is False."""
        if writeback and rank0_only:
            raise NotImplementedError("writeback=True and rank0_only=True is not supported yet")
        if with_grads:
            raise NotImplementedError("summon_full_params with gradients")
        modules = [m for m in (module.modules() if recurse else [getattr(module, "module", module)]) if isinstance(m, FSDPModule)]
        groups = [m._get_fsdp_state().group for m in modules]
        if offload_to_cpu and any(group.mesh.device_type != "cpu" for group in groups):
            raise NotImplementedError("summon_full_params with offload_to_cpu: whole parameters stay on the device")
        with cresset.no_grad():
            for group in groups:
                group.unshard()
        try:
            yield
        finally:
            with cresset.no_grad():
                for group in groups:
                    if writeback and group.wholes is not None:
                        for p, whole in zip(group.params, group.wholes.tensors):
                            p.sharded._local_tensor.copy_(part_of(whole, p.dim, group.ranks, group.rank))
                    group.reshard()

    # --- state dicts ---
    @staticmethod
    def set_state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Sets what state dicts have.  Returns the settings before."""
        wrappers, kinds = FullyShardedDataParallel.fsdp_modules(module), _CONFIGS[state_dict_type]
        new = StateDictSettings(state_dict_type, state_dict_config or kinds[0](), optim_state_dict_config or kinds[1]())
        for given, kind in zip((new.state_dict_config, new.optim_state_dict_config), kinds):
            if not isinstance(given, kind):
                raise RuntimeError(f"Expected state_dict_config of type {kind} but got {type(given)}")
        before = FullyShardedDataParallel.get_state_dict_type(module)
        for m in wrappers:
            m._settings = new
        return before

    @staticmethod
    def get_state_dict_type(module):
        """Returns the settings."""
        found = FullyShardedDataParallel.fsdp_modules(module)
        return found[0]._settings if found else StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(),
                                                                   FullOptimStateDictConfig())

    @staticmethod
    @contextmanager
    def state_dict_type(module, state_dict_type, state_dict_config=None, optim_state_dict_config=None):
        """Sets what state dicts have inside."""
        before = FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            FullyShardedDataParallel.set_state_dict_type(module, before.state_dict_type, before.state_dict_config,
                                                         before.optim_state_dict_config)

    def state_dict(self, *args, destination=None, prefix="", keep_vars=False):
        """Returns the state by the names of the wrapped modules: whole tensors, or DTensors."""
        made = super().state_dict(*args, destination=destination, prefix=prefix, keep_vars=keep_vars)
        config, inner = self._settings.state_dict_config, f"{prefix}{_INNER}."
        places = {m: f"{inner}{name}." if name else inner for name, m in self.module.named_modules()}
        dtypes = {places[m] + name: dtype for (m, name), dtype in self._buffer_dtypes.items()}
        for key in [k for k in made if k.startswith(inner)]:
            value = made.pop(key)
            if key in dtypes and self._settings.state_dict_type is StateDictType.FULL_STATE_DICT:
                value = value.to(dtypes[key])
            if isinstance(value, DTensor) and self._settings.state_dict_type is StateDictType.FULL_STATE_DICT:
                value = value.full_tensor()
            elif isinstance(value, DTensor) and self._settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
                value = value.to_local()
            if getattr(config, "rank0_only", False) and dist.get_rank(self.process_group) != 0:
                continue
            made[prefix + key[len(inner):]] = value.cpu() if config.offload_to_cpu and isinstance(value, cresset.Tensor) else value
        return made

    @staticmethod
    def _optim_options(model):
        from ..checkpoint.state_dict import StateDictOptions
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        full, config = settings.state_dict_type is StateDictType.FULL_STATE_DICT, settings.optim_state_dict_config
        return StateDictOptions(full_state_dict=full, cpu_offload=False), full, config

    @staticmethod
    def optim_state_dict(model, optim, optim_state_dict=None, group=None):
        """Returns the state of an optimizer by the names of parameters."""
        from ..checkpoint.state_dict import get_optimizer_state_dict
        options, full, config = FullyShardedDataParallel._optim_options(model)  # its cpu_offload would leave the state at one rank
        state = get_optimizer_state_dict(model, optim, options=options)
        if full and getattr(config, "rank0_only", False) and dist.get_rank(group) != 0:
            return {}
        if config.offload_to_cpu:
            state["state"] = tree_map(lambda x: x.cpu() if isinstance(x, cresset.Tensor) else x, state["state"])
        return state

    @staticmethod
    def optim_state_dict_to_load(model, optim, optim_state_dict, is_named_optimizer=False, load_directly=False, group=None):
        """Returns what optim.load_state_dict() takes, of a dict that optim_state_dict() returned at all ranks."""
        from ..checkpoint.state_dict import _state_to_load
        options, _, _ = FullyShardedDataParallel._optim_options(model)
        made = _state_to_load(model, optim, optim_state_dict, options)
        if load_directly:
            optim.load_state_dict(made)
        return made


def _before_load(module, state_dict, prefix, *more):
    """Gives keys the wrapper's name, and whole tensors the placements of the module's own."""
    inner = f"{prefix}{_INNER}."
    own = dict(module.module.named_parameters(remove_duplicate=False))
    for key in [k for k in state_dict if k.startswith(prefix) and not k.startswith(inner)]:
        name = key[len(prefix):]
        state_dict[inner + name] = _placed_as(state_dict.pop(key), own.get(name))


def __getattr__(name):
    from ..._absent_names import missing
    raise missing(__name__, name)
