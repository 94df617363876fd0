"""contract(): functions that change modules in place keep a state for each module, and keep all names."""
from functools import wraps

from ...nn import Module

__all__ = ["contract"]

_STATES, _REGISTRY = "__composable_api_states", "__composable_api_registry"


class _State:
    """The default state: an object without attributes."""


class RegistryItem:
    """Marks that a function was applied to a module."""


def _get_registry(module):
    """Returns the functions that were applied to a module, by name; None if there are none."""
    return module.__dict__.get(_REGISTRY)


_NAMES = (("parameters", lambda m: m.named_parameters()), ("buffers", lambda m: m.named_buffers()),
          ("modules", lambda m: m.named_modules()))


def _names(module):
    return {kind: [name for name, _ in named(module)] for kind, named in _NAMES}


def _check_names(before, after):
    for kind in before:
        if before[kind] != after[kind]:
            lost = [n for n in before[kind] if n not in after[kind]]
            new = [n for n in after[kind] if n not in before[kind]]
            raise RuntimeError(f"Checking {kind}: Composable distributed API implementations cannot modify FQNs.\n"
                               f"Only in original FQNs: {lost},\nOnly in new FQNs: {new}")


def contract(state_cls=_State):
    """Decorates a function that takes a module, or a list of modules, as its first argument and returns it.  `state(module)` of
    the function returns the object that the function keeps for the modules of one call."""
    def decorate(func):
        def enter(modules):
            state, item = state_cls(), RegistryItem()
            for module in modules:
                registry = module.__dict__.setdefault(_REGISTRY, {})
                if func.__name__ in registry:
                    raise AssertionError("Each distinct composable distributed API can only be applied to a module once. "
                                         f"{func.__name__} has already been applied to the following module:\n{module}")
                registry[func.__name__] = item
                module.__dict__.setdefault(_STATES, {})[func.__qualname__] = state

        @wraps(func)
        def wrapper(module, *args, **kwargs):
            modules = [module] if isinstance(module, Module) else list(module)
            before = [_names(m) for m in modules]
            enter(modules)
            result = func(module, *args, **kwargs)
            after = modules if result is None else [result] if isinstance(result, Module) else list(result)
            for old, new in zip(before, after):
                _check_names(old, _names(new))
            return module if result is None else result
        wrapper.state = lambda module: module.__dict__.get(_STATES, {}).get(func.__qualname__)
        return wrapper
    return decorate
