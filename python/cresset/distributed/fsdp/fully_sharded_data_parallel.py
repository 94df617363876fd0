"""FullyShardedDataParallel: a wrapper around fully_shard with the older interface.

Parameters keep their sizes and names, and are DTensors between forward and backward, as with use_orig_params=True: there is no flat
parameter.  State dicts have the names of the wrapped modules.
"""
from contextlib import contextmanager

import cresset

from ...nn.modules.module import Module
from ...nn.utils import clip_grad_norm_
from ...utils import swap_tensors
from .. import distributed_c10d as dist
from ..device_mesh import DeviceMesh, init_device_mesh
from ..tensor import DTensor, Replicate
from ..tensor._redistribute import part_of, redistribute_local
from ..tensor._spec import DTensorSpec, TensorMeta
from ._fully_shard import FSDPModule, fully_shard
from ._policies import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy
from .api import (BackwardPrefetch, CPUOffload, FullOptimStateDictConfig, FullStateDictConfig, LocalOptimStateDictConfig,  # noqa: F401
                  LocalStateDictConfig, MixedPrecision, OptimStateDictConfig, OptimStateKeyType, ShardedOptimStateDictConfig,
                  ShardedStateDictConfig, ShardingStrategy, StateDictConfig, StateDictSettings, StateDictType)
from .wrap import _Policy, _recursive_wrap, _wrap_chosen

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
        if device_id is not None:
            module = module.to(device_id if not isinstance(device_id, int) else f"{mesh.device_type}:{device_id}")
        if sync_module_states:
            self._synchronize(module, mesh)
        options = {"sharding_strategy": strategy, "cpu_offload": cpu_offload, "mixed_precision": mixed_precision, "device_mesh": mesh,
                   "ignored_states": list(ignored), "use_orig_params": use_orig_params}
        if isinstance(auto_wrap_policy, _Policy):
            _wrap_chosen(module, auto_wrap_policy._run_policy(module, ignored_modules, options), FullyShardedDataParallel)
        elif auto_wrap_policy is not None:
            _recursive_wrap(module, auto_wrap_policy, FullyShardedDataParallel, ignored_modules, ignored, only_wrap_children=True,
                            **options)
        precision = mixed_precision or MixedPrecision()
        if precision.buffer_dtype is not None:
            for name, buffer in module._buffers.items():
                if buffer is not None and buffer.is_floating_point():
                    module._buffers[name] = buffer.to(precision.buffer_dtype)
        policy = MixedPrecisionPolicy(precision.param_dtype, precision.reduce_dtype or precision.param_dtype,
                                      cast_forward_inputs=precision.cast_forward_inputs or precision.cast_root_forward_inputs)
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
        if with_grads:
            raise NotImplementedError("summon_full_params with gradients")
        modules = [m for m in (module.modules() if recurse else [getattr(module, "module", module)]) if isinstance(m, FSDPModule)]
        groups = [m._get_fsdp_state().group for m in modules]
        with cresset.no_grad():
            for group in groups:
                group.unshard()
        try:
            yield
        finally:
            with cresset.no_grad():
                for group in groups:
                    if writeback and not rank0_only and group.wholes is not None:
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
        for key in [k for k in made if k.startswith(inner)]:
            value = made.pop(key)
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
        options, full, config = FullyShardedDataParallel._optim_options(model)
        state = get_optimizer_state_dict(model, optim, options=options)
        if full and getattr(config, "rank0_only", False) and dist.get_rank(group) != 0:
            return {}
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
