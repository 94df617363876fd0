"""Modules around modules: backward computes the inner module's values again, or they wait in host memory."""
from abc import ABC, abstractmethod
from enum import Enum, auto
from functools import partial

from ....autograd.graph import save_on_cpu
from ....nn import Module
from ....utils.checkpoint import checkpoint as _checkpoint
from ...utils import _pack_kwargs, _replace_by_prefix, _unpack_kwargs

_CHECKPOINT_WRAPPED_MODULE = "_checkpoint_wrapped_module"
_CHECKPOINT_PREFIX = _CHECKPOINT_WRAPPED_MODULE + "."


class CheckpointImpl(Enum):
    """How values are computed again (cresset.utils.checkpoint)."""

    REENTRANT = auto()
    NO_REENTRANT = auto()


class ActivationWrapper(Module, ABC):
    """A module around another one, whose names of parameters and keys of state dicts are the inner module's."""

    def __init__(self, mod):
        super().__init__()
        self._checkpoint_wrapped_module = mod
        self._register_state_dict_hook(self._post_state_dict_hook)
        self.register_load_state_dict_pre_hook(self._pre_load_state_dict_hook)

    @abstractmethod
    def forward(self, *args, **kwargs):
        """Calls the inner module."""
        raise ValueError("Subclasses should implement forward().")

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__(_CHECKPOINT_WRAPPED_MODULE), name)

    def __getitem__(self, key):
        return self._checkpoint_wrapped_module[key]

    def named_parameters(self, *args, **kwargs):
        """Yields names of the inner module, and parameters."""
        for name, param in super().named_parameters(*args, **kwargs):
            yield name.replace(_CHECKPOINT_PREFIX, ""), param

    @staticmethod
    def _post_state_dict_hook(module, state_dict, prefix, *args):
        _replace_by_prefix(state_dict, prefix + _CHECKPOINT_PREFIX, prefix)
        return state_dict

    @staticmethod
    def _pre_load_state_dict_hook(module, state_dict, prefix, *args):
        _replace_by_prefix(state_dict, prefix, prefix + _CHECKPOINT_PREFIX)


class OffloadWrapper(ActivationWrapper):
    """Values that backward needs wait in host memory."""

    def forward(self, *args, **kwargs):
        with save_on_cpu(pin_memory=True):
            return self._checkpoint_wrapped_module(*args, **kwargs)


class CheckpointWrapper(ActivationWrapper):
    """Backward computes the inner module's values again."""

    def __init__(self, mod, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            checkpoint_fn = partial(_checkpoint, use_reentrant=checkpoint_impl is CheckpointImpl.REENTRANT)
        self.checkpoint_fn = partial(checkpoint_fn, **checkpoint_fn_kwargs)

    def forward(self, *args, **kwargs):
        if self.checkpoint_impl is not CheckpointImpl.REENTRANT or not kwargs:
            return self.checkpoint_fn(self._checkpoint_wrapped_module, *args, **kwargs)
        flat, keys = _pack_kwargs(*args, **kwargs)  # a reentrant checkpoint takes no keyword arguments

        def call(*inputs):
            inner_args, inner_kwargs = _unpack_kwargs(inputs, keys)
            return self._checkpoint_wrapped_module(*inner_args, **inner_kwargs)
        return self.checkpoint_fn(call, *flat)


def offload_wrapper(module):
    """Returns a module whose saved values wait in host memory."""
    return OffloadWrapper(module)


def checkpoint_wrapper(module, checkpoint_impl=CheckpointImpl.NO_REENTRANT, checkpoint_fn=None, **checkpoint_fn_kwargs):
    """Returns a module whose values backward computes again, by checkpoint_fn or cresset.utils.checkpoint.checkpoint."""
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda _: True,
                                   auto_wrap_policy=None):
    """Puts wrappers around the submodules that check_fn, or a policy of distributed.fsdp.wrap, picks; not around the model."""
    from ...fsdp.wrap import _Policy, _recursive_wrap, _wrap_chosen, lambda_auto_wrap_policy
    policy = auto_wrap_policy if auto_wrap_policy is not None else partial(lambda_auto_wrap_policy, lambda_fn=check_fn)
    if callable(policy):  # ModuleWrapPolicy is, too: a module of several parents has a wrapper in each
        _recursive_wrap(module=model, auto_wrap_policy=policy, wrapper_cls=checkpoint_wrapper_fn, ignored_modules=set(),
                        ignored_params=set(), only_wrap_children=True)
    elif isinstance(policy, _Policy):
        chosen = policy._run_policy(model, ignored_modules=set(), root_kwargs={})
        _wrap_chosen(model, chosen, checkpoint_wrapper_fn)
    else:
        raise ValueError(f"Expected {policy} to be callable or be a pre-defined wrap policy")
