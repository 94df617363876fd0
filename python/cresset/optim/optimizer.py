"""The base of all optimizers: parameter groups, state, state dicts, hooks.

A group is a dict with the parameters under "params" and the group's options.  State is a dict
for each parameter.  Programs may edit both between steps, so nothing derived from them is
cached.
"""
import warnings
import weakref
from collections import OrderedDict, defaultdict
from copy import deepcopy
from functools import wraps
from typing import Any, Dict, Iterable, Tuple, Union

import cresset
from .. import _C, Tensor
from .._C import _set_grad_enabled
from .._utils import typename
from ..utils._foreach_utils import _group_tensors_by_device_and_dtype
from ..utils.hooks import RemovableHandle

# What an optimizer takes: parameters, groups, or parameters with names.
ParamsT = Union[Iterable[Tensor], Iterable[Dict[str, Any]], Iterable[Tuple[str, Tensor]]]

__all__ = ["Optimizer", "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"]

_global_optimizer_pre_hooks = OrderedDict()
_global_optimizer_post_hooks = OrderedDict()


class _RequiredParameter:
    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook):
    """Calls hook(optimizer, args, kwargs) before every step of every optimizer."""
    return _add_hook(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """Calls hook(optimizer, args, kwargs) after every step of every optimizer."""
    return _add_hook(_global_optimizer_post_hooks, hook)


def _add_hook(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def _use_grad_for_differentiable(function):
    """Runs a step without recording it, unless the optimizer is differentiable."""

    @wraps(function)
    def step(self, *args, **kwargs):
        previous = cresset.is_grad_enabled()
        _set_grad_enabled(self.defaults.get("differentiable", False))
        try:
            return function(self, *args, **kwargs)
        finally:
            _set_grad_enabled(previous)

    return step


def _get_value(x):
    return x.item() if isinstance(x, Tensor) else x


def _to_scalar(x):
    """Converts a tensor of one element to one without dims; returns other values unchanged."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _get_scalar_dtype(is_fused=None):
    double = not is_fused and cresset.get_default_dtype() == cresset.float64
    return cresset.float64 if double else cresset.float32


def _check_nonnegative(name, value):
    if not 0.0 <= value:
        raise ValueError(f"Invalid {name}: {value}")


def _check_lr(lr):
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    _check_nonnegative("learning rate", lr)


def _check_betas(betas):
    for i, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


_CAPTURABLE_DEVICES = ["cuda", "xpu", "hpu", "privateuseone", "xla"]


def _check_capturable(state, params, names="params and state_steps", devices=_CAPTURABLE_DEVICES):
    """Checks that capturable=True is used only with parameters on a GPU."""
    if not all(p.device.type == s["step"].device.type == "cuda" for p, s in zip(params, state)):
        raise AssertionError(
            f"If capturable=True, {names} must be on supported devices: {devices}.")


def _check_foreach(group):
    if group["foreach"] and group["differentiable"]:
        raise AssertionError("_foreach ops don't support autograd")


class Optimizer:
    """Base class; subclasses set `defaults` and define `step`.

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.SGD([w], lr=0.1)
        >>> optimizer.param_groups[0]["lr"]
        0.1
    """

    def __init__(self, params, defaults):
        self.defaults = defaults
        self._make_hooks()
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of "
                            "Tensors or dicts, but got " + typename(params))
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._warned_capturable_if_run_uncaptured = True

    def _make_hooks(self):
        for name in ("step_pre", "step_post", "state_dict_pre", "state_dict_post",
                     "load_state_dict_pre", "load_state_dict_post"):
            self.__dict__.setdefault(f"_optimizer_{name}_hooks", OrderedDict())

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state,
                "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._make_hooks()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    # Steps and their hooks.

    @staticmethod
    def profile_hook_step(func):
        """Wraps the step `func` so that it runs the step hooks."""

        @wraps(func)
        def step(self, *args, **kwargs):
            if not (self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks
                    or _global_optimizer_pre_hooks or _global_optimizer_post_hooks):
                return func(self, *args, **kwargs)
            return self._step_with_hooks(func, args, kwargs)

        return step

    def _step_with_hooks(self, func, args, kwargs):
        args = (self, *args)  # hooks receive the optimizer as an argument, too
        for hook in (*_global_optimizer_pre_hooks.values(),
                     *self._optimizer_step_pre_hooks.values()):
            out = hook(self, args, kwargs)
            if out is None:
                continue
            if not (isinstance(out, tuple) and len(out) == 2):
                raise RuntimeError(
                    f"{func} must return None or a tuple of (new_args, new_kwargs), but got "
                    f"{out}.")
            args, kwargs = out
        result = func(*args, **kwargs)
        for hook in (*self._optimizer_step_post_hooks.values(),
                     *_global_optimizer_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    def _patch_step_function(self):
        cls = type(self)
        if not getattr(cls.step, "hooked", None):
            cls.step = self.profile_hook_step(cls.step)
            cls.step.hooked = True

    def register_step_pre_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) before step; it may return new (args, kwargs)."""
        return _add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """Calls hook(optimizer, args, kwargs) after step."""
        return _add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """Calls hook(optimizer) before state_dict."""
        return _add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """Calls hook(optimizer, state_dict) after state_dict; it may return another."""
        return _add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """Calls hook(optimizer, state_dict) before loading; it may return another."""
        return _add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """Calls hook(optimizer) after loading."""
        return _add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def step(self, closure=None):
        """Updates the parameters; `closure` recomputes the loss and returns it."""
        raise NotImplementedError

    def zero_grad(self, set_to_none=True):
        """Clears (or zeroes) the gradients of all parameters."""
        for group in self.param_groups:
            for param in group["params"]:
                if set_to_none:
                    param.grad = None
                elif param.grad is not None:
                    _zero(param.grad)

    # State.

    def state_dict(self):
        """Returns state and groups, with parameters replaced by their numbers."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers, groups, start = {}, [], 0
        for group in self.param_groups:
            for i, param in enumerate(group["params"], start):
                numbers.setdefault(id(param), i)
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            start += len(packed["params"])
            groups.append(packed)
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v
                 for k, v in self.state.items()}
        out = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, out)
            out = out if changed is None else changed
        return out

    @staticmethod
    def _process_value_according_to_param_policy(param, value, param_id, param_groups,
                                                 key=None):
        """Converts a saved tensor to the parameter's dtype and device; the step count stays on its
        device."""
        if key != "step":
            dtype = param.dtype if param.is_floating_point() else None
            return value.to(dtype=dtype, device=param.device)
        group = next((g for g in param_groups if param_id in g["params"]), {})
        if group.get("capturable", False) or group.get("fused", False):
            return value.to(dtype=cresset.float32, device=param.device)
        return value

    def _cast(self, param, value, param_id, groups, key=None):
        if isinstance(value, Tensor):
            return self._process_value_according_to_param_policy(param, value, param_id, groups,
                                                                 key)
        if isinstance(value, dict):
            return {k: self._cast(param, v, param_id, groups, k) for k, v in value.items()}
        if hasattr(value, "__iter__") and not isinstance(value, (str, bytes)):
            return type(value)(self._cast(param, v, param_id, groups) for v in value)
        return value

    def load_state_dict(self, state_dict):
        """Sets a state that state_dict returned."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        self._set_state(state_dict)
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _set_state(self, state_dict):
        saved = deepcopy(state_dict["param_groups"])
        self._check_groups(saved)
        params = {}
        for group, old in zip(self.param_groups, saved):
            params.update(zip(old["params"], group["params"]))
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                state[params[key]] = self._cast(params[key], value, key,
                                                state_dict["param_groups"])
            else:
                state[key] = value
        for group, old in zip(self.param_groups, saved):
            old["params"] = group["params"]
            if "param_names" in group:
                old.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})

    def _check_groups(self, saved):
        if len(self.param_groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"])
               for a, b in zip(self.param_groups, saved)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match "
                             "the size of optimizer's group")

    # Groups.

    def add_param_group(self, param_group):
        """Adds a group: a dict with "params" and options that differ from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        _normalize_params(param_group)
        for param in param_group["params"]:
            self._check_param(param)
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError("parameter group didn't specify a value of required "
                                 f"optimization parameter {name}")
            param_group.setdefault(name, default)
        self._check_overlap(param_group)
        self.param_groups.append(param_group)

    def _check_param(self, param):
        if not isinstance(param, Tensor):
            raise TypeError("optimizer can only optimize Tensors, but one of the params is "
                            + typename(param))
        if not self.defaults.get("differentiable", None) and not (
                param.is_leaf or param.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    def _check_overlap(self, param_group):
        params = set(param_group["params"])
        if len(params) != len(param_group["params"]):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information", stacklevel=4)
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                kind = "with names" if "param_names" in param_group else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {kind} to the optimizer")
            if not params.isdisjoint(group["params"]):
                raise ValueError("some parameters appear in more than one parameter group")


def _zero(grad):
    if grad.grad_fn is not None:
        grad.detach_()
    else:
        grad.requires_grad_(False)
    grad.zero_()


def _normalize_params(group):
    """Makes "params" a list; (name, parameter) pairs are split into two lists."""
    params = group["params"]
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering "
            "of tensors in sets will change between runs. Please use a list instead.")
    params = [params] if isinstance(params, Tensor) else list(params)
    names = [p[0] for p in params if isinstance(p, tuple)]
    if names and len(names) != len(params):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing")
    if names:
        group["param_names"] = names
        params = [p[1] for p in params]
    group["params"] = params


class ElementwiseOptimizer(Optimizer):
    """An optimizer that updates each parameter from its gradient and state.

    A subclass defines `_new_state`, and `_update` for one parameter.  `_update` sees complex
    parameters as real ones with one more dim.  With `_fused_numbers` it also defines
    `_step_fused`, which updates all parameters of a group by one operator.
    """

    # Options that groups of old state dicts lack, and states that were plain numbers there.
    _late_options = {"foreach": None, "maximize": False, "differentiable": False,
                     "capturable": False}
    _scalars = ("step",)
    # The names in the error message for capturable=True.
    _capturable_names = "params and state_steps"
    _capturable_devices = _CAPTURABLE_DEVICES

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._late_options.items():
                group.setdefault(name, value)
            for param in group["params"]:
                self._restore_scalars(param, self.state.get(param) or {}, group)

    def _restore_scalars(self, param, state, group):
        for name in self._scalars:
            if name in state and not isinstance(state[name], Tensor):
                state[name] = self._scalar(float(state[name]), param, group)

    @staticmethod
    def _scalar(value, param, group):
        """Returns a number of the state as a tensor: on the CPU, or on the device for
        capturable=True."""
        there = group.get("capturable") or group.get("fused")
        return cresset.tensor(value, dtype=_get_scalar_dtype(group.get("fused")),
                              device=param.device if there else "cpu")

    def _accelerator_graph_capture_health_check(self):
        """Refuses a captured step that would count on the host, so once for all launches."""
        if not _C._cuda_is_initialized() or cresset.compiler.is_compiling():
            return
        capturable = all(group.get("capturable") for group in self.param_groups)
        capturing = _C._cuda_is_capturing()
        if capturing and not capturable:
            raise RuntimeError(f"Attempting CUDA graph capture of step() for an instance of {type(self).__name__} but "
                               "param_groups' capturable is False.")
        if capturable and not capturing and not self.__dict__.get("_warned_capturable_if_run_uncaptured"):
            warnings.warn("This instance was constructed with capturable=True or some of all the param_groups came with "
                          "capturable=True, but step() is running without CUDA graph capture. If you never intend to "
                          "graph-capture this instance, capturable=True can impair performance, and you should set "
                          "capturable=False.", stacklevel=3)
            self._warned_capturable_if_run_uncaptured = True

    _cuda_graph_capture_health_check = _accelerator_graph_capture_health_check

    def step(self, closure=None):
        """Updates all parameters that have gradients."""
        if "capturable" in self.defaults:
            self._accelerator_graph_capture_health_check()
        loss = None
        if closure is not None:
            with cresset.enable_grad():
                loss = closure()
        previous = cresset.is_grad_enabled()
        _set_grad_enabled(self.defaults.get("differentiable", False))
        try:
            for group in self.param_groups:
                self._step_group(group)
        finally:
            _set_grad_enabled(previous)
        return loss

    def _collect(self, group):
        """Returns (parameters, gradients, states) of the parameters with a gradient."""
        params, grads, states = [], [], []
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if grad.is_sparse:
                self._refuse_sparse()
            state = self.state[param]
            if not state:
                state.update(self._new_state(param, grad, group))
            params.append(param)
            grads.append(grad)
            states.append(state)
        return params, grads, states

    def _refuse_sparse(self):
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    # Options that _step_fused needs as plain numbers; empty when there is no _step_fused.
    _fused_numbers = ()

    def _may_fuse(self, group, params):
        """Returns whether all parameters can be updated by one operator."""
        return (bool(self._fused_numbers) and group.get("fused") is not False
                and not group["differentiable"] and not group.get("capturable")
                and not any(isinstance(group[name], Tensor) for name in self._fused_numbers)
                and all(p.is_floating_point() for p in params))

    def _count(self, group, steps, update):
        """Runs update(values of the steps), which counts them up.  Those on a device are read
        when something else changed them, because a read makes the host wait; None on the host,
        and in programs, where values change from run to run."""
        if steps[0].is_cpu or cresset.compiler.is_compiling():
            return update(None)
        noted = self.__dict__.setdefault("_counts", {}).get(id(group), [])
        before = [step._changes for step in steps]
        if len(noted) == len(steps) and all(
                note[0]() is step and note[1] == now is not None
                for note, step, now in zip(noted, steps, before)):
            known = [note[2] for note in noted]
        else:
            known = [float(step) for step in steps]
        update(known)
        self._counts[id(group)] = [
            (weakref.ref(step), step._changes, n + (step._changes != was))
            for step, n, was in zip(steps, known, before)]

    def _scaling(self):
        """Returns the values that amp's scaler leaves for a fused step."""
        found_inf = getattr(self, "found_inf", None)
        if found_inf is None:
            return {}
        return {"grad_scale": self.grad_scale, "found_inf": found_inf}

    def _step_group(self, group):
        params, grads, states = self._collect(group)
        if not params:
            return
        _check_foreach(group)
        if group["capturable"]:
            _check_capturable(states, params, self._capturable_names, self._capturable_devices)
        if self._may_fuse(group, params):
            return self._step_fused(group, params, grads, states)
        lr = _to_scalar(group["lr"])
        for param, grad, state in zip(params, grads, states):
            if group["maximize"]:
                grad = -grad
            if param.is_complex():
                param, grad = cresset.view_as_real(param), cresset.view_as_real(grad)
                state = _RealState(state)
            self._update(param, grad, state, group, lr)


