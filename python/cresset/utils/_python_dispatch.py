"""__torch_dispatch__: classes of tensors and modes that handle calls of operators, below autograd.

The dispatcher's stage for them (`py/bind/call/dispatch.c`) calls `_call_handlers` with an entry of the
table and its arguments; handlers get torch's overload and arguments.
"""
import contextlib
import functools

from .. import _C
from .._C import Tensor
from .._tags import changes_sizes
from .._ops import OpOverload, overload_of, packet_of, split_arguments

__all__ = ["TorchDispatchMode", "BaseTorchDispatchMode", "is_traceable_wrapper_subclass",
           "return_and_correct_aliasing", "transform_subclass", "is_in_torch_dispatch_mode"]


# --- calling handlers ---

def _add_factory_options(func, given, kwargs):
    """Adds the options that torch's Python functions give to factories: a device, unpinned memory."""
    names = {argument.name for argument in func._schema.arguments}
    converts = "cast" in func.words
    if {"device", "pin_memory"} <= names and given["pin_memory"] is None and not converts:
        if not any(isinstance(x, Tensor) for x in given.values()):
            kwargs.setdefault("device", _C.get_default_device())
        order = [argument.name for argument in func._schema.arguments if argument.kwarg_only]
        kwargs["pin_memory"] = False
        for name in sorted(kwargs, key=order.index):
            kwargs[name] = kwargs.pop(name)


def _torch_call(name, overload, values):
    """Returns (overload, args, kwargs) of torch for a call of an entry of the table."""
    given = dict(zip(_parameter_names(name, overload), values))
    func = overload_of(name, overload, {k: () if isinstance(x, Tensor) else x for k, x in given.items()})
    args, kwargs = split_arguments(func._schema, given)
    if func.namespace == "aten":
        _add_factory_options(func, given, kwargs)
    return func, tuple(args), kwargs


@functools.cache
def _parameter_names(name, overload):
    """Returns the names of an entry's parameters."""
    records = (made["record"] for made in packet_of(name)._made.values())
    return [p["name"] for p in next(r for r in records if r["overload"] == overload)["params"]]


_rules = {}  # {(class, overload): function}: library.register_torch_dispatch


def set_rule(cls, func, function):
    """Makes a function handle calls of an overload in the place of the class's __torch_dispatch__."""
    if isinstance(function, staticmethod):
        function = function.__func__
    _rules[cls, func] = function


