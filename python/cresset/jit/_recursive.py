"""Compiling modules: the class of a module's kind, its attributes, methods and submodules.

Modules of one Python class share a compiled class when their attributes have equal types, their
constants equal values, their submodules equal classes, and the functions that they hold are the same.
"""
import enum
import inspect
import types
import typing
import weakref

import cresset
from cresset.nn import Module, ModuleDict, ModuleList, ParameterDict, ParameterList, RNNBase, Sequential

from .. import _C
from . import _class, _forms, _frontend
from ._hooks import check_hook

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
    if isinstance(value, enum.Enum):
        return _frontend.define_enum(type(value))
    if type(value) in _frontend._classes:
        return _frontend._classes[type(value)]
    if isinstance(value, tuple):
        if hasattr(value, "_fields"):
            return _frontend.define_named_tuple(type(value))
        inner = [infer(v) for v in value]
        return None if None in inner else f"Tuple[{', '.join(inner) or '()'}]"
    if isinstance(value, list):
        inner = _one_of(value)
        return inner and f"List[{inner}]"
    if isinstance(value, dict):
        key, item = _one_of(value), _one_of(value.values())
        return f"Dict[{key}, {item}]" if key and item else None
    return None


def _one_of(values):
    """The type that all values have, of None and another one the optional; None: there is none."""
    kinds = {infer(v) for v in values}
    if len(kinds) == 2 and "NoneType" in kinds and None not in kinds:
        return f"Optional[{(kinds - {'NoneType'}).pop()}]"
    return kinds.pop() if len(kinds) == 1 else None


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


def _define_classes(value):
    """Compiles the classes of an attribute's value, or of what it contains."""
    if isinstance(value, dict):
        value = list(value.values())
    if type(value) in (list, tuple):
        for cls in {type(item): item for item in value}.values():
            _define_classes(cls)
    elif infer(value) is None and not isinstance(value, type) and not callable(value) and type(value) is not set and \
            _class.compiles(type(value)):
        _class.define(type(value))


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
        ignored = getattr(module, "__jit_ignored_attributes__", ())
        for name, value in vars(module).items():
            if name not in ignored and name not in _skipped and name not in self.values and name not in self.constants:
                self._attribute(name, value, hints)
        for name, child in module._modules.items():
            hint = hints.get(name)
            if name in ignored:
                continue
            if child is None:
                self._add(name, None, "NoneType")
            elif getattr(hint, "__torch_script_interface__", False):
                self._add_interface(name, child, hint)
            else:
                self.children.append((name, script_module(child)))

    def _add(self, name, value, text, parameter=False, buffer=False):
        self.attributes.append((name, text, parameter, buffer))
        self.values[name] = value

    def _add_interface(self, name, child, interface):
        """A module that is known by an interface, whose methods it has."""
        made = script_module(child)
        for method in _frontend._functions_of_interface(interface):
            found = member(made._c.name, child, method) if method not in made._c.methods() else None
            if found is not None:
                _C._script_compile(found[1])
        self._add(name, made._c, _class.define_interface(interface))

    def _constant(self, module, name):
        if name in self.values or name in module._modules or not hasattr(module, name):
            return
        value = getattr(module, name)
        if infer(value) is not None or isinstance(value, (list, tuple)):
            self.constants[name] = value

    def _attribute(self, name, value, hints):
        if isinstance(value, cresset.jit.Attribute):
            self._add(name, value.value, _frontend.annotation(value.type))
            return
        if name in hints:
            self._add(name, value, _frontend.annotation(hints[name]))
            return
        try:
            _define_classes(value)
            text = infer(value)
        except Exception:
            text = None  # the compiler says why when something uses the attribute
        if text is None:
            self.failed[name] = type(value)
        else:
            self._add(name, value, text)

    def key(self, module):
        constants = tuple((k, _constant_key(self.constants[k])) for k in sorted(self.constants))
        hooks = tuple((_Identity(hook), before) for hook, before in _hooks_of(module))
        methods = {n: m.__func__ for n, m in vars(module).items() if isinstance(m, types.MethodType) and m.__self__ is module}
        called = tuple((n, _Identity(f)) for n, f in vars(module).items() if n in self.failed and n not in methods and callable(f))
        return (type(module), hooks, tuple(methods.items()), called, tuple(self.attributes), constants,
                tuple((n, c._c.name) for n, c in self.children), getattr(module, "_script_distinct", None))


