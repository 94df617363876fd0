"""TorchScript: compiled functions and modules, their archives, and the marks that they understand."""
import contextlib
import os
import typing
import warnings
from typing import Final

from .. import _C as _c
from .._C import _ScriptError as Error, _ScriptFunction as ScriptFunction
from ..futures import Future as _CompletedFuture, _Future as Future
from ..nn import Module
from . import frontend
from ._loaded import RecursiveScriptModule, ScriptModule

__all__ = ["Attribute", "CompilationUnit", "Error", "Future", "ScriptFunction", "ScriptModule", "annotate",
           "enable_onednn_fusion", "export", "fork", "freeze", "ignore", "interface", "isinstance", "load",
           "onednn_fusion_enabled", "optimize_for_inference", "save", "script",
           "script_if_tracing", "set_fusion_strategy", "strict_fusion", "trace", "trace_module",
           "unused", "wait"]

_builtin_isinstance = isinstance


class TracerWarning(Warning):
    """A trace may depend on values of its example inputs."""

    @staticmethod
    def ignore_lib_warnings():
        """Hides warnings that this package causes."""
        warnings.filterwarnings("ignore", category=TracerWarning, module=__name__.partition(".")[0])


class TracingCheckError(Exception):
    """A traced function gives other results than the original."""

    def __init__(self, graph_diff_error, tensor_compare_error, extra_msg=None):
        self.message = "Tracing failed sanity checks!\n" + "\n".join(
            text for text in (extra_msg, graph_diff_error, tensor_compare_error) if text)
        super().__init__(self.message)


class ScriptWarning(Warning):
    """A warning of the compiler."""


class Attribute(typing.NamedTuple):
    """A value with a type, which an attribute of a module gets when the module is compiled."""

    value: typing.Any
    type: typing.Any


class CompilationUnit:
    """Functions compiled from source text: CompilationUnit(text).name(arguments)."""

    def __init__(self, lang=None, _frames_up=0):
        self._defined, self._functions = {}, {}
        if lang is not None:
            self.define(lang, _frames_up=_frames_up + 1)

    def define(self, lang, rcb=None, _frames_up=0):
        """Compiles the functions of a text and adds them."""
        import textwrap
        from . import _frontend
        names = _names_of_caller(_frames_up + 1)
        with _frontend.attempt():
            self._functions.update(_frontend.define_unit(textwrap.dedent(lang), self._defined, names))

    def __getattr__(self, name):
        try:
            return self.__dict__["_functions"][name]
        except KeyError:
            raise AttributeError(f"'CompilationUnit' has no attribute '{name}'") from None


# --- compiling ---

def _deprecate(name, advice="Please use `torch.compile` instead."):
    warnings.warn(f"`torch.jit.{name}` is deprecated. {advice}", DeprecationWarning, stacklevel=2)


_COMPILE_OR_EXPORT = "Please switch to `torch.compile` or `torch.export`."


def _names_of_caller(frames_up):
    """The names that the code which called a function of this file sees."""
    import sys
    frame = sys._getframe(frames_up + 1)
    return {**frame.f_globals, **frame.f_locals}


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """Compiles a function, a module or a class.

    A function becomes a ScriptFunction.  A module becomes a ScriptModule that shares its
    parameters and buffers; `forward` and methods marked with `export` are compiled, and what they
    call.  Enums and named tuples may be used in compiled code and are returned as they are.
    """
    import enum
    import types
    from . import _frontend, _recursive
    _deprecate("script", _COMPILE_OR_EXPORT)
    if _builtin_isinstance(obj, (ScriptFunction, ScriptModule)):
        return obj
    if _builtin_isinstance(obj, Module):
        with _frontend.attempt():
            return _recursive.script_module(obj)
    if _builtin_isinstance(obj, type) and issubclass(obj, (enum.Enum, tuple)):
        with _frontend.attempt():
            _frontend.describe(obj)
        return obj
    if _builtin_isinstance(obj, types.FunctionType):
        return _frontend.compile_function(obj)
    from . import _class
    if _builtin_isinstance(obj, type):
        with _frontend.attempt():
            _class.define(obj, _names_of_caller(_frames_up + 1), wanted=True)
        return obj
    if _builtin_isinstance(obj, (list, dict)):
        from . import _containers
        return (_containers.ScriptList if _builtin_isinstance(obj, list) else _containers.ScriptDict)(obj)
    if _builtin_isinstance(obj, types.MethodType):
        return _frontend.compile_function(obj.__func__)
    if _builtin_isinstance(getattr(obj, "__wrapped__", None), types.FunctionType):
        return _frontend.compile_wrapped(obj)
    with _frontend.attempt():
        return _class.script_object(obj)