class _RealState:
    """A state whose complex tensors are read as real ones."""

    def __init__(self, state):
        self.state = state

    def __getitem__(self, name):
        value = self.state[name]
        return cresset.view_as_real(value) if value.is_complex() else value

    def __setitem__(self, name, value):
        raise TypeError("the tensors of a state are updated in place")


def _zeros_like(param):
    return cresset.zeros_like(param, memory_format=cresset.preserve_format)


def _decayed(param, grad, group):
    """Returns the gradient of the loss plus the penalty weight_decay / 2 * param ** 2."""
    decay = group["weight_decay"]
    return grad.add(param, alpha=decay) if decay != 0 else grad


def _count(state, group):
    """Counts a step.  Returns the count, as a tensor for capturable=True."""
    step = state["step"]
    step += 1
    return step if group["capturable"] else step.item()


def _check_fused(group_options):
    if group_options["differentiable"]:
        raise RuntimeError("`fused` does not support `differentiable`")
    if group_options["foreach"]:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def _check_fusible(params):
    devices = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]
    for p in params:
        if not p.is_floating_point():
            raise RuntimeError(
                "`fused=True` requires all the params to be floating point Tensors of supported "
                f"devices: {devices} but {p.dtype} and {p.device.type}")


def _get_capturable_supported_devices(supports_xla=True):
    """The kinds of devices on which a step can be captured."""
    return ["cuda"]


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """(fused, foreach) by default: lists of tensors on the host are computed one after the other."""
    if differentiable or not params:
        return False, False
    given = [p for p in params if p is not None]
    on_device = all(p.is_cuda and type(p).__name__ in ("Tensor", "Parameter") for p in given)
    fused = use_fused and on_device and all(p.is_floating_point() for p in given)
    return fused, on_device and not fused


Optimizer._group_tensors_by_device_and_dtype = staticmethod(_group_tensors_by_device_and_dtype)