def _define_class(module, shape):
    name = _frontend.qualified_name(type(module))
    _C._script_add_class(name, "module")
    _frontend.keep_module(name, module)
    for attribute in shape.attributes:
        _C._script_add_attribute(name, *attribute)
    for child_name, child in shape.children:
        _C._script_add_submodule(name, child_name, child._c)
    for constant, value in shape.constants.items():
        _C._script_add_constant(name, constant, value)
    return name


def _overrides(module, name):
    """Whether a class outside of the package has its own method of this name."""
    owner = next((base for base in type(module).__mro__ if name in vars(base)), Module)
    return not _frontend.ours(owner.__module__)


def _find_method(module, name):
    form = _forms.method_of(type(module), name)
    if form is not None:
        return form
    found = inspect.getattr_static(type(module), name, None)
    own = vars(module).get(name)
    if isinstance(own, types.MethodType) and own.__self__ is module and found is not None:
        return own.__func__  # self.forward = self.forward_slow
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    return found if isinstance(found, types.FunctionType) else None


def _overloads(module, name):
    fn = inspect.getattr_static(type(module), name, None)
    return _frontend.overloads_of(fn) if isinstance(fn, types.FunctionType) else ()


def _join_packed(cls, module, name):
    """Calls of the `forward` of a recurrent layer choose between its form and that of packed sequences."""
    packed = _forms.method_of(type(module), f"{name}__1")
    if packed is not None and f"{cls}.{name}__1" not in _frontend._scopes:
        _frontend.define(packed, cls, f"{name}__1")
        _C._script_overload(f"{cls}.{name}", f"{cls}.{name}__1")


def _define_overloads(cls, module, name):
    """Defines a method once for each of its declarations; returns the names of these methods."""
    forms = _overloads(module, name)
    names = [f"{name}__{i}" for i in range(len(forms))]
    if names and f"{cls}.{names[0]}" not in _frontend._scopes:
        _frontend.join_overloads([_frontend.define(form, cls, made) for form, made in zip(forms, names)])
    return names


def _marked(cls):
    """(name, function) of the class's methods that stay in Python."""
    for name in dir(cls):
        static = inspect.getattr_static(cls, name, None)
        if getattr(static, "_torchscript_modifier", "").startswith(("ignore", "unused")):
            yield name, static


def _called_with_module(fn, cls, constants):
    """A call of a method that stays in Python: `self` is a script module over the program's object, with the methods of
    `cls` that stay in Python and its constants.  Attributes that the program lacks are those of the original only."""
    def call(object, *args):
        from ._loaded import RecursiveScriptModule
        module = RecursiveScriptModule(object)
        for name, static in _marked(cls):
            module.__dict__[name] = static.__func__ if isinstance(static, staticmethod) else types.MethodType(static, module)
        for name, value in constants.items():
            module.__dict__.setdefault(name, value)
        return fn(module, *args)
    return call


def _paths(module, prefix=""):
    """The paths of the modules inside, each before those that it holds."""
    for name, child in module._modules.items():
        if child is not None:
            yield prefix + name
            yield from _paths(child, f"{prefix}{name}.")


def _members_inside(module, name):
    """What children(), modules(), their named forms and named_buffers() give: attributes, or pairs."""
    hints = _annotations(type(module))
    if any(getattr(hints.get(n), "__torch_script_interface__", False) for n in module._modules):
        return "refused", f"Could not compile {name}() because module is an interface type. Please file issue."
    names = [n for n, child in module._modules.items() if child is not None]
    if name == "named_buffers":
        names = [n for n, b in module._buffers.items() if b is not None]
    elif name.endswith("modules"):
        names = [".", *_paths(module)]
    return "attributes", ("items " if name.startswith("named_") else "") + " ".join(names)


