"""What names mean in functions and modules that `script` compiles.

The compiler is in C.  It asks here what a name, an attribute or an annotation is; the answer is a
pair of a kind and a payload, and may define further functions and classes in the program first.
"""
import builtins
import collections
import enum
import inspect
import math
import re
import sys
import threading
import types
import typing
import weakref

import cresset

from .. import _C
from .._classes import ScriptClass
from . import _forms

_functions = {}    # function -> qualified name, of functions that are defined
_scopes = {}       # qualified name of a function -> how its names are looked up
_classes = {}      # class -> qualified name
_modules = {}      # qualified name of a module's class -> one of its modules, weakly
_originals = {}    # number of a script module -> [the module it was made from, how many Python wrappers it has]
_shared = {}       # what makes a module's class -> its qualified name
_objects = []      # objects by handle
_handles = {}      # id -> handle
_taken = set()     # qualified names
_tuples = {}       # qualified name of a named tuple -> its fields
_mangled = [0]
_statics = {}      # (qualified name of a class, name) -> qualified name of a function without self


def module_of(name):
    """A module of the class with this qualified name, of which the compiler asks members; None: there is none now."""
    found = _modules.get(name)
    return found and found()


def keep_module(name, module, object=None):
    """Notes a module of a class.  The module lives as long as a program's object that was made from it."""
    if module_of(name) is None:
        _modules[name] = weakref.ref(module)
    if object is not None:
        keep_original(object, module)


def keep_original(object, original):
    """Keeps what a program's object was made from, as long as one of Python's objects stands for it."""
    number = hash(object)  # one program's object has one number
    _originals.setdefault(number, [original, 0])[1] += 1
    weakref.finalize(object, _forget_original, number).atexit = False


def _forget_original(number):
    entry = _originals.get(number, [None, 1])
    entry[1] -= 1
    if not entry[1]:
        _originals.pop(number, None)


def has_original(object):
    return hash(object) in _originals


def keeps_itself(object):
    """The object is that of the module that it was made from."""
    _originals.pop(hash(object), None)


def share_original(object, others):
    """The object keeps what these were made from."""
    kept = [_originals[hash(other)] for other in others if hash(other) in _originals]
    if kept:
        keep_original(object, [entry[0] for entry in kept])


# --- names and sources ---

def ours(name):
    """Whether a module of this name belongs to the package, which programs may call torch."""
    return (name or "").partition(".")[0] in ("cresset", "torch")


def _module_name(obj):
    name = obj.__module__ or "__main__"
    if name == "__main__":
        return "__torch__"
    if name == "cresset" or name.startswith("cresset."):
        name = "torch" + name[len("cresset"):]
    return "__torch__." + name


def qualified_name(obj, name=None):
    """The name of a function or class in programs: __torch__.module.name."""
    name = name or getattr(obj, "_jit_override_qualname", None) or obj.__name__
    if name == "<lambda>":
        name = "_lambda"
    return free_name(f"{_module_name(obj)}.{name}")


def free_name(wanted):
    """The name, or one with a mangling part when it is taken."""
    name = wanted
    while name in _taken:
        prefix, _, last = wanted.rpartition(".")
        name = f"{prefix}.___torch_mangle_{_mangled[0]}.{last}"
        _mangled[0] += 1
    _taken.add(name)
    return name


def _source(fn):
    """(text without the indent of its first line, file, line, indent)."""
    if isinstance(fn, _forms.Form):
        return fn.source, fn.file, fn.line, 0
    try:
        lines, line = inspect.getsourcelines(fn)
    except OSError as e:
        raise OSError(f"Can't get source for {fn}. TorchScript requires source access in order to carry out "
                      "compilation, make sure original .py files are available.") from e
    indent = lines[0][:len(lines[0]) - len(lines[0].lstrip())]
    text = "".join(l.removeprefix(indent) for l in lines)
    return text, inspect.getsourcefile(fn) or "<string>", max(line, 1), len(indent)


