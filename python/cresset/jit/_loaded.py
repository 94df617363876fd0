"""Modules of TorchScript archives: `load`, and the object that it returns.

The program (classes, attributes, methods) is in C (`_C.ScriptObject`).  A loaded module is an
`nn.Module` over it: parameters, buffers and submodules are those of the program, and a call runs
the program's method.
"""
import collections
import functools
import os
import threading

from .. import _C
from ..nn import Module
from ..serialization import _checked_path
from ._graph import graph_with

_named_tuples = {}


class _Recorders(threading.local):
    """The traces that are active in this thread, innermost last."""

    def __init__(self):
        self.active = []


recorders = _Recorders()


def _named_tuple(qualified, fields, values):
    """A named tuple of a program's class; the class is made once."""
    made = _named_tuples.get((qualified, fields))
    if made is None:
        made = _named_tuples[qualified, fields] = collections.namedtuple(qualified.rpartition(".")[2], fields)
    return made(*values)


def _original_name(qualified):
    return qualified.rpartition(".")[2]


class LoadedMethod:
    """A method of a program, which can be called."""

    def __init__(self, object, name):
        self._object = object
        self.name = self.__name__ = name

    def __call__(self, *args, **kwargs):
        if recorders.active:
            return recorders.active[-1].method_call(self._object, self.name, args, kwargs)
        return self._object.call(self.name, args, kwargs)

    @property
    def code(self):
        """The source text in the archive."""
        return self._object.code(self.name)

    def _graph(self, *passes):
        after = functools.partial(self._object.graph_after, self.name)
        return graph_with(self._object, self.name, after, list(passes))

    @property
    def graph(self):
        """The typed graph."""
        return self._graph()

    @property
    def inlined_graph(self):
        """The graph with the graphs of the functions that it calls."""
        return self._graph("inline")

    def graph_for(self, *args, **kwargs):
        """The graph without calls, after the passes of the executor; arguments do not matter."""
        return self._graph("inline", "wrapped", "prepare")

    @property
    def schema(self):
        """The declaration with types."""
        return self._object.schema(self.name)


def _pre_hook(object, name):
    return lambda module, args: object.call(name, (args,))


def _hook(object, name):
    return lambda module, args, result: object.call(name, (args, result))


class _Fixed(dict):
    """Parameters or buffers of a compiled module: those that its class has."""

    def __init__(self, object, values):
        super().__init__(values)
        self.object = object

    def __setitem__(self, name, value):
        if name not in self:
            raise RuntimeError(f"Can't add a new parameter after ScriptModule construction. Tried to add '{name}")
        self.object.set(name, value)
        super().__setitem__(name, value)

    def __delitem__(self, name):
        raise RuntimeError("cannot delete methods or parameters of a script module")

    def __reduce__(self):
        return dict, (dict(self),)


class _FixedModules(_Fixed):
    """Modules inside of a compiled module."""

    def __setitem__(self, name, value):
        if not isinstance(value, ScriptModule):
            raise RuntimeError("Cannot re-assign modules in a ScriptModule with non-scripted module, "
                               f"tried to replace existing module '{name}': {value}")
        try:
            self.object.set(name, value)
        except AttributeError as error:
            raise RuntimeError(str(error).replace("a field with", "an attribute with")) from None
        dict.__setitem__(self, name, value)


class _CompilesItself(type):
    """Objects of subclasses of ScriptModule are compiled when `__init__` is done."""

    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        if not issubclass(cls, RecursiveScriptModule) and "_c" not in made.__dict__:
            from . import _recursive
            _recursive.compile_in_place(made)
        return made