def _length_or_contents(cls, module, name):
    """The methods __len__ and __contains__ that containers of modules have in programs."""
    if name == "__contains__" and not isinstance(module, ModuleDict):
        return None
    if f"{cls}.{name}" not in _frontend._scopes:
        source = f"def __len__(self):\n   return {len(module._modules)}\n"
        if name == "__contains__":
            keys = list(module._modules)
            source = f"def __contains__(self, key: str):\n   return {f'key in {keys}' if keys else False}\n"
        _frontend.define(_forms.Form(name, __name__, source, 1, "<string>", {}), cls, name)
    return "function", f"{cls}.{name}"


def member(cls, module, name):
    """A member of a module's class that the compiler asks for."""
    if name.removeprefix("named_") in ("children", "modules") or name == "named_buffers":
        if not _overrides(module, name):
            return _members_inside(module, name)
    if name in ("__len__", "__contains__") and isinstance(module, (ModuleList, Sequential, ModuleDict)) and \
            not _overrides(module, name):
        return _length_or_contents(cls, module, name)
    if name in ("__iter__", "keys", "values", "items") and not _overrides(module, name):
        if isinstance(module, (ModuleList, Sequential)) and name == "__iter__":
            return "attributes", " ".join(module._modules)
        if isinstance(module, ParameterList) and name == "__iter__":
            return "attributes", " ".join(map(str, range(len(module))))
        if isinstance(module, (ModuleDict, ParameterDict)):
            names = " ".join(module._modules if isinstance(module, ModuleDict) else module.keys())
            return "attributes", {"__iter__": "keys ", "keys": "keys ", "values": "", "items": "items "}[name] + names
    if name == "_flat_weights" and isinstance(module, RNNBase):
        return "attributes", " ".join(name for names in module._all_weights for name in names)
    if name == "__iter__" or name in ("__len__", "__contains__") and not _overrides(module, name):
        return None
    if name in vars(module) and callable(vars(module)[name]):
        try:
            described = _frontend.describe(vars(module)[name])
        except RuntimeError as e:
            return "refused", (f"Module '{type(module).__name__}' has no attribute '{name}' (This function exists as an "
                               "attribute on the Python module, but we failed to compile it to a TorchScript function. \n"
                               f"The error stack is reproduced here:\n{e})")
        if described is not None and described[0] in ("function", "operator"):
            return described
    static = inspect.getattr_static(type(module), name, None)
    overloads = _define_overloads(cls, module, name)
    if overloads:
        return "function", f"{cls}.{overloads[0]}"
    fn = _find_method(module, name)
    if name.startswith("__") and name.endswith(("_getter", "_setter")):
        return _accessor(cls, module, name)
    if isinstance(static, property):
        return None
    if fn is None:
        if static is not None and _C is not None and not isinstance(static, property) and not callable(static):
            return _frontend.describe(static)
        why = _why_absent(module, name)
        return why and ("refused", why)
    modifier = getattr(fn, "_torchscript_modifier", "")
    if modifier.startswith(("ignore", "unused")):
        if isinstance(static, staticmethod):
            return "function", _frontend.define_python(fn, f"{cls}.{name}")
        return "function", _frontend.define_python(fn, f"{cls}.{name}", cls, _called_with_module(fn, type(module), {}))
    if isinstance(static, staticmethod):
        return "function", _frontend.define(fn)
    return "function", _frontend.define(fn, cls, name)


def _accessor(cls, module, name):
    """The function of a property: __name_getter or __name_setter."""
    static = inspect.getattr_static(type(module), name[2:-7], None)
    if not isinstance(static, property) or name[2:-7] in getattr(module, "__jit_unused_properties__", ()):
        return None
    fn = static.fget if name.endswith("_getter") else static.fset
    if fn is None:
        return None
    if getattr(fn, "_torchscript_modifier", "").startswith(("ignore", "unused")):
        return None
    if f"{cls}.{name}" in _frontend._scopes:
        return "function", f"{cls}.{name}"
    return "function", _frontend.define(fn, cls, name)