class _Scope:
    """Names that a function sees: closure, globals, builtins."""

    def __init__(self, fn, names=None):
        self.fn = fn
        self.names = dict(names or {})
        if isinstance(fn, _forms.Form):
            self.globals = fn.globals if fn.globals is not None else vars(_forms)
            return
        self.globals = fn.__globals__
        for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
            try:
                self.names[name] = cell.cell_contents
            except ValueError:
                pass

    def find(self, name):
        if name in self.names:
            return self.names[name]
        if name in self.globals:
            return self.globals[name]
        return _builtin(name)

    def table(self):
        """All names, as one dict."""
        return {**self.globals, **self.names}

    def evaluate(self, text):
        return eval(text, self.table())


_absent = object()


def _builtin(name):
    """The exceptions of Python, and complex."""
    known = getattr(builtins, name, _absent)
    return known if isinstance(known, type) and issubclass(known, (BaseException, complex)) else _absent


def define(fn, owner=None, name=None, names=None, qualified=None):
    """Defines a function, or a method of a class; returns its qualified name.  `names`: those that it sees besides its
    closure and globals."""
    if owner is None and fn in _functions:
        return _functions[fn]
    text, file, line, indent = _source(fn)
    _refuse_mutable(fn)
    if owner is None:
        qualified = qualified or qualified_name(fn, name)
        _functions[fn] = qualified
    else:
        qualified = f"{owner}.{name or fn.__name__}"
    _scopes[qualified] = _Scope(fn, names)
    try:
        _C._script_define(qualified, owner, text, file, line, indent)
    except BaseException:
        _functions.pop(fn, None)
        raise
    return qualified


def _refuse_mutable(fn):
    for name, p in () if isinstance(fn, _forms.Form) else inspect.signature(fn).parameters.items():
        if isinstance(p.default, (list, dict, set)):
            raise RuntimeError("Mutable default parameters are not supported because Python binds them to the function and "
                               "they persist across function calls.\n As a workaround, make the default None and instantiate "
                               f"the default parameter within the body of the function. Found {type(p.default)} on parameter "
                               f"{name}")


# --- overloads ---

_overloads = {}  # (module, qualified name) of a function -> its declarations


def declare_overload(fn):
    _overloads.setdefault((fn.__module__, fn.__qualname__), []).append(fn)


def overloads_of(fn):
    """The declarations of a function, as forms with its body."""
    key = getattr(fn, "__module__", None), getattr(fn, "__qualname__", None)
    return [_overload_form(fn, declared, i) for i, declared in enumerate(_overloads.get(key, ())) if declared is not fn]


def _overload_form(fn, declared, number):
    import ast
    import textwrap
    body, head = (ast.parse(textwrap.dedent(_source(f)[0])).body[0] for f in (fn, declared))
    body.decorator_list, body.name = [], f"{fn.__name__}__{number}"
    defaults = body.args.defaults
    body.args, body.returns = head.args, head.returns
    body.args.defaults = body.args.defaults or defaults
    form = _forms.Form(body.name, fn.__module__, ast.unparse(body) + "\n", 1, inspect.getsourcefile(fn), _Scope(fn).table())
    return form


_tables = _functions, _classes, _modules, _shared
_compiling = threading.RLock()  # the compiler has one session, and its questions run Python


_complete = set()  # classes whose definition succeeded


class attempt:
    """A compilation, the only one at its time: what it began to define is forgotten when it fails."""

    def __enter__(self):
        _compiling.acquire()
        self.before = [dict(table) for table in _tables]

    def __exit__(self, kind, value, trace):
        if kind is not None:
            for table, old in zip(_tables, self.before):
                kept = {k: v for k, v in table.items() if table is _classes and k in _complete}
                table.clear()
                table.update(old)
                table.update(kept)
        _compiling.release()


