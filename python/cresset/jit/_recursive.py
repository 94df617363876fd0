"""Compiling modules: the class of a module's kind, its attributes, methods and submodules.

Modules of one Python class share a compiled class when their attributes have equal types, their
constants equal values and their submodules equal classes.
"""
import inspect
import types
import typing

import cresset
from cresset.nn import Module, ModuleDict, ModuleList, Sequential

from .. import _C
from . import _forms, _frontend

_skipped = {"training", "_parameters", "_buffers", "_non_persistent_buffers_set", "_modules", "_is_full_backward_hook",
            "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks", "_state_dict_hooks",
            "_state_dict_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_forward_hooks",
            "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
            "_forward_pre_hooks_with_kwargs", "_compiled_call_impl"}


def infer(value):
    """The text of a value's type, or None when it has none."""
    if value is None:
        return "NoneType"
    if isinstance(value, bool):
        return "bool"
    for kind, text in ((int, "int"), (float, "float"), (str, "str"), (complex, "complex")):
        if type(value) is kind:
            return text
    if isinstance(value, cresset.Tensor):
        return "Tensor"
    if isinstance(value, cresset.device):
        return "Device"
    if isinstance(value, cresset.dtype):
        return "int"
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return _frontend.define_named_tuple(type(value))
        inner = [infer(v) for v in value]
        return None if None in inner else f"Tuple[{', '.join(inner) or '()'}]"
    if isinstance(value, list):
        inner = {infer(v) for v in value}
        return f"List[{inner.pop()}]" if len(inner) == 1 and None not in inner else None
    if isinstance(value, dict):
        keys, values = {infer(k) for k in value}, {infer(v) for v in value.values()}
        if len(keys) == 1 and len(values) == 1 and None not in keys | values:
            return f"Dict[{keys.pop()}, {values.pop()}]"
    return None


def _annotations(cls):
    hints = {}
    for base in reversed(cls.__mro__):
        if _frontend.ours(base.__module__):
            continue
        for name, hint in vars(base).get("__annotations__", {}).items():
            if isinstance(hint, str):
                try:
                    hint = eval(hint, vars(inspect.getmodule(base) or types))
                except Exception:
                    continue
            hints[name] = hint
    return hints


def _constant_names(module, hints):
    names = {n for n, t in hints.items() if typing.get_origin(t) is typing.Final or t is typing.Final}
    for base in type(module).__mro__:
        names.update(vars(base).get("__constants__", ()))
    return names


class _Identity:
    """Stands for an object in a key: equal for the same object only."""

    def __init__(self, object):
        self.object = object

    def __eq__(self, other):
        return isinstance(other, _Identity) and self.object is other.object

    def __hash__(self):
        return id(self.object)


def _constant_key(value):
    """Unequal for constants that compiled code can tell apart."""
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_constant_key, value))
    if isinstance(value, dict):
        return dict, tuple((_constant_key(k), _constant_key(v)) for k, v in value.items())
    if isinstance(value, cresset.Tensor):
        return _Identity(value)
    return type(value), repr(value)


class _Shape:
    """What a module's compiled class consists of."""

    def __init__(self, module):
        self.attributes, self.constants, self.children, self.values, self.failed = [], {}, [], {}, {}
        hints = _annotations(type(module))
        constants = _constant_names(module, hints)
        for name, p in module._parameters.items():
            self._add(name, p, "NoneType" if p is None else "Tensor", parameter=p is not None)
        for name, b in module._buffers.items():
            text = _frontend.annotation(hints[name]) if name in hints else "NoneType" if b is None else "Tensor"
            self._add(name, b, text, buffer=b is not None)
        self._add("training", module.training, "bool")
        self._add("_is_full_backward_hook", None, "Optional[bool]")
        for name in constants:
            self._constant(module, name)
        for name, value in vars(module).items():
            if name not in _skipped and name not in self.values and name not in self.constants:
                self._attribute(name, value, hints)
        for name, child in module._modules.items():
            if child is None:
                self._add(name, None, "NoneType")
            else:
                self.children.append((name, script_module(child)))

    def _add(self, name, value, text, parameter=False, buffer=False):
        self.attributes.append((name, text, parameter, buffer))
        self.values[name] = value

    def _constant(self, module, name):
        if name in self.values or name in module._modules or not hasattr(module, name):
            return
        value = getattr(module, name)
        if infer(value) is not None or isinstance(value, (list, tuple)):
            self.constants[name] = value

    def _attribute(self, name, value, hints):
        if name in hints:
            self._add(name, value, _frontend.annotation(hints[name]))
            return
        text = infer(value)
        if text is None:
            self.failed[name] = type(value)
        else:
            self._add(name, value, text)

    def key(self, module):
        constants = tuple((k, _constant_key(self.constants[k])) for k in sorted(self.constants))
        return (type(module), tuple(self.attributes), constants,
                tuple((n, c._c.name) for n, c in self.children), getattr(module, "_script_distinct", None))