def _why_untyped(value):
    """Why a value has no type in programs; None when it has one."""
    if isinstance(value, Module):
        return "Cannot infer concrete type of torch.nn.Module"
    if isinstance(value, (list, dict)) and not value:
        return "List trace inputs must have elements" if isinstance(value, list) else "Dictionary inputs must have entries"
    if isinstance(value, (list, tuple, dict)):
        groups = (list(value), list(value.values())) if isinstance(value, dict) else (list(value),)
        inner = next((why for group in groups for x in group if (why := _why_untyped(x))), None)
        if inner is not None:
            return f"Could not infer type of list element: {inner}" if isinstance(value, list) else inner
        kinds = [[infer(x) for x in group] for group in groups]
        first, other = next(((g[0], k) for g in kinds for k in g if k != g[0]), (None, None))
        if first is not None and not isinstance(value, tuple):
            kind = "List inputs to traced functions must have consistent element" if isinstance(value, list) else \
                "Dictionary inputs to traced functions must have consistent"
            return f"{kind} type. Found {first} and {other}"
    if infer(value) is not None:
        return None
    return ("Only tensors and (possibly nested) tuples of tensors, lists, or dicts are supported as inputs or outputs of "
            f"traced functions, but instead got value of type {type(value).__name__}.")


def _why_absent(module, name):
    """Why an attribute of a module is none of the program's module; None when the module lacks it, too."""
    head = f"Module '{type(module).__name__}' has no attribute '{name}' "
    if name in getattr(module, "__jit_ignored_attributes__", ()):
        return head + "attribute was ignored during compilation"
    value = vars(module).get(name, module)
    if value is module:
        return None
    kind = type(value)
    shown = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return (f"{head}(This attribute exists on the Python module, but we failed to convert Python type: '{shown}' to a "
            f"TorchScript type. {_why_untyped(value)}. Its type was inferred; try adding a type annotation for the attribute.)")


def _exported(module):
    names = []
    if isinstance(module, cresset.jit.ScriptModule):
        return [n for n in dir(type(module)) if hasattr(inspect.getattr_static(type(module), n, None), "_script_method")]
    if _find_method(module, "forward") not in (None, Module.forward):
        names.append("forward")
    for name in dir(type(module)):
        fn = inspect.getattr_static(type(module), name, None)
        if getattr(fn, "_torchscript_modifier", "").startswith("export"):
            names.append(name)
    return names


def script_module(module):
    """The compiled module, which shares parameters and buffers with the module."""
    from ._loaded import LoadedModule
    if isinstance(module, cresset.jit.ScriptModule) and "_c" in module.__dict__:
        return module
    shape = _Shape(module)
    key = shape.key(module)
    name = _frontend._shared.get(key)
    fresh = name is None
    if not fresh:
        _frontend.keep_module(name, module)
    if fresh:
        name = _define_class(module, shape)
        methods = _exported(module)
        methods = [made for method in methods for made in _define_overloads(name, module, method) or [method]]
        for method in methods:
            fn = _find_method(module, method)
            if getattr(fn, "_torchscript_modifier", "").startswith(("ignore", "unused")):
                continue
            if f"{name}.{method}" not in _frontend._scopes:
                _frontend.define(fn, name, method, getattr(fn, "_script_method", None))
                _join_packed(name, module, method)
        _define_hooks(module, name)
        for method in methods:
            if f"{name}.{method}" in _frontend._scopes:
                _C._script_compile(f"{name}.{method}")
        for property in _properties(module):
            for accessor in (f"__{property}_getter", f"__{property}_setter"):
                if _accessor(name, module, accessor) is not None:
                    _C._script_compile(f"{name}.{accessor}")
        _frontend._shared[key] = name
    values = {**shape.values, **{n: c._c for n, c in shape.children}}
    object = _C._script_new(name, values)
    _frontend.keep_module(name, module, object)
    made = LoadedModule(object)
    made._modules.update(shape.children)
    _copy_ignored(module, made, shape)
    return made