def trace(func, example_inputs=None, optimize=None, check_trace=True, check_inputs=None,
          check_tolerance=1e-5, strict=True, _force_outplace=False, _module_class=None,
          _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True):
    """Compiles what a function or module computes for example inputs.

    Values that Python reads from tensors become constants, with a TracerWarning.  Sizes are tensors, and operators that take
    them as numbers compute with those of each call.  Inputs are tensors, and lists, tuples and dicts of them.  A dict is only
    returned with strict=False.  `check_inputs` are further inputs for which the trace must be the same.  With
    _force_outplace=True operators in place are recorded as those that return a new tensor.
    """
    from ._trace import trace as record, written_out_of_place
    _deprecate("trace", _COMPILE_OR_EXPORT)
    checks = [(_inputs_of(check), {}) for check in check_inputs or ()] if check_trace else None
    with written_out_of_place(_force_outplace):
        return record(func, _inputs_of(example_inputs), dict(example_kwarg_inputs or {}), checks, check_tolerance, strict)


def _inputs_of(x):
    """Example inputs as a tuple: one that is no tuple or list stands alone."""
    return () if x is None else tuple(x) if _builtin_isinstance(x, (tuple, list)) else (x,)


def trace_module(mod, inputs, optimize=None, check_trace=True, check_inputs=None,
                 check_tolerance=1e-5, strict=True, _force_outplace=False, _module_class=None,
                 _compilation_unit=None, example_inputs_is_kwarg=False, _store_inputs=True):
    """Traces methods of a module: inputs is {"forward": example inputs, "other": example inputs}."""
    from ._trace import trace_methods, written_out_of_place
    _deprecate("trace_method", _COMPILE_OR_EXPORT)
    if not _builtin_isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not _builtin_isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")

    def calls(given):
        return {name: ((), dict(x)) if example_inputs_is_kwarg else (_inputs_of(x), {}) for name, x in given.items()}
    checks = [calls(check) for check in check_inputs or ()] if check_trace else None
    with written_out_of_place(_force_outplace):
        return trace_methods(mod, calls(inputs), checks, check_tolerance, strict)


def script_method(fn):
    """Marks a method of a subclass of ScriptModule that is compiled when the object is made."""
    import sys
    _deprecate("script_method", _COMPILE_OR_EXPORT)
    fn._script_method = {**sys._getframe(2).f_locals, **sys._getframe(1).f_locals}
    return fn


def script_if_tracing(fn):
    """Compiles the function when it is first called while something is traced."""
    import functools

    @functools.wraps(fn)
    def call(*args, **kwargs):
        return (script(fn) if is_tracing() else fn)(*args, **kwargs)
    call._script_if_tracing_original = fn
    return call


_script_if_tracing = script_if_tracing  # torchvision's name for it


def is_scripting():
    """Returns whether the caller is being compiled: never."""
    return False


def is_tracing():
    """Returns whether the caller is being traced."""
    return _get_tracing_state() is not None


def _get_trace_graph(f, args=(), kwargs=None, strict=True, _force_outplace=False, return_inputs=False,
                     _return_inputs_states=False):
    """The graph that a trace records, and what the call returned: (graph, result), or with the inputs, too.

    Parameters and buffers of a module are inputs of the graph, behind the arguments."""
    inputs = args if _builtin_isinstance(args, tuple) else (args,)
    from ._trace import trace_graph, written_out_of_place
    with written_out_of_place(_force_outplace):
        graph, out, inputs = trace_graph(f, inputs, dict(kwargs or {}), strict)
    if _return_inputs_states:
        return graph, out, (inputs, inputs)
    return (graph, out, inputs) if return_inputs else (graph, out)


def _get_tracing_state():
    """Returns the trace that is being recorded, or None."""
    import sys
    trace = sys.modules.get(__name__ + "._trace")
    return trace.recording() if trace is not None else None