def clear():
    """Forgets all functions and classes: their names are free.  What is compiled stays as it is."""
    with _compiling:
        for table in (*_tables, _scopes, _statics, _taken, _complete, _tuples):
            table.clear()
        _C._script_begin()


# --- what objects are ---

def _handle(obj):
    if id(obj) not in _handles:
        _handles[id(obj)] = len(_objects)
        _objects.append(obj)
    return _handles[id(obj)]


_operator_types = (type(cresset.relu), types.BuiltinFunctionType)


def _operator(obj):
    """The operator that a function of the package calls, or None."""
    name = getattr(obj, "__name__", None)
    module = getattr(obj, "__module__", None) or ""
    if not name:
        return None
    candidates = [f"aten::{name}"]
    for part in ("linalg", "fft", "special"):
        if module.endswith("." + part) or f"_{part}" in module:
            candidates.insert(0, f"aten::{part}_{name}")
    for full in candidates:
        if _C._script_has_operator(full):
            return full
    return None


def _specials():
    jit = cresset.jit
    return {
        jit.annotate: ("special", "annotate"), jit.isinstance: ("special", "isinstance"),
        builtins.isinstance: ("special", "isinstance"), builtins.getattr: ("special", "getattr"),
        jit.is_scripting: ("special", "is_scripting"), jit.is_tracing: ("special", "is_tracing"),
        jit.wait: ("operator", "aten::wait"), jit.fork: ("special", "fork"),
        jit._unwrap_optional: ("operator", "aten::_unwrap_optional"),
        cresset.device: ("operator", "aten::device"), cresset.set_grad_enabled: ("operator", "aten::set_grad_enabled"),
        cresset.autograd.grad: ("operator", "aten::grad"), cresset.autograd.backward: ("operator", "aten::backward"), typing.cast: ("special", "annotate"),
        builtins.complex: ("operator", "aten::Complex"), builtins.print: ("operator", "prim::Print"), builtins.int: ("special", "int"),
        builtins.float: ("special", "float"), builtins.bool: ("special", "bool"),
        builtins.str: ("special", "str"), builtins.slice: ("special", "slice"), builtins.list: ("special", "list"),
        builtins.dict: ("special", "dict"), builtins.tuple: ("special", "tuple"), builtins.hasattr: ("special", "hasattr"),
        collections.OrderedDict: ("special", "dict"),
    }


def _hashable(obj):
    try:
        hash(obj)
    except TypeError:
        return False
    return True


def describe(obj):
    """The kind and payload of an object, as the compiler understands them; None: nothing."""
    if _hashable(obj):
        special = _specials().get(obj)
        if special is not None:
            return special
    if isinstance(obj, types.FunctionType) and hasattr(obj, "_script_special"):
        return "special", obj._script_special
    if isinstance(obj, types.FunctionType) and obj.__globals__ is cresset.sparse.__dict__:
        for full in (f"aten::_sparse_{obj.__name__}", f"aten::sparse_{obj.__name__}"):
            if _C._script_has_operator(full):
                return "operator", full
    if isinstance(obj, enum.Enum):
        return "member", f"{define_enum(type(obj))}.{obj.name}"
    if obj is None or isinstance(obj, (bool, int, float, complex, str, cresset.dtype, cresset.device)):
        return "constant", obj
    if isinstance(obj, (cresset.layout, cresset.memory_format)):
        return "constant", _number_of(obj)
    if isinstance(obj, cresset.jit.ScriptFunction):
        return "function", obj
    if isinstance(obj, Defined):
        return "function", obj.qualified
    if isinstance(obj, (tuple, list)) and not isinstance(obj, type):
        return "constant", obj
    if isinstance(obj, type):
        return _describe_class(obj)
    if isinstance(obj, cresset.Tensor):
        return "constant", obj
    choice = obj if isinstance(obj, _forms.Choice) else _forms.choice_of(obj) if _hashable(obj) else None
    if choice is not None:
        return "choice", _handle(choice)
    form = obj if isinstance(obj, _forms.Form) else _forms.form_of(obj) if _hashable(obj) else None
    if form is not None:
        return "function", define(form)
    overloads = _forms.overloads_of(obj) if _hashable(obj) else []
    if overloads:
        return "function", _define_overloads(obj, overloads)
    if isinstance(obj, types.FunctionType):
        return _of_package(obj) or _describe_function(obj)
    if getattr(obj, "__module__", None) == "math" and callable(obj):
        return "operator", "aten::mathremainder" if obj is math.remainder else f"aten::{obj.__name__}"
    if isinstance(obj, _operator_types) or type(obj).__module__.endswith("_C"):
        name = _operator(obj)
        if name is not None:
            return "operator", name
    if isinstance(obj, types.ModuleType) or _is_package(obj):
        return "object", _handle(obj)
    name = _operator(obj) if callable(obj) and ours(getattr(obj, "__module__", "")) else None
    if name is not None:
        return "operator", name
    wrapped = getattr(obj, "__wrapped__", None)
    if isinstance(wrapped, types.FunctionType):
        return _describe_function(wrapped)
    return "object", _handle(obj)