def _properties(module):
    """Names of the properties of the module's own classes."""
    if _frontend.ours(type(module).__module__):
        return
    for name in dir(type(module)):
        static = inspect.getattr_static(type(module), name, None)
        owner = next((base for base in type(module).__mro__ if name in vars(base)), Module)
        if isinstance(static, property) and not _frontend.ours(owner.__module__):
            yield name


def _copy_ignored(module, made, shape):
    """Gives the compiled module the methods and attributes that only Python sees."""
    for name, static in _marked(type(module)):
        made.__dict__[name] = static.__func__ if isinstance(static, staticmethod) else types.MethodType(static, made)
    for name in getattr(module, "__jit_ignored_attributes__", ()):
        made.__dict__[name] = getattr(module, name)


# --- hooks ---

def _hooks_of(module):
    """((function, name), runs before forward), in order."""
    for hooks, before in ((module._forward_pre_hooks, True), (module._forward_hooks, False)):
        for hook in hooks.values():
            yield hook, before


def _define_hooks(module, cls):
    defined = {}
    for hook, before in _hooks_of(module):
        if not isinstance(hook, types.FunctionType):
            raise NotImplementedError("torch.jit.script does not compile hooks that are no functions; "
                                      f"'{type(module).__name__}' has one")
        name = hook.__name__
        if (before, name) in defined and defined[before, name] is not hook:
            kind = "Pre-hook" if before else "Hook"
            raise RuntimeError(f"{kind} '{name}' on {type(module).__name__} has at least two different python definitions. "
                               "Please use unique names for all hooks.")
        if (before, name) not in defined:
            if f"{cls}.{name}" in _frontend._scopes or _find_method(module, name) is not None or \
                    (not before, name) in defined:
                raise RuntimeError(f"Can't define hook: {name} on class: {cls} because a method or hook with that name "
                                   "already exists.")
            _frontend.define(hook, cls, name)
        defined[before, name] = hook
        _C._script_add_hook(cls, name, before)
    owner = type(module).__name__
    output = None
    for hook, before in _hooks_of(module):
        if not before and output is None:
            _C._script_compile(f"{cls}.forward")
            output = _C._script_result(f"{cls}.forward")
        made = check_hook(cls, hook.__name__, hook, owner, before, output)
        output = output if before else made


# --- subclasses of ScriptModule ---

def wrap_cpp_module(object):
    """The module of a program's object."""
    from ._loaded import RecursiveScriptModule
    return RecursiveScriptModule(object)


def compile_in_place(module):
    """Compiles the methods that `script_method` marks, and makes the object that of the program."""
    from ._loaded import LoadedMethod
    with _frontend.attempt():
        made = script_module(module)
    for name in made.__dict__["_plain"]:
        module.__dict__.pop(name, None)
    for name in ("_c", "_plain", "_constant_values", "_method_names"):
        module.__dict__[name] = made.__dict__[name]
    module._modules = made._modules
    _frontend.keeps_itself(module._c)
    for name in _exported(module):
        module.__dict__[name] = LoadedMethod(module._c, name)


def define_method(module, source):
    """Compiles a method of a module, of which the class has no other module, from a source text."""
    import ast
    import textwrap
    from ._loaded import LoadedMethod
    if "_c" not in module.__dict__:
        module.__dict__["_script_distinct"] = object()
        compile_in_place(module)
    text = textwrap.dedent(source)
    name = ast.parse(text).body[0].name
    cls = module._c.name
    with _frontend.attempt():
        _frontend._scopes[f"{cls}.{name}"] = _frontend._UnitScope({}, {})
        _C._script_define(f"{cls}.{name}", cls, text, None, 1, 0)
        _C._script_compile(f"{cls}.{name}")
    module.__dict__["_method_names"] = frozenset(module._c.methods())
    module.__dict__[name] = LoadedMethod(module._c, name)