class ScriptModule(Module, metaclass=_CompilesItself):
    """A module whose attributes and methods are those of a program.

    Methods of subclasses that `script_method` marks are compiled when the object is made.
    """

    def _adopt(self, object):
        """Makes this the module of a program's object."""
        from . import _frontend
        made = self.__dict__
        made["_c"] = object
        made["_plain"] = set()
        made.pop("training", None)  # a frozen program has no such attribute; Python keeps the one that is set later
        made["_trains"] = False
        made["_constant_values"] = object.constants()
        inner = []
        for name, _, parameter, buffer, module in object.attributes():
            value = object.get(name)
            if module:
                _frontend.share_original(value, [value])
                self._modules[name] = self._inner(value)
                inner.append(value)
            elif parameter:
                self._parameters[name] = value
            elif buffer:
                self._buffers[name] = value
            elif name == "training":
                made["training"], made["_trains"] = value, True
            else:
                made["_plain"].add(name)
        if not _frontend.has_original(object):
            _frontend.share_original(object, inner)
        made["_method_names"] = frozenset(object.methods())
        for name in ("forward", "__getstate__", "__setstate__"):
            if name in made["_method_names"]:
                made[name] = LoadedMethod(object, name)
        for name in object.hooks(True):
            Module.register_forward_pre_hook(self, _pre_hook(object, name))
        for name in object.hooks(False):
            Module.register_forward_hook(self, _hook(object, name))
        made["_parameters"], made["_buffers"] = _Fixed(object, self._parameters), _Fixed(object, self._buffers)
        made["_modules"] = _FixedModules(object, self._modules)

    def define(self, src):
        """Compiles a method of this module from its source text."""
        from . import _recursive
        _recursive.define_method(self, src)

    @property
    def original_name(self):
        """The name of the class that was compiled."""
        return _original_name(self._c.name)

    def __getattr__(self, name):
        made = self.__dict__
        if name in made.get("_plain", ()):
            return self._c.get(name)
        if name in made.get("_constant_values", ()):
            return made["_constant_values"][name]
        if name in made.get("_method_names", ()):
            return LoadedMethod(self._c, name)
        if f"__{name}_getter" in made.get("_method_names", ()):
            return self._c.call(f"__{name}_getter", ())
        return super().__getattr__(name)

    def __setattr__(self, name, value):
        made = self.__dict__
        if name in made.get("_plain", ()):
            self._c.set(name, value)
            return
        if f"__{name}_setter" in made.get("_method_names", ()):
            self._c.call(f"__{name}_setter", (value,))
            return
        if name in made.get("_constant_values", ()):
            raise RuntimeError(f"Can't set constant '{name}' which has value:{made['_constant_values'][name]}")
        table = next((made[t] for t in ("_modules", "_parameters", "_buffers") if "_c" in made and name in made[t]), None)
        if table is not None:
            table[name] = value
            return
        super().__setattr__(name, value)
        if name == "training" and made.get("_trains"):
            self._c.set(name, value)

    def __delattr__(self, name):
        if name == "training":
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        super().__delattr__(name)

    def __dir__(self):
        return sorted({*super().__dir__(), *self.__dict__.get("_method_names", ())})

    def _sync(self):
        for values in (self._parameters, self._buffers):
            for name, value in values.items():
                self._c.set(name, value)

    def _apply(self, fn, recurse=True):
        result = super()._apply(fn, recurse)
        for module in self.modules():
            if isinstance(module, ScriptModule) and "_c" in module.__dict__:
                module._sync()
        return result

    def train(self, mode=True):
        """Sets the mode of this module and of those inside."""
        super().train(mode)
        for module in self.modules():
            if isinstance(module, ScriptModule) and module.__dict__.get("_trains"):
                module._c.set("training", mode)
        return self

    @property
    def code(self):
        """The source text of `forward`."""
        return self._c.code("forward")

    @property
    def graph(self):
        """The typed graph of `forward`."""
        return LoadedMethod(self._c, "forward").graph

    @property
    def inlined_graph(self):
        """The graph of `forward` with the graphs of the functions that it calls."""
        return LoadedMethod(self._c, "forward").inlined_graph

    @property
    def code_with_constants(self):
        """The source of `forward`, and its constants by name: this one writes numbers in the source."""
        return self.code, {}

    def graph_for(self, *args, **kwargs):
        """The graph of `forward` without calls, after the passes of the executor; arguments do not matter."""
        return LoadedMethod(self._c, "forward").graph_for()

    def _items(self):
        """The modules by key: a dict has its names, a list its places; other modules have no items."""
        if self.original_name == "ModuleDict":
            return self._modules
        if not all(name.isdigit() for name in self._modules) or not (
                self._modules or self.original_name in ("ModuleList", "Sequential")):
            raise NotImplementedError
        return list(self._modules.values())

    def _has(self, method):
        return method in self.__dict__.get("_method_names", ())

    def __len__(self):
        return self._c.call("__len__", ()) if self._has("__len__") else len(self._items())

    def __iter__(self):
        return self._c.call("__iter__", ()) if self._has("__iter__") else iter(self._items())

    def __getitem__(self, key):
        return self._c.call("__getitem__", (key,)) if self._has("__getitem__") else self._items()[key]

    def __contains__(self, item):
        return self._c.call("__contains__", (item,)) if self._has("__contains__") else item in self._items()

    def __bool__(self):
        return True

    def __copy__(self):
        from . import _frontend
        object = self._c.copy()
        _frontend.share_original(object, [self._c])
        return LoadedModule(object)

    def __deepcopy__(self, memo):
        from . import _frontend
        object = self._c.__deepcopy__(memo)
        _frontend.share_original(object, [self._c])
        return LoadedModule(object)

    def __getstate__(self):
        raise RuntimeError(f"Tried to serialize object {self._c.name} which does not have a __getstate__ method defined!")

    def save(self, f, _extra_files=None):
        """Writes an archive, which torch reads too."""
        name = os.path.splitext(os.path.basename(str(f)))[0] or "archive"
        archive = self.save_to_buffer(_extra_files, name)  # a failure leaves the file that is there
        with open(_checked_path(f), "wb") as file:
            file.write(archive)

    def save_to_buffer(self, _extra_files=None, _name="archive"):
        """The bytes of an archive."""
        return self._c.save(_name, dict(_extra_files or {}))

    def extra_repr(self):
        return f"original_name={self.original_name}"


