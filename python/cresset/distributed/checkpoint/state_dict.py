"""States of modules and optimizers by the names of parameters, which do not depend on wrappers or on the order of groups."""
from collections.abc import Iterable
from dataclasses import dataclass

import cresset

from .. import distributed_c10d as dist
from ..tensor import DTensor, Replicate
from ..tensor._redistribute import redistribute_local
from ..tensor._dtensor_spec import DTensorSpec, TensorMeta

__all__ = ["StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
           "set_optimizer_state_dict", "set_state_dict"]

_WRAPPERS = ("module", "_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module")


@dataclass
class StateDictOptions:
    """full_state_dict: whole tensors, with cpu_offload at rank 0 alone; broadcast_from_rank0: rank 0's dict is for all."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


def _is_wrapper(module):
    from ...nn.parallel import DataParallel, DistributedDataParallel
    from ..algorithms._checkpoint.checkpoint_wrapper import ActivationWrapper
    from ..fsdp import FullyShardedDataParallel
    return isinstance(module, (DataParallel, DistributedDataParallel, ActivationWrapper, FullyShardedDataParallel)) or \
        hasattr(module, "_orig_mod")


def _own_state(owner):
    """Returns the state_dict() of the class, also of a module or an optimizer that _patch_... changed."""
    return type(owner).state_dict(owner) if hasattr(owner.state_dict, "patched") else owner.state_dict()


def _load_own(owner, state, **how):
    """Calls the load_state_dict() of the class."""
    load = owner.load_state_dict
    return type(owner).load_state_dict(owner, state, **how) if hasattr(load, "patched") else load(state, **how)


def _fqn(model, name):
    """Returns a name without the parts that wrappers add."""
    parts, at = [], model
    for part in name.split("."):
        if not (isinstance(at, cresset.nn.Module) and _is_wrapper(at) and part in _WRAPPERS):
            parts.append(part)
        at = getattr(at, part, None) if not isinstance(at, (dict, list)) else None
    return ".".join(parts)


def _options(options):
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def _parameters(model):
    """Returns {name without wrappers: parameter}."""
    return {_fqn(model, name): p for name, p in model.named_parameters()}


def _given(value, options):
    """Returns a state's tensors as the options ask for them."""
    if isinstance(value, dict):
        return {k: _given(v, options) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_given(v, options) for v in value)
    if not isinstance(value, cresset.Tensor):
        return value
    if options.full_state_dict and hasattr(value, "full_tensor"):
        value = value.full_tensor()
    return value.detach().cpu() if options.cpu_offload else value


def _result(state, options):
    state = _given(state, options)
    alone = options.full_state_dict and options.cpu_offload and dist.is_initialized() and dist.get_rank() != 0
    return {} if alone else state


# --- modules -----------------------------------------------------------------------------------------------------

def get_model_state_dict(model, *, submodules=None, options=None):
    """Returns a module's state by names without wrappers."""
    options = _options(options)
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad} if options.ignore_frozen_params else ()
    state = {_fqn(model, key): value for key, value in _own_state(model).items() if key not in frozen}
    if submodules:
        prefixes = [_fqn(model, name) + "." for name, m in model.named_modules() if m in submodules]
        state = {key if options.keep_submodule_prefixes else key[len(prefix):]: value
                 for prefix in prefixes for key, value in state.items() if key.startswith(prefix)}
    return _result(state, options)


def _everywhere(state, options):
    """Returns rank 0's state at all ranks."""
    if not options.broadcast_from_rank0 or not dist.is_initialized():
        return state
    box = [state if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box, 0)
    return box[0]