def _need_script_module(mod, task):
    if not _builtin_isinstance(mod, ScriptModule):
        raise RuntimeError(f"{task} expects a ScriptModule as input. Please use torch.jit.script "
                           "or torch.jit.trace to script your 'nn.Module'.")


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """Returns a module in which attributes that nothing changes are constants of the program.

    Calls are in place, and branches that are not taken are gone.  `preserved_attrs` names attributes and methods that
    stay; the others than `forward` are gone.  `optimize_numerics` joins batch norms with constant statistics with the
    convolutions and linear layers before them, and sums and products with constants with the convolutions, which changes
    rounding.  As in torch, channels are the second dim of a convolution's result, with or without a batch, and the last dim
    of a linear layer's.
    """
    _deprecate("freeze")
    _need_script_module(mod, "Freezing")
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. "
                           "Please call .eval() on your module before freezing.")
    from . import _frontend
    with _frontend.attempt():
        made = mod._c.freeze(False, *(preserved_attrs or ()))
        _frontend.share_original(made, [part._c for part in mod.modules() if _builtin_isinstance(part, ScriptModule)])
        if optimize_numerics:
            made.optimize()
        return RecursiveScriptModule(made)


def run_frozen_optimizations(mod, optimize_numerics=True, preserved_methods=None):
    """Joins batch norms, sums and products of a frozen module that has not run with the layers before them."""
    from . import _frontend
    with _frontend.attempt():
        if optimize_numerics:
            mod._c.optimize()