def _define_class(module, shape):
    name = _frontend.qualified_name(type(module))
    _C._script_add_class(name, "module")
    _frontend._modules[name] = module
    for attribute in shape.attributes:
        _C._script_add_attribute(name, *attribute)
    for child_name, child in shape.children:
        _C._script_add_submodule(name, child_name, child._c)
    for constant, value in shape.constants.items():
        _C._script_add_constant(name, constant, value)
    return name


def _find_method(module, name):
    form = _forms.method_of(type(module), name)
    if form is not None:
        return form
    found = inspect.getattr_static(type(module), name, None)
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    return found if isinstance(found, types.FunctionType) else None


def member(cls, module, name):
    """A member of a module's class that the compiler asks for."""
    if name == "__iter__":
        if isinstance(module, (ModuleList, Sequential)):
            return "attributes", " ".join(module._modules)
        return None
    if name in vars(module) and isinstance(vars(module)[name], types.FunctionType):
        return _frontend.describe(vars(module)[name])
    static = inspect.getattr_static(type(module), name, None)
    fn = _find_method(module, name)
    if isinstance(static, property):
        raise NotImplementedError(f"torch.jit.script does not compile properties yet: '{name}' of "
                                  f"'{type(module).__name__}'")
    if fn is None:
        if static is not None and _C is not None and not isinstance(static, property) and not callable(static):
            return _frontend.describe(static)
        _explain(module, name)
        return None
    modifier = getattr(fn, "_torchscript_modifier", "")
    if modifier.startswith("ignore"):
        raise RuntimeError("Methods that are marked with @torch.jit.ignore cannot be called by compiled code yet: "
                           f"{name}")
    if modifier.startswith("unused"):
        fn = _forms.unused(fn)
    if isinstance(static, staticmethod):
        return "function", _frontend.define(fn)
    return "function", _frontend.define(fn, cls, name)


def _explain(module, name):
    value = vars(module).get(name, module)
    if value is not module:
        kind = type(value).__name__
        raise RuntimeError(f"Module '{type(module).__name__}' has no attribute '{name}' (This attribute exists on the "
                           f"Python module, but we failed to convert Python type: '{kind}' to a TorchScript type.)")


def _exported(module):
    names = []
    if _find_method(module, "forward") is not None and \
            inspect.getattr_static(type(module), "forward", None) is not inspect.getattr_static(Module, "forward"):
        names.append("forward")
    for name in dir(type(module)):
        fn = inspect.getattr_static(type(module), name, None)
        if getattr(fn, "_torchscript_modifier", "").startswith("export"):
            names.append(name)
    return names


def script_module(module):
    """The compiled module, which shares parameters and buffers with the module."""
    from ._loaded import LoadedModule
    if isinstance(module, cresset.jit.ScriptModule) and hasattr(module, "_c"):
        return module
    if module._forward_hooks or module._forward_pre_hooks:
        raise NotImplementedError(f"torch.jit.script does not compile forward hooks yet; '{type(module).__name__}' has some")
    shape = _Shape(module)
    key = shape.key(module)
    name = _frontend._shared.get(key)
    fresh = name is None
    if fresh:
        name = _define_class(module, shape)
        methods = [] if isinstance(module, (ModuleList, ModuleDict)) else _exported(module)
        for method in methods:
            fn = _find_method(module, method)
            if getattr(fn, "_torchscript_modifier", "").startswith(("ignore", "unused")):
                continue
            if f"{name}.{method}" not in _frontend._scopes:
                _frontend.define(fn, name, method)
            _C._script_compile(f"{name}.{method}")
        _frontend._shared[key] = name
    values = {**shape.values, **{n: c._c for n, c in shape.children}}
    return LoadedModule(_C._script_new(name, values))
