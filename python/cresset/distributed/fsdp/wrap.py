"""Which submodules of a module get a wrapper: policies, and annotations in a module's constructor."""
import copy
from abc import ABC, abstractmethod
from contextlib import contextmanager

from ...nn import Module, ModuleDict, ModuleList, MultiheadAttention

__all__ = ["always_wrap_policy", "lambda_auto_wrap_policy", "transformer_auto_wrap_policy", "size_based_auto_wrap_policy",
           "enable_wrap", "wrap", "CustomPolicy", "ModuleWrapPolicy"]


# --- policies that see a module and the elements that no inner wrapper has ------------------------------------------

def always_wrap_policy(*args, **kwargs):
    """Picks every module."""
    return True


def lambda_auto_wrap_policy(module, recurse, nonwrapped_numel, lambda_fn):
    """Picks the modules for which a function returns True."""
    return True if recurse else lambda_fn(module)


def transformer_auto_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls):
    """Picks the modules of some classes."""
    return _module_wrap_policy(module, recurse, nonwrapped_numel, transformer_layer_cls)


def _module_wrap_policy(module, recurse, nonwrapped_numel, module_classes):
    return recurse or isinstance(module, tuple(module_classes))


def _wrap_module_cls_individually(module, module_classes, recurse, *args, **kwargs):
    return recurse or isinstance(module, tuple(module_classes))


def _or_policy(module, recurse, nonwrapped_numel, policies):
    """Picks the modules that one of the policies picks."""
    return any(policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies)


def size_based_auto_wrap_policy(module, recurse, nonwrapped_numel, min_num_params=int(1e8), force_leaf_modules=None,
                                exclude_wrap_modules=None):
    """Picks modules with at least so many elements.  Of force_leaf_modules no part is picked, of exclude_wrap_modules not the
    module."""
    left_out = force_leaf_modules if recurse else exclude_wrap_modules
    if left_out is None:
        left_out = size_based_auto_wrap_policy.FORCE_LEAF_MODULES if recurse else size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES
    return nonwrapped_numel >= min_num_params and not isinstance(module, tuple(left_out))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}


# --- policies that see the whole module ----------------------------------------------------------------------------

class _Policy(ABC):
    """Gives the modules that get a wrapper, each with the wrapper's options."""

    @abstractmethod
    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        """Returns a dict from modules to options."""


class ModuleWrapPolicy(_Policy):
    """Picks the modules of some classes."""

    def __init__(self, module_classes):
        self._module_classes = set(module_classes)

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        return {m: copy.copy(root_kwargs) for m in root_module.modules()
                if m not in ignored_modules and isinstance(m, tuple(self._module_classes))}

    def __call__(self, module, recurse, *args, **kwargs):
        return _module_wrap_policy(module, recurse, -1, self._module_classes)

    def __repr__(self):
        return f"{super().__repr__()}({self._module_classes})"


class CustomPolicy(_Policy):
    """Picks the modules for which a function returns True, or options that replace the root's."""

    def __init__(self, lambda_fn):
        self._lambda_fn = lambda_fn

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        found = {}
        for module in root_module.modules():
            if module in ignored_modules:
                continue
            answer = self._lambda_fn(module)
            if not isinstance(answer, (dict, bool)):
                raise ValueError("The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, but it returned "
                                 f"{answer}")
            if answer:
                found[module] = {**root_kwargs, **(answer if isinstance(answer, dict) else {})}
        return found


# --- wrapping ------------------------------------------------------------------------------------------------------

def _wrap(module, wrapper_cls, **kwargs):
    return wrapper_cls(module, **{**kwargs, **getattr(module, "_wrap_overrides", {})})


def _recursive_wrap(module, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, only_wrap_children=False, **kwargs):
    """Wraps what a policy picks, from the leaves up.  Returns the module, or its wrapper, and the elements inside of wrappers."""
    if isinstance(wrapper_cls, type):
        for child in module.modules():
            if child not in ignored_modules and isinstance(child, wrapper_cls):
                raise AssertionError(f"Child module {child} is already wrapped by {wrapper_cls}")
    numel = sum(p.numel() for p in module.parameters() if p not in ignored_params)
    if not auto_wrap_policy(module=module, recurse=True, nonwrapped_numel=numel):
        return module, 0
    inside = 0
    for name, child in list(module.named_children()):
        if child not in ignored_modules:
            made, n = _recursive_wrap(child, auto_wrap_policy, wrapper_cls, ignored_modules, ignored_params, **kwargs)
            setattr(module, name, made)
            inside += n
    if not only_wrap_children and auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=numel - inside):
        return _wrap(module, wrapper_cls, **kwargs), numel
    return module, inside


def _wrap_chosen(root, options_by_module, wrapper):
    """Wraps the modules of a dict, from the leaves up, but not the root."""
    seen = {root}

    def visit(module):
        for name, child in list(module.named_children()):
            if child in seen:
                continue
            seen.add(child)
            visit(child)
            if child in options_by_module:
                made = wrapper(child, **options_by_module[child])
                if not isinstance(made, Module):
                    raise AssertionError(f"a wrapper must be a module, not {made!r}")
                setattr(module, name, made)
    visit(root)


_wrapping = None  # the class and options of the enable_wrap() that is active


@contextmanager
def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """In the block, wrap() makes instances of a class."""
    global _wrapping
    if _wrapping is not None:
        raise NotImplementedError("You are already within an autowrap context and we currently do not supported nested autowrap.")
    _wrapping = wrapper_cls, wrapper_kwargs
    try:
        yield
    finally:
        _wrapping = None


def wrap(module, **wrap_overrides):
    """Returns the module, in a wrapper where enable_wrap() is active."""
    if _wrapping is None:
        return module
    return _wrap(module, _wrapping[0], **{**_wrapping[1], **wrap_overrides})
