"""An optimizer whose state has the names of parameters as keys."""
import warnings
from copy import deepcopy

import cresset

from ...optim import Optimizer
from .._shard.sharded_tensor import ShardedTensor

__all__ = []


def _checked_groups(groups):
    """Returns groups whose parameters are lists of tensors."""
    for group in groups:
        if not isinstance(group, dict):
            raise AssertionError("param group must be a dict")
        if "params" not in group:
            raise AssertionError("param group must contain key params")
        params = group["params"]
        group["params"] = params = [params] if isinstance(params, cresset.Tensor) else list(params)
        for param in params:
            if not isinstance(param, cresset.Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {cresset.typename(param)}")
    return groups


def _copied(name, key, target, source):
    """Copies a value of a state into the optimizer's tensor.  Returns the optimizer's new value."""
    if isinstance(target, ShardedTensor):
        if not isinstance(source, ShardedTensor):
            raise AssertionError(f"{name}/{key}: the optimizer has a ShardedTensor, the state has {type(source).__name__}")
        own, new = target.local_shards(), source.local_shards()
        if len(own) != len(new):
            raise ValueError(f"Expects equal number of shards as {len(new)} but found {len(own)} for {name}/{key}")
        for shard, theirs in zip(own, new):
            shard.tensor.detach().copy_(theirs.tensor)
        return target
    if isinstance(target, cresset.Tensor):
        if not isinstance(source, cresset.Tensor):
            raise AssertionError(f"{name}/{key}: the optimizer has a tensor, the state has {type(source).__name__}")
        target.detach().copy_(source)
        return target
    return deepcopy(source)


class _NamedOptimizer(Optimizer):
    """Makes an optimizer of named parameters; its state_dict has names where other optimizers have numbers.

    `param_groups`, if given, are the optimizer's groups; named_parameters then only gives names.
    """

    def __init__(self, named_parameters, optimizer_class, param_groups=None, module=None, *args, **kwargs):
        if param_groups is not None:
            param_groups = _checked_groups(list(param_groups))
        self.named_parameters, self.module = dict(named_parameters), module
        self._optimizer = optimizer_class(self.named_parameters.values() if param_groups is None else param_groups, *args,
                                          **kwargs)
        if param_groups is None:
            self.ordered_param_keys = list(self.named_parameters)
        else:
            warnings.warn("Since we pass in param_groups, we will use param_groups to initialize the optimizer, not all parameters "
                          "of the module.", stacklevel=2)
            names = self._names()
            for param in (p for group in param_groups for p in group["params"]):
                if param not in names:
                    raise ValueError(f"Expect param name {param} found in param group but is missing.")
            self.ordered_param_keys = [names[p] for group in param_groups for p in group["params"]]
        self.param_groups = self._optimizer.param_groups

    def _names(self):
        return {param: name for name, param in self.named_parameters.items()}

    @property
    def state(self):
        """The state of the optimizer inside, by parameter."""
        return self._optimizer.state

    def state_dict(self):
        """Returns the optimizer's state by names; a group's names are sorted."""
        own, names = self._optimizer.state_dict(), self.ordered_param_keys
        return {"state": {names[i]: value for i, value in own["state"].items()},
                "param_groups": [{"params": sorted(names[i] for i in group["params"]),
                                  **{k: deepcopy(v) for k, v in group.items() if k != "params"}} for group in own["param_groups"]]}

    def load_state_dict(self, state_dict):
        """Loads a state by names.  The optimizer must have a state (init_state()), whose tensors get the new values; parameters
        and groups that the dict lacks keep theirs."""
        own = self._optimizer.state_dict()
        if not own["state"]:
            raise ValueError("Expects the optim to be initialized before load but found not initialized.")
        with cresset.no_grad():
            for i, name in enumerate(self.ordered_param_keys):
                if name in state_dict["state"]:
                    self._load_parameter(name, own["state"][i], state_dict["state"][name])
        self._load_groups(own["param_groups"], state_dict["param_groups"])
        self._optimizer.load_state_dict(own)
        self.param_groups = self._optimizer.param_groups

    @staticmethod
    def _load_parameter(name, own, new):
        if len(own) != len(new):
            raise ValueError(f"Expects equal length as {len(own)} for parameter {name} but found: {len(new)}")
        for key in own:
            if key not in new:
                raise ValueError(f"Expects state {key} for parameter {name} but not found.")
            own[key] = _copied(name, key, own[key], new[key])

    def _load_groups(self, groups, new_groups):
        saved = {_gen_param_group_key(group["params"]): group for group in new_groups}
        for group in groups:
            key = _gen_param_group_key([self.ordered_param_keys[i] for i in group["params"]])
            if key not in saved:
                continue
            if len(saved[key]) != len(group):
                raise ValueError(f"Expects equal param_group size as {len(group)} for group {key} but found {len(saved[key])}.")
            for name, value in saved[key].items():
                if name not in group:
                    raise ValueError(f"Expects group key {name} to be in group {key} in `state_dict` but is missing.")
                if name != "params":
                    group[name] = deepcopy(value)

    def step(self, closure=None):
        """Steps."""
        return self._optimizer.step(closure=closure)

    def zero_grad(self, set_to_none=True):
        """Clears gradients."""
        self._optimizer.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group):
        """Adds a group of parameters that have names."""
        _checked_groups([param_group])
        names = self._names()
        if any(param not in names for param in param_group["params"]):
            raise ValueError("some parameters are not in the module")
        self.ordered_param_keys += [names[param] for param in param_group["params"]]
        self._optimizer.add_param_group(param_group)
        self.param_groups = self._optimizer.param_groups

    def init_state(self):
        """Makes the states, by a step with gradients of zero."""
        for param in self.named_parameters.values():
            if param.requires_grad:
                param.grad = cresset.zeros_like(param)
        self.step(closure=None)


def _gen_param_group_key(param_keys):
    """Returns the key of a group: its names, sorted."""
    return "/".join(sorted(param_keys))