def _call_handlers(mode, overloaded, name, overload, values):
    """Calls the mode's handler, or with None those of the overloaded tensors' classes, one after the
    other until one answers.  A mode may answer NotImplemented."""
    func, args, kwargs = _torch_call(name, overload, values)
    types = tuple(map(type, overloaded))
    if mode is not None:
        rule = _rules.get((type(mode), func))
        return rule(mode, func, types, args, kwargs) if rule else mode.__torch_dispatch__(func, types, args, kwargs)
    for x in overloaded:
        result = _rules.get((type(x), func), type(x).__torch_dispatch__)(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    classes = "".join(f"\n\n  - tensor subclass {cls}" for cls in types)
    raise TypeError(f"Multiple dispatch failed for 'torch.ops.{func.namespace}.{func.__name__}'; all "
                    f"__torch_dispatch__ handlers returned NotImplemented:{classes}\n\nFor more "
                    "information, try re-running with TORCH_LOGS=not_implemented")


_C._set_dispatch_caller(_call_handlers)


# --- modes ---

class TorchDispatchMode:
    """Base class of modes: inside a `with` block, an object handles every call of an operator."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError

    # In C: an interrupt at the begin or end of a method in Python would leave the mode on.
    __enter__, __exit__ = _C._enter_dispatch_mode, _C._exit_dispatch_mode

    @classmethod
    def push(cls, *args, **kwargs):
        """Returns cls(*args, **kwargs)."""
        import warnings
        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`",
                      stacklevel=2)
        return cls(*args, **kwargs)


class BaseTorchDispatchMode(TorchDispatchMode):
    """Calls operators without a change."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def _push_mode(mode):
    _C._push_on_torch_dispatch_stack(mode)


def _pop_mode():
    return _C._pop_torch_dispatch_stack()


@contextlib.contextmanager
def _pop_mode_temporarily():
    old = _pop_mode()
    try:
        yield old
    finally:
        _push_mode(old)


def _get_current_dispatch_mode_stack():
    """Returns the active modes, the innermost last."""
    return _C._torch_dispatch_stack()


def _get_current_dispatch_mode():
    stack = _get_current_dispatch_mode_stack()
    return stack[-1] if stack else None


def is_in_torch_dispatch_mode(include_infra_modes=True):
    """Returns whether a mode is active."""
    return _C._len_torch_dispatch_stack() > 0


@contextlib.contextmanager
def _disable_current_modes():
    """Inside, no mode is active.  Yields the modes."""
    modes = _get_current_dispatch_mode_stack()
    for _ in modes:
        _pop_mode()
    try:
        yield modes
    finally:
        for mode in modes:
            _push_mode(mode)


# --- tensors that wrap tensors ---

def is_traceable_wrapper_subclass(t):
    """Returns whether t is an object of a class with __tensor_flatten__ and __tensor_unflatten__."""
    return isinstance(t, Tensor) and type(t) is not Tensor and is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t):
    return (issubclass(t, Tensor) and t is not Tensor and hasattr(t, "__tensor_flatten__")
            and hasattr(t, "__tensor_unflatten__"))


def transform_subclass(t, callback, outer_size=None, outer_stride=None):
    """Returns a tensor of the class of t, with callback(name, tensor) for each inner tensor."""
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
    if made.shape != outer_size:
        raise AssertionError(f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal "
                             f"to {outer_size}, but got: {made.shape}")
    if made.stride() != tuple(outer_stride):
        raise AssertionError(f"Expected return value from {type(t)}__tensor_unflatten__() to have stride equal "
                             f"to {outer_stride}, but got: {made.stride()}")
    return made


# --- aliases ---

def _aliased(func, args, kwargs):
    """Yields (index of a result, argument, whether it is written) for results that alias arguments."""
    named = dict(zip([a.name for a in func._schema.arguments], args)) | kwargs
    for k, result in enumerate(func._schema.returns):
        for argument in func._schema.arguments:
            info = argument.alias_info
            if (result.alias_info is not None and info is not None and argument.name in named
                    and info.before_set & result.alias_info.before_set):
                yield k, named[argument.name], info.is_write


def _share_storage(base, x):
    for one in x if isinstance(x, (list, tuple)) else [x]:
        if isinstance(one, Tensor) and isinstance(base, Tensor) and not (one.data_ptr() or base.data_ptr()):
            _C._share_storage(one, base)


def return_and_correct_aliasing(func, args, kwargs, out):
    """Returns `out`, the result of a handler, with the aliasing that the operator has: results that are
    views share the storage of their base, and results that the operator writes are the arguments."""
    if not isinstance(func, OpOverload):
        raise AssertionError(f"expected func to be an OpOverload, got {type(func)}")
    if not isinstance(args, tuple):
        raise AssertionError(f"expected args to be tuple, got {type(args)}")
    if not isinstance(kwargs, dict):
        raise AssertionError(f"expected kwargs to be dict, got {type(kwargs)}")
    if changes_sizes(func) and args and isinstance(args[0], Tensor):
        with _C._DisableTorchDispatch():
            func(*args, **kwargs)
    outs = list(out) if isinstance(out, (list, tuple)) and len(func._schema.returns) > 1 else [out]
    for k, argument, written in _aliased(func, args, kwargs):
        if written:
            outs[k] = argument
        else:
            _share_storage(argument, outs[k])
    return outs[0] if len(outs) == 1 else type(out)(outs)