def _placed_as(value, own, options):
    """Returns a whole tensor of a full state dict as the DTensor that a module or an optimizer has."""
    if not options.full_state_dict or not isinstance(own, DTensor) or isinstance(value, DTensor) or value.shape != own.shape:
        return value
    whole = tuple(Replicate() for _ in own.placements)
    meta = own.device.type == "meta"  # a module that is made later
    local = value.detach().to(own.device_mesh.device_type if meta else own._local_tensor.device)
    local = redistribute_local(local, own.shape, own.device_mesh, whole, own.placements).clone()
    meta = TensorMeta(own.shape, own.stride(), local.dtype)
    return DTensor(local, DTensorSpec(own.device_mesh, own.placements, meta))


def set_model_state_dict(model, model_state_dict, *, options=None):
    """Gives a module a state that get_model_state_dict returned.  Returns missing and unexpected names."""
    options = _options(options)
    state = _everywhere(model_state_dict, options)
    if not state:
        return cresset.nn.modules.module._IncompatibleKeys([], [])
    tensors = _own_state(model)
    own = {_fqn(model, key): key for key in tensors}
    state = {own.get(key, key): value for key, value in state.items()}
    made = {key: _placed_as(value, tensors.get(key), options) for key, value in state.items()}
    meta = any(isinstance(x, cresset.Tensor) and x.device.type == "meta" for x in tensors.values())
    return _load_own(model, made, strict=options.strict, **({"assign": True} if meta else {}))


# --- optimizers --------------------------------------------------------------------------------------------------

def _listed(optimizers):
    return tuple(optimizers) if isinstance(optimizers, Iterable) else (optimizers,)


def _init_optim_state(optimizer):
    """Makes the states of an optimizer that has not stepped: a step with gradients of zero and a rate of zero."""
    if optimizer.state:
        return
    params = [p for g in optimizer.param_groups for p in g["params"] if p.requires_grad]
    if any(p.grad is not None for p in params):
        return
    rates = [(g, g["lr"]) for g in optimizer.param_groups if "lr" in g]
    for p in params:
        p.grad = cresset.zeros_like(p)
    for g, lr in rates:
        g["lr"] = cresset.tensor(0.0) if isinstance(lr, cresset.Tensor) else 0.0
    optimizer.step(closure=None)
    for g, lr in rates:
        g["lr"] = lr
    optimizer.zero_grad(set_to_none=True)


def _numbered(model, optimizer):
    """Returns the names of an optimizer's parameters in the order of its state_dict()."""
    names = {p: name for name, p in _parameters(model).items()}
    return [names[p] for g in optimizer.param_groups for p in g["params"]]


def _optimizer_state(model, optimizer, options):
    _init_optim_state(optimizer)
    names, state = _numbered(model, optimizer), _own_state(optimizer)
    frozen = {n for n, p in _parameters(model).items() if not p.requires_grad} if options.ignore_frozen_params else set()
    by_name = {names[i]: s for i, s in state["state"].items() if names[i] not in frozen}
    groups = [{**g, "params": [names[i] for i in g["params"] if names[i] not in frozen]} for g in state["param_groups"]]
    return {"state": by_name, "param_groups": groups}


def _flattened(state):
    """Returns one dict: state.NAME.KEY and param_groups.NAME.KEY."""
    flat = {f"state.{name}.{k}": v for name, s in state["state"].items() for k, v in s.items()}
    for group in state["param_groups"]:
        flat.update({f"param_groups.{name}.{k}": v for name in group["params"] for k, v in group.items() if k != "params"})
    return flat


def get_optimizer_state_dict(model, optimizers, *, submodules=None, options=None):
    """Returns the states of optimizers by the names of a module's parameters."""
    options, whole = _options(options), {"state": {}, "param_groups": []}
    for optimizer in _listed(optimizers):
        state = _optimizer_state(model, optimizer, options)
        whole["state"].update(state["state"])
        whole["param_groups"] += state["param_groups"]
    if submodules:
        inside = {name for m in submodules for p in m.parameters() for name, q in _parameters(model).items() if p is q}
        whole = {"state": {n: s for n, s in whole["state"].items() if n in inside},
                 "param_groups": [{**g, "params": [n for n in g["params"] if n in inside]} for g in whole["param_groups"]]}
    return _result(_flattened(whole) if options.flatten_optimizer_state_dict else whole, options)