def optimize_for_inference(mod, other_methods=None):
    """Returns the frozen module."""
    _deprecate("optimize_for_inference")
    _need_script_module(mod, "optimize_for_inference")
    return freeze(mod.eval(), other_methods) if hasattr(mod, "training") else mod


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Reads an archive that torch.jit.save wrote.  No code of the archive runs in Python."""
    _deprecate("load", "Please switch to `torch.export`.")
    from ._loaded import load as read
    return read(f, map_location, _extra_files, _restore_shapes)


def save(m, f, _extra_files=None):
    """Saves a module that can save itself."""
    _deprecate("save", "Please switch to `torch.export`.")
    from .._C import ScriptObject
    m = RecursiveScriptModule(m) if _builtin_isinstance(m, ScriptObject) else m
    options = {} if _extra_files is None else {"_extra_files": _extra_files}
    if _builtin_isinstance(f, (str, os.PathLike)):
        return m.save(f, **options)
    f.write(m.save_to_buffer(**options))


# --- marks of functions ---

_IGNORED = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
_UNUSED = "unused (ignored and replaced with raising of an exception)"
_DROPPED = "_drop (function is fully ignored, declaration can be unscriptable)"
_EXPORTED = "export (compile this function even if nothing calls it)"


def export(fn):
    """Marks a method as an entry point of a compiled module."""
    fn._torchscript_modifier = _EXPORTED
    return fn


def unused(fn):
    """Marks a method or property that compiled code does not call."""
    if _builtin_isinstance(fn, property):
        for accessor in (fn.fget, fn.fset):
            if accessor is not None:
                accessor._torchscript_modifier = _UNUSED
        return fn
    fn._torchscript_modifier = _UNUSED
    return fn


def _drop(fn):
    """Marks a method of a class that compiled code does not have, whatever its types."""
    fn._torchscript_modifier = _DROPPED
    return fn


def ignore(drop=False, **kwargs):
    """Marks a method that compiled code calls in Python; with drop=True, like unused."""
    if callable(drop):
        drop._torchscript_modifier = _IGNORED
        return drop
    if not _builtin_isinstance(drop, bool):
        raise RuntimeError("Argument to @torch.jit.ignore must be a bool or a function but got "
                           f"{drop}")
    old = kwargs.pop("drop_on_export", None)
    if old:
        warnings.warn("ignore(drop_on_export=True) has been deprecated. TorchScript will now drop "
                      "the function call on compilation. Use torch.jit.unused now. {}",
                      category=FutureWarning, stacklevel=2)
        drop = old
    elif drop:
        warnings.warn("ignore(True) has been deprecated. TorchScript will now drop the function "
                      "call on compilation. Use torch.jit.unused now. {}",
                      category=FutureWarning, stacklevel=2)

    def mark(fn):
        fn._torchscript_modifier = _UNUSED if drop else _IGNORED
        return fn
    return mark


def interface(obj):
    """Marks a class as an interface: a type whose values are objects that have its methods."""
    from . import _class, _frontend
    _deprecate("interface")
    if not _builtin_isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    if obj.__mro__ != (obj, object) and obj.__mro__ != (obj, *Module.__mro__):
        raise RuntimeError("TorchScript interface does not support inheritance yet. Please directly inherit from "
                           "'object' or 'nn.Module'.")
    with _frontend.attempt():
        _class.define_interface(obj, _names_of_caller(1))
    obj.__torch_script_interface__ = True
    return obj


def _overload(func):
    """Marks a declaration of a function that follows: compiled calls take the first one that their arguments fit."""
    from . import _frontend
    _frontend.declare_overload(func)
    return func


_overload_method = _overload


# --- types ---

def annotate(the_type, the_value):
    """Returns the value; the type is for the compiler."""
    return the_value


def _unwrap_optional(x):
    """Returns a value that must not be None."""
    assert x is not None, "Unwrapping null optional"
    return x


_CONTAINED = {list: ("a contained type", "type", "int"), dict: ("contained types", "type", "int, int"),
              tuple: ("a contained type", "type", "int"),
              typing.Optional: ("a contained type", "type", "int")}


def _hashable(x):
    try:
        hash(x)
    except TypeError:
        return False
    return True


def _refuse_bare(target):
    name = target.__name__ if _builtin_isinstance(target, type) else target._name
    kind = typing.get_origin(target) or target
    lacks, add, example = _CONTAINED[kind]
    raise RuntimeError(f"Attempted to use {name} without {lacks}. Please add {lacks.replace('types', add)}, "
                       f"e.g. {name}[{example}]")


def _contains(obj, target):
    """Compares an object with List[T], Dict[K, V] or Tuple[...]."""
    kind, inner = typing.get_origin(target), typing.get_args(target)
    if not _builtin_isinstance(obj, kind):
        return False
    if kind is list:
        return all(_matches(item, inner[0]) for item in obj)
    if kind is dict:
        return all(_matches(k, inner[0]) and _matches(v, inner[1]) for k, v in obj.items())
    return len(obj) == len(inner) and all(map(_matches, obj, inner))


def _warn_if_empty(obj):
    if _builtin_isinstance(obj, (list, dict, tuple)) and not obj:
        warnings.warn(
            "The inner type of a container is lost when calling torch.jit.isinstance in eager mode. For "
            "example, List[int] would become list and therefore falsely return True for List[float] or "
            "List[str].", stacklevel=4)


def _matches(obj, target):
    bare = typing.get_origin(target) in _CONTAINED and not typing.get_args(target)
    if target in _CONTAINED or bare:
        _refuse_bare(target)
    if typing.get_origin(target) in (list, dict, tuple):
        _warn_if_empty(obj)
        return _contains(obj, target)
    if typing.get_origin(target) is typing.Union or type(target).__name__ == "UnionType":
        return any(_matches(obj, member) for member in typing.get_args(target))
    if typing.get_origin(target) is _CompletedFuture:
        return _builtin_isinstance(obj, Future)
    return obj is None if target is None else _builtin_isinstance(obj, target)


def isinstance(obj, target_type):
    """isinstance that also looks into List[T], Dict[K, V], Tuple[...], Optional[T] and Union."""
    targets = target_type if _builtin_isinstance(target_type, tuple) else (target_type,)
    if not all(_hashable(t) for t in targets):
        raise RuntimeError("The second argument to `torch.jit.isinstance` must be a type or a tuple of types")
    for bare in [t for t in targets if t in _CONTAINED]:
        _refuse_bare(bare)
    return any(_matches(obj, target) for target in targets)


# --- tasks ---

def fork(func, *args, **kwargs):
    """Calls the function and returns a completed future with its result."""
    _deprecate("fork")
    future = _CompletedFuture()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    """Returns the result of fork."""
    _deprecate("wait")
    return future.wait()


_fork, _wait = fork, wait  # names that libraries use

# --- settings of the compiler, which have no effect ---

_settings = {"strategy": [("STATIC", 2), ("DYNAMIC", 10)], "onednn": False}


def set_fusion_strategy(strategy):
    """Stores the setting; returns the former one."""
    _deprecate("set_fusion_strategy")
    former, _settings["strategy"] = _settings["strategy"], list(strategy)
    return former


def enable_onednn_fusion(enabled):
    """Stores the setting."""
    _settings["onednn"] = bool(enabled)


def onednn_fusion_enabled():
    return _settings["onednn"]


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """With True, this thread's equal calls run compiled programs where these are faster; with False, as by default, calls run by their steps."""
    was = _c._script_programs_here(1 if should_optimize else 0)
    try:
        yield
    finally:
        _c._script_programs_here(was)


@contextlib.contextmanager
def fuser(name):
    """Has no effect; the names are torch's."""
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3", "none"):
        raise Exception(f"unrecognized fuser option (name: {name})")
    yield


class strict_fusion:
    """Has no effect outside compiled code."""

    def __init__(self):
        warnings.warn("Only works in script mode", stacklevel=2)

    def __enter__(self):
        pass

    def __exit__(self, type, value, tb):
        pass


from . import _script  # noqa: E402,F401  types say that they live there


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