class RecursiveScriptModule(ScriptModule):
    """A module that `script` or `trace` compiled, or that `load` read."""

    def __init__(self, object):
        super().__init__()
        self._adopt(object)

    def forward(self, *args, **kwargs):
        """Runs the program's method `forward`."""
        return self._c.call("forward", args, kwargs)


def _refuse(name):
    def refused(self, *args, **kwargs):
        raise RuntimeError(f"{name} is not supported on ScriptModules")
    refused.__name__ = name
    return refused


# What modules have and compiled ones lack: their class and its hooks do not change.
for _name in ("_register_load_state_dict_pre_hook", "_register_state_dict_hook", "bfloat16", "compile", "get_buffer", "get_parameter",
              "get_submodule", "ipu", "mtia", "register_backward_hook", "register_forward_hook", "register_forward_pre_hook",
              "register_full_backward_hook", "register_full_backward_pre_hook", "register_load_state_dict_post_hook",
              "register_load_state_dict_pre_hook", "register_state_dict_post_hook", "register_state_dict_pre_hook", "requires_grad_",
              "set_submodule", "to_empty", "xpu"):
    setattr(RecursiveScriptModule, _name, _refuse(_name))

LoadedModule = ScriptModule._inner = RecursiveScriptModule
ScriptModule.__module__ = RecursiveScriptModule.__module__ = __package__ + "._script"


class TracedModule(RecursiveScriptModule):
    """A module inside of one that `trace` compiled."""

    def _get_name(self):
        return self.original_name


class TopLevelTracedModule(TracedModule):
    """A module that `trace` compiled."""


TracedModule._inner = TracedModule


def _open(f):
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {f} is a directory")
        return open(f, "rb")
    return None


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Reads an archive that torch.jit.save wrote."""
    file = _open(f)
    if file is None:
        object, records = _C._script_load(f.read())
    else:
        with file:
            object, records = _C._script_load(file.fileno())
    if _extra_files is not None:
        for name in _extra_files:
            given = _extra_files[name]
            _extra_files[name] = records.get(name, given.encode() if isinstance(given, str) else given)
    module = LoadedModule(object)
    return module if map_location is None else module._apply(lambda t: t if t.is_meta else t.to(map_location))


def import_ir_module(cu, file, map_location=None, extra_files=None, restore_shapes=False):
    """Reads the module of an archive: a path or an open file."""
    return load(file, map_location, extra_files, restore_shapes)


def import_ir_module_from_buffer(cu, buffer, map_location=None, extra_files=None, restore_shapes=False):
    """Reads the module of an archive in bytes."""
    import io
    return load(io.BytesIO(buffer), map_location, extra_files, restore_shapes)