def _nested(flat, optimizer, names):
    """Returns the two dicts of a flat one, for an optimizer's groups."""
    state, start, groups = {}, 0, []
    for name in names:
        prefix = f"state.{name}."
        own = {key[len(prefix):]: value for key, value in flat.items() if key.startswith(prefix) and "." not in key[len(prefix):]}
        if own:
            state[name] = own
    for g in optimizer.param_groups:
        params = names[start:start + len(g["params"])]
        start += len(params)
        groups.append({"params": params, **{k: flat[f"param_groups.{params[0]}.{k}"] for k in g
                                            if params and k != "params" and f"param_groups.{params[0]}.{k}" in flat}})
    return {"state": state, "param_groups": groups}


def _group_of(groups, names):
    for group in groups:
        if set(names) & set(group["params"]):
            return group
    return {}


def _state_to_load(model, optimizer, state, options):
    """Returns what the optimizer's load_state_dict() takes."""
    _init_optim_state(optimizer)
    names = _numbered(model, optimizer)
    if options.flatten_optimizer_state_dict or "param_groups" not in state:
        state = _nested(state, optimizer, names)
    own = _own_state(optimizer)
    missing = [names[i] for i in own["state"] if names[i] not in state["state"]]
    if missing and options.strict and not options.ignore_frozen_params:
        raise RuntimeError(f"Missing optimizer states of {', '.join(missing)}")
    numbers = {name: i for i, name in enumerate(names)}
    groups = []
    for g in own["param_groups"]:
        theirs = _group_of(state["param_groups"], [names[i] for i in g["params"]])
        groups.append({**g, **{k: v for k, v in theirs.items() if k != "params"}, "params": g["params"]})
    made = {}
    for i, s in own["state"].items():  # states that are not given stay
        given = state["state"].get(names[i])
        made[i] = s if given is None else {k: _placed_as(v, s.get(k), options) for k, v in given.items()}
    made.update({numbers[n]: s for n, s in state["state"].items() if n in numbers and numbers[n] not in made})
    return {"state": made, "param_groups": groups}


def set_optimizer_state_dict(model, optimizers, optim_state_dict, *, options=None):
    """Gives optimizers the states that get_optimizer_state_dict returned."""
    options = _options(options)
    state = _everywhere(optim_state_dict, options)
    for optimizer in _listed(optimizers) if state else ():
        _load_own(optimizer, _state_to_load(model, optimizer, state, options))


# --- both --------------------------------------------------------------------------------------------------------

def get_state_dict(model, optimizers, *, submodules=None, options=None):
    """Returns the states of a module and of its optimizers."""
    return (get_model_state_dict(model, submodules=submodules, options=options),
            get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options))


def set_state_dict(model, optimizers, *, model_state_dict, optim_state_dict, options=None):
    """Gives a module and its optimizers their states."""
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return set_model_state_dict(model, model_state_dict, options=options)


def _patched(function):
    function.patched = True
    return function


def _patch_model_state_dict(model, *, options=None):
    """Makes state_dict() and load_state_dict() of a module those of get_model_state_dict and set_model_state_dict."""
    model.state_dict = _patched(lambda: get_model_state_dict(model, options=options))
    model.load_state_dict = _patched(lambda state_dict: set_model_state_dict(model, state_dict, options=options))


def _patch_optimizer_state_dict(model, *, optimizers, options=None):
    """Makes state_dict() and load_state_dict() of optimizers those of all of them, by names."""
    for optimizer in _listed(optimizers):
        optimizer.state_dict = _patched(lambda: get_optimizer_state_dict(model, optimizers, options=options))
        optimizer.load_state_dict = _patched(
            lambda state_dict: set_optimizer_state_dict(model, optimizers, state_dict, options=options))
