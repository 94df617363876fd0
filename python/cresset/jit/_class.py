"""Compiling classes of Python: their methods, properties and functions.

Attributes are those that `__init__` sets.  A class is compiled when compiled code first names it, with all its
methods.
"""
import dataclasses
import inspect
import types
import weakref
from typing import get_args

import cresset

from .. import _C
from . import _forms, _frontend, _objects


def _functions_of(cls):
    for name, value in vars(cls).items():
        if isinstance(value, (staticmethod, classmethod)):
            yield name, value.__func__
        elif isinstance(value, types.FunctionType):
            yield name, value


_interfaces = weakref.WeakKeyDictionary()  # interface -> the names that it sees where it was marked
_failed = weakref.WeakKeyDictionary()  # class -> the error of its compilation


def compiles(cls):
    """Whether a class that compiled code names can be compiled."""
    if cls in _interfaces:
        return True
    if _frontend.ours(cls.__module__) or cls.__module__ in ("builtins", "typing"):
        return False
    if issubclass(cls, (cresset.nn.Module, cresset.Tensor, tuple, list, dict, BaseException)):
        return False
    if getattr(cls, "_torchscript_modifier", "").startswith(("ignore", "unused")):
        return False
    return all(not inspect.isroutine(f) or hasattr(getattr(f, "__func__", f), "__code__") for f in vars(cls).values())


def _closure_names(cls):
    """Names in the closures of the class's functions."""
    names = {}
    for _, fn in _functions_of(cls):
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
            try:
                names[name] = cell.cell_contents
            except ValueError:
                pass
    return names


def _modifier(fn):
    return getattr(fn, "_torchscript_modifier", "")


def _define_function(cls, qualified, name, value, names):
    fn = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
    if _modifier(fn).startswith("ignore"):
        return None
    fn = _forms.unused(fn) if _modifier(fn).startswith("unused") else fn
    if isinstance(value, staticmethod):
        _frontend._statics[qualified, name] = _frontend.define(fn, names=names)
        return None
    return _frontend.define(fn, qualified, name, names)


def _define_property(qualified, name, value, names):
    methods = []
    ignored = getattr(value.fget, "_torchscript_modifier", "").startswith(("ignore", "unused"))
    for kind, fn in (("getter", value.fget), ("setter", value.fset)):
        if fn is not None and not ignored:
            methods.append(_frontend.define(fn, qualified, f"__{name}_{kind}", names))
    return methods


def _refuse_bases(cls):
    if [base for base in cls.__mro__ if base is not object] != [cls]:
        raise RuntimeError("TorchScript classes does not support inheritance yet. Please directly inherit from 'object'.")


def define(cls, names=None, wanted=False):
    """Defines a class and compiles its methods; returns its qualified name."""
    if cls in _frontend._classes:
        return _frontend._classes[cls]
    if cls in _interfaces:
        return define_interface(cls)
    if cls in _failed:
        raise _failed[cls]
    if wanted and issubclass(cls, cresset.nn.Module):
        raise RuntimeError(f"Type '{cls}' cannot be compiled since it inherits from nn.Module, consider passing an "
                           "instance instead")
    if wanted:
        _refuse_bases(cls)
    names = {**(names or {}), **_closure_names(cls), cls.__name__: cls}
    qualified = _frontend._classes[cls] = _frontend.qualified_name(cls)
    _C._script_add_class(qualified, "class")
    _C._script_enter(qualified)
    try:
        _define_methods(cls, qualified, names)
    except Exception as error:
        del _frontend._classes[cls]
        _failed[cls] = error.with_traceback(None)
        raise
    finally:
        _C._script_leave()
    _frontend._complete.add(cls)
    return qualified


def _define_methods(cls, qualified, names):
    unused = getattr(cls, "__jit_unused_properties__", ())
    methods = []
    for name, value in _members(cls):
        if isinstance(value, property):
            methods += [] if name in unused else _define_property(qualified, name, value, names)
        elif not getattr(value, "_torchscript_modifier", "").startswith("_drop"):
            methods.append(_define_function(cls, qualified, name, value, names))
    methods = [m for m in methods if m is not None]
    init = f"{qualified}.__init__"
    for method in sorted(methods, key=lambda m: m != init):
        _C._script_compile(method)