def _of_package(fn):
    """The operator of a function of Python that the package itself has, such as torch.split, under whatever name a program
    calls it; None for others."""
    name = _operator(fn) if getattr(cresset, fn.__name__, None) is fn else None
    return None if name is None else ("operator", name)


def _is_package(obj):
    return type(obj).__name__ in ("_Ops", "_OpNamespace")


def _describe_function(fn):
    modifier = getattr(fn, "_torchscript_modifier", "")
    if modifier.startswith(("ignore", "unused")):
        return "function", define_python(fn)
    overloads = overloads_of(fn)
    if overloads:
        return "function", _define_overloads(fn, overloads)
    original = getattr(fn, "_script_if_tracing_original", None)
    return "function", define(original or fn)


def _define_overloads(fn, overloads):
    """Defines a function once for each declaration; returns the name of the first."""
    if fn not in _functions:
        base = qualified_name(fn)
        names = [define(form, qualified=free_name(base) if i else base) for i, form in enumerate(overloads)]
        join_overloads(names)
        _functions[fn] = names[0]
    return _functions[fn]


def join_overloads(names):
    """Calls of the first of these functions choose among all of them."""
    for name, following in zip(names, names[1:]):
        _C._script_overload(name, following)


def define_python(fn, qualified=None, owner=None, called=None):
    """Defines a function that programs call in Python, or one that they lack because `unused` marks it; returns its
    qualified name.  Parameters without an annotation, and such results, are tensors.  `owner`: the class of which it is a
    method.  `called`: what runs in its place."""
    key = fn if qualified is None else qualified
    if key in _functions:
        return _functions[key]
    signature = inspect.signature(fn)
    hints = {k: v for k, v in getattr(fn, "__annotations__", {}).items()}
    scope = _Scope(getattr(fn, "__func__", fn))

    def text_of(name):
        hint = hints.get(name, cresset.Tensor)
        return annotation(scope.evaluate(hint) if isinstance(hint, str) else hint)
    params = list(signature.parameters)
    typed = [p if owner is not None and p is params[0] else f"{p}: {text_of(p)}" for p in params]
    source = f"def {fn.__name__}({', '.join(typed)}) -> {text_of('return')}:\n    pass\n"
    form = _forms.Form(fn.__name__, fn.__module__, source, 1, inspect.getsourcefile(getattr(fn, "__func__", fn)),
                       scope.globals)
    qualified = qualified or qualified_name(fn)
    _functions[key] = define(form, owner, qualified.rpartition(".")[2], qualified=qualified)
    dropped = getattr(fn, "_torchscript_modifier", "").startswith("unused")
    _C._script_call_python(qualified, None if dropped else called or fn)
    return qualified


