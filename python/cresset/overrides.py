"""__torch_function__: classes whose objects handle calls of functions."""
import functools
import sys
from _thread import _local

from . import _C
from ._C import Tensor

__all__ = ["handle_torch_function", "has_torch_function", "has_torch_function_unary",
           "has_torch_function_variadic", "get_default_nowrap_functions", "is_tensor_like",
           "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
           "get_overridable_functions", "get_ignored_functions", "get_testing_overrides",
           "TorchFunctionMode", "enable_reentrant_dispatch"]

_ASKING = frozenset(("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"))
_disabled_torch_function_impl = _C._disabled_torch_function_impl


class _Entered(_local):
    """The thread's functions that look for no handlers, because a handler runs their operators: their code objects."""
    codes = ()


_entered = _Entered()


def has_torch_function(args):
    """Returns whether an argument has a __torch_function__."""
    return _C._has_torch_function(args) and sys._getframe(1).f_code not in _entered.codes


def has_torch_function_unary(arg):
    return _C._has_torch_function((arg,)) and sys._getframe(1).f_code not in _entered.codes


def has_torch_function_variadic(*args):
    return _C._has_torch_function(args) and sys._getframe(1).f_code not in _entered.codes


def _asks(function):
    """Whether it is a function of Python that looks for handlers, apart from those that _run_inside() runs now."""
    code = getattr(function, "__code__", None)
    return not _ASKING.isdisjoint(getattr(code, "co_names", ())) and code not in _entered.codes


def _run_inside(function, args, kwargs):
    """Calls a function of Python that does not look for handlers, so that a mode sees the operators inside of it."""
    before = _entered.codes
    _entered.codes = (*before, function.__code__)
    try:
        return function(*args, **kwargs)
    finally:
        _entered.codes = before


def _overloaded(args):
    """Returns one argument for each class, subclasses before their bases, otherwise in order."""
    found = []
    for arg in args:
        cls = type(arg)
        if cls in map(type, found) or not _C._has_torch_function((arg,)):
            continue
        at = next((i for i, other in enumerate(found) if issubclass(cls, type(other))), len(found))
        found.insert(at, arg)
    return found


def handle_torch_function(public_api, relevant_args, *args, **kwargs):
    """Calls public_api through the __torch_function__ of its arguments."""
    overloaded = _overloaded(relevant_args)
    types = tuple(map(type, overloaded))
    result = _C._ask_mode(public_api, types, args, kwargs)
    if result is not NotImplemented:
        return result
    for arg in overloaded:
        result = arg.__torch_function__(public_api, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = f"{public_api.__module__}.{public_api.__name__}"
    raise TypeError(f"no implementation found for '{name}' on types that implement "
                    f"__torch_function__: {[type(arg) for arg in overloaded]}")


def wrap_torch_function(dispatcher):
    """Makes a Python function overridable; dispatcher(*args) returns the relevant arguments."""
    def decorate(function):
        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)
        return wrapped
    return decorate


def _call_overridden(function, args, kwargs):
    """Calls a function of _C.overridable through the handlers of its arguments or a mode.

    Handlers receive parameters with defaults as keywords, with defaults filled in.
    """
    import inspect  # rarely needed, and slow to import
    signature = inspect.signature(function)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    relevant, named = list(bound.arguments.values()), bound.arguments
    required = [n for n in named if signature.parameters[n].default is inspect.Parameter.empty]
    return handle_torch_function(function, relevant, *map(named.pop, required), **named)


_C._set_override_handler(_call_overridden)


def get_default_nowrap_functions():
    """Returns the functions whose results keep their class."""
    return {Tensor._base.__get__, Tensor.grad.__get__, Tensor._grad.__get__}


def is_tensor_like(x):
    """Returns whether x is a tensor or has a __torch_function__."""
    return type(x) is Tensor or hasattr(x, "__torch_function__")


def is_tensor_method_or_property(function):
    return getattr(Tensor, getattr(function, "__name__", ""), None) is function or (
        getattr(function, "__name__", "") == "__get__")


def resolve_name(function):
    """Returns the public name of a function: "torch.add", "torch.Tensor.add"."""
    if getattr(Tensor, getattr(function, "__name__", ""), None) is function:
        return f"torch.Tensor.{function.__name__}"
    name = getattr(function, "__qualname__", None)
    if isinstance(function, type(_C.ops.add)) and name is not None:
        return f"torch.{name}"
    if name is None or function.__module__ is None:
        return None
    return f"{function.__module__}.{name}".replace("cresset.", "torch.", 1)


def _takes_tensors(function):
    """Returns whether the table has a tensor parameter for a function."""
    return "(Tensor" in (function.__doc__ or "") or ", Tensor" in (function.__doc__ or "")


@functools.lru_cache(None)
def _functions():
    """Returns (overridable functions by module or class, functions without tensor parameters)."""
    from importlib import import_module
    root = __name__.partition(".")[0]
    found, without = {}, set()
    for name in ("", ".nn.functional", ".linalg", ".fft", ".special"):
        module = import_module(root + name)
        for key, value in list(vars(module).items()):
            if key.startswith("_") or isinstance(value, type) or not callable(value):
                continue
            known = isinstance(value, type(_C.ops.add))
            if known and not _takes_tensors(value):
                without.add(value)
            elif known or getattr(value, "__module__", "").startswith(root):
                found.setdefault(module, []).append(value)
    found[Tensor] = [value for key, value in vars(Tensor).items()
                     if callable(value) and (not key.startswith("_") or key.startswith("__"))]
    return found, without


def get_overridable_functions():
    """Returns the functions that support __torch_function__, in lists by module or class."""
    return {place: list(functions) for place, functions in _functions()[0].items()}


def get_ignored_functions():
    """Returns the functions without tensor parameters, which do not support __torch_function__."""
    return set(_functions()[1])


def get_testing_overrides():
    """Returns for every overridable function a function with the same parameters that returns
    -1."""
    return {function: lambda *args, **kwargs: -1
            for functions in _functions()[0].values() for function in functions}


class TorchFunctionMode:
    """Base class with __torch_function__; an object handles every call inside a `with` block."""

    def __enter__(self):
        _C._push_function_mode(self)
        return self

    def __exit__(self, *exc):
        _C._pop_function_mode()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError


def enable_reentrant_dispatch():
    """Inside, calls of a __torch_dispatch__ handler are recorded by autograd, as those outside of it."""
    return _C._ReentrantDispatch()


class BaseTorchFunctionMode(TorchFunctionMode):
    """Calls functions without a change."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


DisableTorchFunctionSubclass = DisableTorchFunction = _C.DisableTorchFunctionSubclass


def __getattr__(name):
    from ._absent_names import missing
    raise missing(__name__, name)