def define_interface(cls, names=None):
    """Defines an interface: the declarations of its methods."""
    if cls in _frontend._classes:
        return _frontend._classes[cls]
    names = _interfaces.setdefault(cls, names)
    qualified = _frontend._classes[cls] = _frontend.qualified_name(cls)
    kind = "module interface" if issubclass(cls, cresset.nn.Module) else "interface"
    _C._script_add_class(qualified, kind)
    names = {**(names or {}), **_closure_names(cls), cls.__name__: cls}
    for name, fn in _functions_of(cls):
        _frontend.define(fn, qualified, name, names)
        _C._script_declare(f"{qualified}.{name}")
    return qualified


def _members(cls):
    """(name, function or property), with the functions that a dataclass gets."""
    made = dataclass_functions(cls) if dataclasses.is_dataclass(cls) else {}
    for name, value in vars(cls).items():
        if name in made or isinstance(value, (types.FunctionType, staticmethod, classmethod, property)):
            if name in made or not dataclasses.is_dataclass(cls) or not _is_of_dataclass(name, value):
                yield name, made.pop(name, value)


def _is_of_dataclass(name, value):
    code = getattr(value, "__code__", None) or getattr(getattr(value, "__wrapped__", None), "__code__", None)
    return name in ("__repr__", "__hash__", "__setattr__", "__delattr__", "__replace__") or \
        (code is not None and code.co_filename == "<string>")


# --- dataclasses ---

def _init_of(cls, fields):
    params, lines = ["self"], []
    for f in fields:
        if not f.init and f.default is dataclasses.MISSING:
            raise NotImplementedError(f"Fields of dataclasses without a value are not compiled: {f.name}")
        if f.default_factory is not dataclasses.MISSING:
            raise NotImplementedError("Default factory initializers are not supported in TorchScript dataclasses")
        if f.init:
            default = "" if f.default is dataclasses.MISSING else f" = _default_{f.name}"
            params.append(f"{f.name}: _type_{f.name}{default}")
            lines.append(f"    self.{f.name} = {f.name}")
        else:
            lines.append(f"    self.{f.name} = _default_{f.name}")
    if hasattr(cls, "__post_init__"):
        lines.append("    self.__post_init__()")
    return f"def __init__({', '.join(params)}) -> None:\n" + "\n".join(lines or ["    pass"]) + "\n"


def _difference_of(name, optional):
    if not optional:
        return f"    if self.{name} != other.{name}:\n        return False"
    return (f"    a_{name} = self.{name}\n    b_{name} = other.{name}\n    if a_{name} is None or b_{name} is None:\n"
            f"        if (a_{name} is None) != (b_{name} is None):\n            return False\n"
            f"    elif a_{name} != b_{name}:\n        return False")


def _comparison_of(name, sign, cls, fields, ordered):
    lines = []
    for f in fields:
        if not f.compare:
            continue
        if ordered:
            lines.append(f"    if self.{f.name} < other.{f.name}:\n        return {sign[0] == '<'}\n"
                         f"    elif self.{f.name} > other.{f.name}:\n        return {sign[0] == '>'}")
        else:
            lines.append(_difference_of(f.name, type(None) in get_args(cls.__annotations__.get(f.name, f.type))))
    lines.append(f"    return {sign[-1] == '='}")
    return f"def {name}(self, other: {cls.__name__}) -> bool:\n" + "\n".join(lines) + "\n"


def dataclass_functions(cls):
    """The sources of the functions that a dataclass gets: their forms by name."""
    fields = dataclasses.fields(cls)
    globals = {**vars(inspect.getmodule(cls)), "torch": cresset}
    hints = cls.__annotations__
    for f in fields:
        globals[f"_type_{f.name}"] = hints.get(f.name, f.type)
        if f.default is not dataclasses.MISSING:
            globals[f"_default_{f.name}"] = f.default
    params = cls.__dataclass_params__
    sources = {}
    if params.init:
        sources["__init__"] = _init_of(cls, fields)
    if params.eq:
        sources["__eq__"] = _comparison_of("__eq__", "==", cls, fields, False)
    if params.order:
        for name, sign in (("__lt__", "<"), ("__le__", "<="), ("__gt__", ">"), ("__ge__", ">=")):
            sources[name] = _comparison_of(name, sign, cls, fields, True)
    return {name: _forms.Form(name, cls.__module__, source, 1, "<dataclass>", globals) for name, source in
            sources.items()}


# --- objects ---

def script_object(obj):
    """A program's object with the attributes of an object of Python, whose class is compiled."""
    cls = type(obj)
    if not compiles(cls):
        raise NotImplementedError(f"torch.jit.script does not compile objects of type '{cls.__name__}'")
    qualified = define(cls)
    return _objects.RecursiveScriptClass(_C._script_new(qualified, _objects.attributes(obj, qualified)))
