"""Objects of compiled classes, as Python and programs pass them to each other.

A program's object that is no module becomes an object of the Python class with equal attributes, and back.
"""
import enum
import sys

from .. import _C
from .._ops import Argument, FunctionSchema
from . import _frontend
from ._graph import graph_of  # noqa: F401  (a ScriptFunction asks for it)


def error_text(error):
    """What a program's error says of an exception that a function of Python raised: the class, the text and the calls."""
    text, trace = f"{type(error).__name__}: {error}", error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    frame, lines = trace and trace.tb_frame, []
    while frame is not None:
        line = trace.tb_lineno if not lines else frame.f_lineno
        lines.append(f"  {frame.f_code.co_filename}({line}): {frame.f_code.co_name}\n")
        frame = frame.f_back
    return text + "\n\nAt:\n" + "".join(lines) if lines else text


def python_class(qualified):
    """The Python class that was compiled under this name, or None."""
    for cls, name in _frontend._classes.items():
        if name == qualified:
            return cls
    return None


def class_of(x):
    """The qualified name of the class of an object, which is compiled when it is not yet; None: it cannot be."""
    inner = getattr(x, "_c", None)
    if isinstance(inner, _C.ScriptObject):
        return inner.name
    cls = type(x)
    if cls in _frontend._classes:
        return _frontend._classes[cls]
    if issubclass(cls, enum.Enum):
        return _frontend.define_enum(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return _frontend.define_named_tuple(cls)
    return None


def attributes(x, qualified):
    """The attributes of an object of the class with this name; None when it is of another one."""
    cls = type(x)
    if _frontend._classes.get(cls) != qualified or issubclass(cls, (enum.Enum, tuple)):
        return None
    values = {}
    for name, *_ in _C._script_class_attributes(qualified):
        if not hasattr(x, name):
            raise RuntimeError(f"Tried to cast object to type {qualified} but object was missing attribute {name}")
        values[name] = getattr(x, name)
    return values


def to_python(object):
    """An object of the Python class with the attributes of a program's object."""
    cls = python_class(object.name)
    if cls is None:
        return RecursiveScriptClass(object)
    made = cls.__new__(cls)
    for name, *_ in object.attributes():
        setattr(made, name, object.get(name))
    return made


def member_name(x, qualified):
    """The name of a member of the enum with this name; None for other objects."""
    if not isinstance(x, enum.Enum) or class_of(x) != qualified:
        return None
    return x.name


_made_enums = {}


def member(qualified, name, value):
    """The member of a Python enum: the one that was compiled, that of the module that the archive names, or one with
    this member alone."""
    cls = python_class(qualified)
    if cls is None:
        module, _, last = qualified.removeprefix("__torch__.").rpartition(".")
        cls = getattr(sys.modules.get(module or "__main__"), last, None)
    if cls is None or name not in getattr(cls, "__members__", ()):
        key = qualified, name
        if key not in _made_enums:
            _made_enums[key] = enum.Enum(qualified.rpartition(".")[2], {name: value})
        cls = _made_enums[key]
    return cls[name]


# --- schemas ---

class ScriptSchema(FunctionSchema):
    """The declaration of a compiled function."""

    def __init__(self, text, name, arguments, returns):
        self._text, self.name, self.overload_name = text, name, ""
        self.arguments, self.returns, self.is_mutable = arguments, returns, False

    def __eq__(self, other):
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    __hash__ = None


def schema_of(text, name, params, results):
    """The schema of rows (name, type, is keyword-only) and the default, where there is one."""
    def made(name, kind, kwarg_only, *default):
        argument = Argument(name, kind, default=default[0] if default else None, has_default=bool(default), kwarg_only=kwarg_only)
        argument.type = kind
        return argument
    return ScriptSchema(text, name, [made(*row) for row in params], [made(*row) for row in results])


# --- functions in archives ---

def module_of(function):
    """A module whose `forward` has the graph of a compiled function."""
    from . import _forms
    from ._loaded import RecursiveScriptModule
    params = _C._script_params(function.qualified_name)
    names = [name for name, _, _ in params]
    head = ", ".join(f"{name}: {kind}" if default is None else f"{name}: {kind} = {default}" for name, kind, default in params)
    source = f"def forward(self{', ' + head if head else ''}):\n    return _function({', '.join(names)})\n"
    with _frontend.attempt():
        cls = _frontend.free_name("__torch__.PlaceholderModule")
        _C._script_add_class(cls, "module")
        _C._script_add_attribute(cls, "training", "bool", False, False)
        form = _forms.Form("forward", "__main__", source, 1, None, {"_function": function})
        forward = _frontend.define(form, cls, "forward")
        _C._script_compile(forward)
        _C._script_define_as(forward, function.qualified_name)
    return RecursiveScriptModule(_C._script_new(cls, {"training": True}))


_operators = ["__len__", "__contains__", "__getitem__", "__setitem__", "__delitem__", "__add__", "__sub__", "__mul__",
              "__truediv__", "__floordiv__", "__mod__", "__pow__", "__matmul__", "__and__", "__or__", "__xor__",
              "__lshift__", "__rshift__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__neg__",
              "__pos__", "__invert__", "__int__", "__float__", "__bool__", "__str__", "__enter__", "__exit__"]


class RecursiveScriptClass:
    """An object of a compiled class: its attributes and methods are the program's."""

    def __init__(self, object):
        self.__dict__["_c"] = object

    def __getattr__(self, name):
        object = self.__dict__["_c"]
        methods = object.methods()
        if name in methods:
            return lambda *args, **kwargs: object.call(name, args, kwargs)
        if f"__{name}_getter" in methods:
            return object.call(f"__{name}_getter", ())
        return object.get(name)

    def __setattr__(self, name, value):
        object = self.__dict__["_c"]
        if f"__{name}_setter" in object.methods():
            object.call(f"__{name}_setter", (value,))
        else:
            object.set(name, value)


def _forward(name):
    def call(self, *args, **kwargs):
        if name not in self._c.methods():
            raise NotImplementedError(f"'{self._c.name}' has no method {name}")
        return self._c.call(name, args, kwargs)
    call.__name__ = name
    return call


for _name in _operators:
    if _name not in ("__eq__", "__ne__", "__str__", "__bool__"):
        setattr(RecursiveScriptClass, _name, _forward(_name))