def define_called(obj, count):
    """Defines the call of an object of Python with `count` arguments; returns its qualified name.  Without annotations all
    are tensors."""
    key = "called", _handle(obj), count
    if key in _functions:
        return _functions[key]
    call = type(obj).__call__
    hints, scope = getattr(call, "__annotations__", {}), _Scope(call) if isinstance(call, types.FunctionType) else None

    def text_of(name):
        hint = hints.get(name, cresset.Tensor)
        return annotation(scope.evaluate(hint) if isinstance(hint, str) else hint)
    names = list(inspect.signature(obj).parameters) if hints else [f"argument_{i}" for i in range(count)]
    source = f"def called({', '.join(f'{n}: {text_of(n)}' for n in names)}) -> {text_of('return')}:\n    pass\n"
    form = _forms.Form("called", __name__, source, 1, globals={**vars(typing), "torch": cresset})
    qualified = free_name("__torch__.<python_value>")
    _functions[key] = define(form, qualified=qualified)
    _C._script_call_python(qualified, obj)
    return qualified


def _number_of(obj):
    order = {"layout": ["strided", "sparse_coo", "sparse_csr", "mkldnn", "sparse_csc", "sparse_bsr", "sparse_bsc"],
             "memory_format": ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"]}
    return order[type(obj).__name__].index(str(obj).rpartition(".")[2])


# --- classes ---

def _describe_class(cls):
    if issubclass(cls, enum.Enum):
        return "class", define_enum(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return "class", define_named_tuple(cls)
    if issubclass(cls, BaseException):
        return "object", _handle(cls)
    form = _forms.class_of(cls)
    if form is not None:
        return "class", define_class_form(cls, form)
    if cls in _classes:
        return "class", _classes[cls]
    if cls in _plain or not _class.compiles(cls):
        return "object", _handle(cls)
    return "class", _class.define(cls)


def define_class_form(cls, form):
    """Defines a class of the package by its form: attributes and methods."""
    if cls not in _classes:
        name = _classes[cls] = free_name(form.name)
        _C._script_add_class(name, "class")
        for attribute, text in form.attributes:
            _C._script_add_attribute(name, attribute, text, False, False)
        methods = [define(method, name) for method in form.methods]
        for method in sorted(methods, key=lambda m: m != f"{name}.__init__"):
            _C._script_compile(method)
    return _classes[cls]


def define_enum(cls):
    """Defines an enum; returns its qualified name."""
    if cls not in _classes:
        _check_enum(cls)
        name = _classes[cls] = qualified_name(cls)
        _C._script_add_class(name, "enum")
        for member in cls:
            if not _C._script_add_constant(name, member.name, member.value):
                raise RuntimeError(f"Could not convert the value of {member} to a TorchScript constant")
        _complete.add(cls)
    return _classes[cls]


def _check_enum(cls):
    kinds = [_plain.get(type(m.value), type(m.value).__name__) for m in reversed(cls)]
    for i, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise RuntimeError(f"Could not unify type list since element {i} of type {kind} did not match the types before it "
                               f"({kinds[0]})")
    if kinds and kinds[0] not in ("int", "float", "str"):
        raise RuntimeError(f"Cannot create Enum with value type '{kinds[0]}', only int, float and string are supported")


def _add_default(name, field, value):
    if isinstance(value, cresset.Tensor):
        raise RuntimeError("Tensors are not supported as default NamedTuple fields. Their mutability could lead to potential "
                           "memory aliasing problems")
    if not _C._script_add_constant(name, field, value):
        raise RuntimeError(f"the default of field '{field}', {value!r}, is not a constant of TorchScript")


def define_named_tuple(cls):
    """Defines a named tuple; returns its qualified name."""
    if cls not in _classes:
        hints = typing.get_type_hints(cls)
        fields = [(f, annotation(hints.get(f, cresset.Tensor))) for f in cls._fields]
        name = f"{_module_name(cls)}.{cls.__name__}"
        if name in _tuples:
            if _tuples[name] != fields:
                raise RuntimeError(f"Can't redefine NamedTuple: {name}")
            _classes[cls] = name
            _complete.add(cls)
            return name
        name = _classes[cls] = qualified_name(cls)
        _C._script_add_class(name, "tuple")
        for field, text in fields:
            _C._script_add_attribute(name, field, text, False, False)
        for field, value in getattr(cls, "_field_defaults", {}).items():
            _add_default(name, field, value)
        _C._script_finish_tuple(name)
        _tuples[name] = fields
        _complete.add(cls)
    return _classes[cls]


def _functions_of_interface(cls):
    return [name for name, value in vars(cls).items() if isinstance(value, types.FunctionType)]


# --- annotations ---

_bare = (typing.List, typing.Dict, typing.Tuple, typing.Optional, dict)
_plain = {int: "int", float: "float", bool: "bool", str: "str", complex: "complex", type(None): "NoneType",
          None: "NoneType", list: "List", tuple: "Tuple", typing.Any: "Any"}


def annotation(t):
    """The text of an annotation's type; raises for types that programs lack."""
    if _hashable(t) and t in _plain:
        return _plain[t]
    if _hashable(t) and t in _bare:
        name = getattr(t, "_name", None) or t.__name__
        more = f"contained types. Please add contained type, e.g. {name}[int, int]" if name.endswith("ict") else \
            f"a contained type. Please add a contained type, e.g. {name}[int]"
        raise RuntimeError(f"Attempted to use {name} without {more}")
    if isinstance(t, type) and issubclass(t, cresset.Tensor):
        return "Tensor"
    if t is cresset.device:
        return "Device"
    if t in (cresset.dtype, cresset.layout, cresset.memory_format):
        return "int"
    if t is cresset.Generator:
        return "Generator"
    origin, inner = typing.get_origin(t), typing.get_args(t)
    if origin is typing.Union or isinstance(t, types.UnionType):
        members = [annotation(m) for m in inner]
        if len(members) == 2 and "NoneType" in members:
            return f"Optional[{next(m for m in members if m != 'NoneType')}]"
        return f"Union[{', '.join(members)}]"
    if origin is list:
        return f"List[{annotation(inner[0])}]"
    if origin is dict:
        return f"Dict[{annotation(inner[0])}, {annotation(inner[1])}]"
    if origin is tuple:
        if not inner or inner == ((),):
            return "Tuple[()]"
        return f"Tuple[{', '.join(map(annotation, inner))}]"
    if origin is typing.Final:
        return annotation(inner[0])
    if t is cresset.jit.Future:
        raise RuntimeError("Attempted to use Future without a contained type. Please add a contained type, e.g. Future[int]")
    if isinstance(origin, type) and origin.__name__.endswith("Future"):
        return f"Future[{annotation(inner[0])}]"
    if isinstance(t, type) and issubclass(t, enum.Enum):
        return define_enum(t)
    if isinstance(t, type) and issubclass(t, tuple) and hasattr(t, "_fields"):
        return define_named_tuple(t)
    if isinstance(t, type) and t in _classes:
        return _classes[t]
    if isinstance(t, ScriptClass):
        return t._qualified
    if isinstance(t, types.FunctionType) and hasattr(t, "__supertype__"):
        return annotation(t.__supertype__)
    if isinstance(t, typing.NewType):
        return annotation(t.__supertype__)
    if isinstance(t, type) and issubclass(t, cresset.nn.Module):
        for name in _modules:
            if type(module_of(name)) is t:
                return name
    if isinstance(t, type) and _class.compiles(t):
        return _class.define(t)
    raise ValueError(f"Unknown type annotation: '{t}'")


# --- answers to the compiler ---

_CLOSED_OVER = ("python value of type '{}' cannot be used as a value. Perhaps it is a closed over global variable? If "
                "so, please consider passing it in as an argument or use a local variable instead.")


def _on_name(function, name):
    scope = _scopes.get(function)
    obj = scope.find(name) if scope is not None else _absent
    if obj is _absent:
        return None
    if isinstance(obj, (int, float, complex, str, tuple, list, dict, set)) and not isinstance(obj, enum.Enum):
        return "refused", _CLOSED_OVER.format(type(obj).__name__)
    return describe(obj)


def _on_call(handle, count):
    obj = _objects[handle]
    if isinstance(obj, cresset.jit.ScriptModule):
        return "refused", "Cannot call a ScriptModule that is not a submodule of the caller"
    if isinstance(obj, (type, types.ModuleType)) or not callable(obj):
        return None
    if ours(getattr(obj, "__module__", "")) and not isinstance(obj, cresset.nn.Module):
        full = f"aten::{getattr(obj, '__name__', type(obj).__name__)}"
        return "refused", (f"Unknown builtin op: {full}.\nCould not find any similar ops to {full}. This op may not exist or may "
                           "not be currently supported in TorchScript.\n")
    return "function", define_called(obj, count)


def _on_attribute(handle, name):
    obj = _objects[handle]
    if name == "__exception__":
        return ("constant", f"{obj.__module__}.{obj.__name__}") if isinstance(obj, type) else None
    found = getattr(obj, name, _absent)
    if isinstance(obj, types.ModuleType) and obj is cresset and name in ("ops", "classes"):
        return "object", _handle(found)
    if _is_package(obj) and not hasattr(obj, name):
        full = f"{getattr(obj, 'name', '')}::{name}"
        return ("operator", full) if _C._script_has_operator(full) else None
    if type(obj).__name__ == "_OpNamespace":
        return "operator", f"{obj.name}::{name}"
    if found is _absent:
        return None
    if isinstance(obj, types.ModuleType) and ours(obj.__name__) and callable(found) \
            and not isinstance(found, type) and (obj is cresset or not isinstance(found, types.FunctionType)) and _forms.form_of(found) is None \
            and _forms.choice_of(found) is None and not _forms.overloads_of(found):
        for full in _operator_names(obj, name):
            if _C._script_has_operator(full):
                return "operator", full
    return describe(found)


def _operator_names(module, name):
    part = module.__name__.rpartition(".")[2]
    if part in ("linalg", "fft", "special"):
        yield f"aten::{part}_{name}"
    yield f"aten::{name}"


def _on_member(cls, name):
    module = module_of(cls)
    if module is None:
        return _class_attribute(cls, name)
    from . import _recursive
    return _recursive.member(cls, module, name)


def _class_attribute(qualified, name):
    """Attributes of classes, which programs lack."""
    if (qualified, name) in _statics:
        return "function", _statics[qualified, name]
    cls = next((c for c, known in _classes.items() if known == qualified), None)
    value = vars(cls).get(name, _absent) if isinstance(cls, type) else _absent
    if value is _absent or callable(value) or isinstance(value, (staticmethod, classmethod, property)) or name.startswith("__") \
            or hasattr(value, "__set_name__") or type(value).__name__ == "member_descriptor":
        return None
    return "refused", (f"'{qualified}' object has no attribute or method '{name}'. '{name}' is defined as a class attribute "
                       "which currently is not supported. Consider converting this to an instance attribute.")


def _on_value(function, text):
    value = _scopes[function].evaluate(text)
    described = describe(value)
    return described if described and described[0] in ("constant", "member") else None


def _on_type(function, text):
    scope = _scopes.get(function)
    if scope is None:
        return None
    try:
        t = scope.evaluate(text)
        t = scope.evaluate(t) if isinstance(t, str) else t
    except NameError:
        t = _annotated(scope, text)
    if t is None or isinstance(t, (typing.TypeVar, typing.ParamSpec)) or (typing.get_args(t) and _has_variable(t)):
        return None
    return annotation(t)


def _has_variable(t):
    """Whether the annotation has a type variable inside, which is no name of a type."""
    return isinstance(t, (typing.TypeVar, typing.ParamSpec)) or any(map(_has_variable, typing.get_args(t)))


def _parts(node, value):
    """The parts of an annotation and their values: those of List[T] are List[T] and T."""
    import ast
    yield ast.unparse(node), value
    if isinstance(node, ast.Subscript):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for part, of in zip(inner, typing.get_args(value)):
            yield from _parts(part, of)


def _written(fn):
    """The annotations of a function by their text: names of an enclosing function are known to the function alone."""
    import ast
    import textwrap
    if not isinstance(fn, types.FunctionType):
        return {}
    args = ast.parse(textwrap.dedent(_source(fn)[0])).body[0]
    found = {a.arg: a.annotation for a in (*args.args.posonlyargs, *args.args.args, *args.args.kwonlyargs)}
    found["return"] = args.returns
    return {text: value for name, a in found.items() if a is not None and name in fn.__annotations__
            for text, value in _parts(a, fn.__annotations__[name])}


def _annotated(scope, text):
    """A type that a function's annotations have, and no name that it sees, such as a class beside the function."""
    import ast
    known = _written(getattr(scope, "fn", None)).get(ast.unparse(ast.parse(text.strip(), mode="eval")))
    if known is not None and not isinstance(known, str):
        return known
    found, left = {}, list(getattr(getattr(scope, "fn", None), "__annotations__", {}).values())
    while left:
        t = left.pop()
        left += typing.get_args(t)
        if isinstance(t, type):
            found[t.__name__] = t
    try:
        return eval(text, {**scope.table(), **found}) if found else None
    except NameError:
        return None


def _on_refuse(kind, text):
    from . import frontend
    raise (ValueError if kind == "ValueError" else getattr(frontend, kind))(text)


class Defined:
    """A function that is defined, by its qualified name."""

    def __init__(self, qualified):
        self.qualified = qualified


class _UnitScope:
    """Names of the functions of a unit: each other, torch, and those of the code that made the unit."""

    def __init__(self, functions, names):
        self.functions, self.names = functions, names

    def find(self, name):
        if name in self.functions:
            return self.functions[name]
        known = cresset if name == "torch" else self.names.get(name, _absent)
        return _builtin(name) if known is _absent else known

    def evaluate(self, text):
        return eval(text, {"torch": cresset, **vars(typing), **self.names})


def define_unit(source, functions, names):
    """Defines the functions of a source text, which sees `names`; `functions` gets them by name."""
    import ast
    tree = ast.parse(source)
    lines = re.split("\r\n|\r|\n", source)
    made = []
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            raise RuntimeError("Expected functions in the source of a CompilationUnit")
        qualified = free_name(f"__torch__.{node.name}")
        functions[node.name] = Defined(qualified)
        _scopes[qualified] = _UnitScope(functions, names)
        made.append((node, qualified))
    for node, qualified in made:
        *whole, last = lines[node.lineno - 1:node.end_lineno]  # ast's own function copies a line for each character
        text = "\n".join([*whole, last.encode()[:node.end_col_offset].decode()])
        text = text.replace(f"def {node.name}", f"def {qualified.rpartition('.')[2]}", 1)
        _C._script_define(qualified, None, text + "\n", None, node.lineno, 0)
    return {node.name: _C._script_compile(qualified) for node, qualified in made}


def compile_function(fn):
    """Compiles a function of Python."""
    given, fn = fn, _forms.form_of(fn) or fn
    with attempt():
        made = _C._script_compile(_functions[fn] if fn in _functions else define(fn))
    made.__doc__, made._torchdynamo_inline = given.__doc__, given
    return made


def compile_wrapped(fn):
    """Compiles a function of Python that another object calls, such as those of nn.functional."""
    with attempt():
        return _C._script_compile(define(_forms.form_of(fn) or fn.__wrapped__))


from . import _class  # noqa: E402 (it uses this module)
