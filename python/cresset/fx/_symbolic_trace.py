"""Runs a module on Proxies and records its operations as a graph."""
import builtins
import collections
import contextlib
import copy
import functools
import inspect
import math
import sys
import warnings
from itertools import chain
from types import FunctionType

import cresset
from .. import _C
from .._C import ScriptObject  # noqa: F401, libraries take it from this module
from .._utils import torch_name
from ..nn import Module, Parameter
from ..utils import _pytree as pytree
from ._compatibility import compatibility  # noqa: F401, libraries take it from this module
from .graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from .graph_module import GraphModule
from .node import base_types, map_aggregate
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase

__all__ = ["PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "is_fx_tracing",
           "symbolic_trace", "wrap"]

_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
# Tracers of libraries call these two.
_orig_module_call = Module.__call__
_orig_module_getattr = Module.__getattr__
_proxyable_classes = {}
_tracing = False


def is_fx_tracing():
    """Returns whether a symbolic trace is running."""
    return _tracing


is_fx_symbolic_tracing = is_fx_tracing


def _plain(function):
    """The function that a compiled one was made of; an error unless config.error_on_nested_fx_trace is false."""
    if not isinstance(function, _C.CompiledFunction):
        return function
    from .._dynamo.capture import is_traced
    is_traced()
    return function._function


class ProxyableClassMeta(type):
    """A metaclass whose classes record their construction from Proxies."""

    def __init__(cls, name, bases, attrs):
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args, **kwargs):
        made = cls.__new__(cls)
        if not isinstance(made, cls):
            return made
        found = []
        map_aggregate((args, kwargs), lambda x: found.append(x) if isinstance(x, Proxy) else x)
        if found:
            return found[0].tracer.create_proxy("call_function", cls, args, kwargs)
        made.__init__(*args, **kwargs)
        return made


class PHBase:
    """In concrete_args: a leaf that remains a parameter of the graph."""

    def __repr__(self):
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A PH whose attributes are copied to the placeholder's node."""

    def __init__(self, ph_key=None):
        self.ph_key = ph_key


def _transfer_attrs(fr, to):
    for name in dir(fr):
        value = getattr(fr, name)
        if not callable(value) and not name.startswith("__") and not hasattr(to, name):
            setattr(to, name, value)


def _fixed_arity(function, count):
    """Returns the function with *args and **kwargs as plain parameters, which can be Proxies."""
    code = function.__code__.replace(co_argcount=count, co_posonlyargcount=0,
                                     co_kwonlyargcount=0,
                                     co_flags=function.__code__.co_flags & ~_VARIADIC)
    return FunctionType(code, function.__globals__, function.__name__, function.__defaults__,
                        function.__closure__)


# --- replacements during tracing ---

class _Patcher:
    """Replaces entries of dicts and attributes of classes; restores them on exit."""

    def __init__(self):
        self.undo = []
        self.seen = set()

    def patch(self, namespace, name, function):
        """Sets namespace[name] = function, unless a tracer has done so."""
        if getattr(namespace.get(name), "_fx_patched", False):
            return
        function._fx_patched = True
        if name in namespace:
            self.undo.append(functools.partial(namespace.__setitem__, name, namespace[name]))
        else:  # the name hid a builtin
            self.undo.append(functools.partial(namespace.pop, name))
        namespace[name] = function

    def patch_method(self, cls, name, function, deduplicate=True):
        """Sets cls.name = function, unless a tracer has done so; without `deduplicate`, then too."""
        if deduplicate and getattr(vars(cls).get(name), "_fx_patched", False):
            return
        function._fx_patched = True
        if issubclass(Module, cls) and name == "__getattr__":
            self.undo.append(functools.partial(_requicken, cls))
        if name in vars(cls):
            self.undo.append(functools.partial(setattr, cls, name, vars(cls)[name]))
        else:
            self.undo.append(functools.partial(delattr, cls, name))
        setattr(cls, name, function)

    def visit_once(self, namespace):
        """Returns True at the first call for a namespace."""
        new = id(namespace) not in self.seen
        self.seen.add(id(namespace))
        return new

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        while self.undo:
            self.undo.pop()()


def _requicken(cls):
    """Restores the fast attribute lookup of nn.Module, which setting `__getattr__` has
    replaced."""
    _C._quicken_module(cls)
    for below in cls.__subclasses__():
        _requicken(below)


@contextlib.contextmanager
def _patched_modules(getattr_wrapper, call_wrapper):
    with _Patcher() as patcher:
        patcher.patch_method(Module, "__getattr__", getattr_wrapper, deduplicate=False)
        patcher.patch_method(Module, "__call__", call_wrapper, deduplicate=False)
        yield patcher


_wrapped_functions = {}  # (id of the globals, name) -> the globals


def _create_wrapped_func(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        found = []
        map_aggregate((args, kwargs), lambda x: found.append(x) if isinstance(x, Proxy) else x)
        if not found:
            return function(*args, **kwargs)
        proxy = found[-1].tracer.create_proxy("call_function", function, args, kwargs)
        proxy.node.meta["is_wrapped"] = True
        return proxy
    return wrapped


def _patch_wrapped_functions(patcher):
    for (_, name), namespace in _wrapped_functions.items():
        function = namespace[name] if name in namespace else getattr(builtins, name)
        patcher.patch(namespace, name, _create_wrapped_func(function))


def _autowrap_check(patcher, namespace, function_ids):
    """Wraps functions in a namespace that are always wrapped (those of math)."""
    if not patcher.visit_once(namespace):
        return
    for name, value in list(namespace.items()):
        if not name.startswith("_") and callable(value) and id(value) in function_ids:
            patcher.patch(namespace, name, _create_wrapped_func(value))


def wrap(fn_or_name):
    """Makes a global function a leaf: calls with Proxies are recorded and not entered.

    Call it at the top level of a module with the function or its name, or use it as a
    decorator.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or "
                           "string name")
    name = fn_or_name.__name__ if callable(fn_or_name) else fn_or_name
    frame = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_functions[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


@wrap
def _assert_is_none(value, msg):
    if value is not None:
        raise AssertionError(msg)


def _assert(condition, message):
    """torch._assert: an assertion that traces contain."""
    if isinstance(condition, Proxy):
        return condition.tracer.create_proxy("call_function", cresset._assert,
                                             (condition, message), {})
    return cresset._assert(condition, message)


class Tracer(TracerBase):
    """Records a module.  Subclasses decide which modules are leaves and how arguments are
    converted."""

    def __init__(self, autowrap_modules=(math,), autowrap_functions=(),
                 param_shapes_constant=False):
        named = chain.from_iterable(vars(m).items() for m in autowrap_modules)
        self._autowrap_function_ids = {id(value) for name, value in named
                                       if not name.startswith("_") and callable(value)}
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls = {}
        self.node_name_to_scope = {}

    # --- conversion of arguments ---

    def get_fresh_qualname(self, prefix):
        """Returns a name that begins with `prefix` and that the root does not use."""
        i = 0
        while hasattr(self.root, f"{prefix}{i}"):
            i += 1
        return f"{prefix}{i}"

    def _member(self, a, members):
        for name, member in members:
            if a is member:
                return self.create_node("get_attr", name, (), {})
        return None

    def _constant(self, a, prefix):
        """Returns a node for a value that is stored as an attribute of the root."""
        name = self.tensor_attrs.get(a)
        if not name:
            name = self.tensor_attrs[a] = self.get_fresh_qualname(prefix)
            setattr(self.root, name, a)
        return self.create_node("get_attr", name, (), {})

    def create_arg(self, a):
        """Returns what a node stores for `a`.  Parameters, buffers, modules and other tensors
        become nodes that read them from the root."""
        if isinstance(a, Parameter):
            node = self._member(a, self.root.named_parameters())
            if node is None:
                raise NameError("parameter is not a member of this module")
            return node
        if isinstance(a, cresset.Tensor):
            return (self._member(a, self.root.named_buffers()) or
                    self._constant(a, "_tensor_constant"))
        if isinstance(a, Module):
            node = self._member(a, self.root.named_modules())
            if node is not None:
                return node
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            args = tuple(self.create_arg(x) for x in a)
            return self.create_node("call_function", type(a), args, {})
        if isinstance(a, pytree.TreeSpec):
            return self._constant(a, "_tree_spec_constant")
        if type(a) in _proxyable_classes:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    # --- modules ---

    def is_leaf_module(self, m, module_qualified_name):
        """Returns whether calls of `m` are recorded rather than entered; true for modules of
        torch.nn."""
        return (torch_name(m.__module__).startswith("torch.nn") and
                not isinstance(m, cresset.nn.Sequential))

    def path_of_module(self, mod):
        """Returns the path of `mod` from the root."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
        else:
            path = next((n for n, m in self.root.named_modules() if m is mod), None)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(self, m, forward, args, kwargs):
        """Calls a module: records a node for a leaf, otherwise calls its forward."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            calls = self.num_calls.get(path, 0)
            key = f"{path}@{calls}" if calls else path
            self.module_stack[key] = (path, scope.module_type)
            self.num_calls[path] = calls + 1
            if self.is_leaf_module(m, path):
                result = self.create_proxy("call_module", path, args, kwargs)
            else:
                result = forward(*args, **kwargs)
            self.module_stack.popitem(last=True)
        return result

    def _member_proxy(self, value, members, cache):
        for name, member in members:
            if value is not member:
                continue
            if name not in cache:
                more = {}
                if "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters:
                    more["proxy_factory_fn"] = (
                        (lambda node: ParameterProxy(self, node, name, value))
                        if self.param_shapes_constant else None)
                cache[name] = self.create_proxy("get_attr", name, (), {}, **more)
            return cache[name]
        return None

    def getattr(self, attr, attr_val, parameter_proxy_cache):
        """Returns the value of a module's attribute: Proxies for parameters."""
        found = None
        if isinstance(attr_val, Parameter):
            found = self._member_proxy(attr_val, self.root.named_parameters(),
                                       parameter_proxy_cache)
        if found is None and self.proxy_buffer_attributes and isinstance(attr_val,
                                                                         cresset.Tensor):
            found = self._member_proxy(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val if found is None else found

    # --- parameters of the function ---

    def _specialize(self, name, value, proxy):
        """Fixes a parameter to a value and adds nodes that check it."""
        if type(value) in base_types and not isinstance(value, cresset.Tensor):
            _assert(proxy == value,
                    f"{name} has been specialized to have value {value} but got another value")
        elif value is None:
            message = f"{name} has been specialized to have value None but got another value"
            self.create_proxy("call_function", _assert_is_none, (proxy, message), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized "
                "function. It is up to the user to make sure that your inputs match the inputs "
                "you specialized the function with.")
        return value

    def _concrete_placeholders(self, name, value, default):
        count = 0

        def replace(x):
            nonlocal count
            count += 1
            proxy = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if not isinstance(x, PHBase):
                return self._specialize(name, x, proxy)
            if x is not PH:
                _transfer_attrs(x, proxy.node)
            return proxy
        return pytree.tree_map(replace, value)

    def _proxy_placeholder(self, name, concrete_args, sig, function):
        default = ()
        if name[0] != "*" and sig.parameters[name].default is not inspect.Parameter.empty:
            default = (sig.parameters[name].default,)
        if concrete_args is not None and name in concrete_args:
            return self._concrete_placeholders(name, concrete_args[name], default)
        return self.create_proxy("placeholder", name, default, {},
                                 type_expr=function.__annotations__.get(name))

    def _variadic_inputs(self, concrete_args):
        """Returns placeholders for the items of a tuple that is passed as *args."""
        for i, concrete in enumerate(concrete_args):
            proxy = self.create_proxy("placeholder", f"input_{i}", (), {})
            if isinstance(concrete, PHBase) and concrete is not PH:
                _transfer_attrs(concrete, proxy.node)
            yield proxy

    @staticmethod
    def _by_name(names, concrete_args):
        if not isinstance(concrete_args, tuple):
            return concrete_args
        if len(names) != len(concrete_args):
            raise RuntimeError(f"Tracing expected {len(names)} arguments but got "
                               f"{len(concrete_args)} concrete arguments")
        return dict(zip(names, concrete_args))

    def create_args_for_root(self, root_fn, is_module, concrete_args=None):
        """Returns the function to trace and its arguments, Proxies of new placeholders."""
        analyzed = inspect.unwrap(root_fn)
        code = analyzed.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        if is_module and total == 0:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        args = [self.root] if is_module else []
        if (isinstance(concrete_args, tuple) and concrete_args and code.co_flags & _VARIADIC and
                total == 1):
            return root_fn, [*args, *self._variadic_inputs(concrete_args)]
        names = list(code.co_varnames[len(args):total])
        concrete_args = self._by_name(names, concrete_args)
        if code.co_flags & inspect.CO_VARARGS:
            names.append(f"*{code.co_varnames[total]}")
        if code.co_flags & inspect.CO_VARKEYWORDS:
            names.append(f"**{code.co_varnames[total + bool(code.co_flags & inspect.CO_VARARGS)]}")
        sig = inspect.signature(analyzed)
        args += [self._proxy_placeholder(n, concrete_args, sig, analyzed) for n in names]
        if code.co_kwonlyargcount or code.co_flags & _VARIADIC:
            root_fn = _fixed_arity(root_fn, len(args))
        return self._flattened(root_fn, args, list(code.co_varnames[:total]))

    def _flattened(self, root_fn, args, names):
        """As create_args_for_root, when arguments are containers of Proxies and the graph takes
        the leaves."""
        leaves, in_spec = pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in in_spec.children()):
            return root_fn, args
        codegen = self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, in_spec, None))

        def flat(*leaves):
            out = root_fn(*pytree.tree_unflatten(list(leaves), in_spec))
            out_leaves, out_spec = pytree.tree_flatten(out)
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out_leaves
        return flat, leaves

    # --- tracing ---

    def _set_root(self, root):
        """Sets the root and an empty graph.  Returns the function to trace."""
        if isinstance(root, Module):
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in "
                                     f"{type(root).__name__}")
            function = getattr(type(root), self.traced_func_name)
            self.root = root
            self.root_module_name = root._get_name()
            self.submodule_paths = {m: name for name, m in root.named_modules()}
        else:
            function = _plain(root)
            self.root = Module()
        self.graph = Graph(tracer_cls=type(self))
        code = getattr(function, "__code__", None)
        if code is not None:
            self.graph._co_fields = {"co_name": code.co_name, "co_filename": code.co_filename,
                                     "co_firstlineno": code.co_firstlineno}
        self.tensor_attrs = {}
        for path, module in self.root.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, (cresset.Tensor, pytree.TreeSpec)):
                    self.tensor_attrs[value] = f"{path}.{name}" if path else name
        if not isinstance(function, FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        return function

    def trace(self, root, concrete_args=None):
        """Returns the graph of a module or function.

        `concrete_args` fixes parameters to values by name, so that branches on them can be
        traced.  PH in these values marks leaves that remain parameters.
        """
        global _tracing
        before, _tracing = _tracing, True
        try:
            function = self._set_root(root)
            namespace = function.__globals__
            function, args = self.create_args_for_root(function, isinstance(root, Module),
                                                       concrete_args)
            self._run(function, args, namespace)
            self.submodule_paths = None
        finally:
            _tracing = before
        return self.graph

    def _run(self, function, args, namespace):
        cache, previous_getattr, previous_call = {}, Module.__getattr__, Module.__call__

        @functools.wraps(previous_getattr)
        def getattr_wrapper(module, attr):
            return self.getattr(attr, previous_getattr(module, attr), cache)

        @functools.wraps(previous_call)
        def call_wrapper(module, *args, **kwargs):
            def forward(*args, **kwargs):
                return previous_call(module, *args, **kwargs)
            names = getattr(getattr(module, "forward", module), "__globals__", {})
            _autowrap_check(patcher, names, self._autowrap_function_ids)
            return self.call_module(module, forward, args, kwargs)

        with _patched_modules(getattr_wrapper, call_wrapper) as patcher:
            _patch_wrapped_functions(patcher)
            _autowrap_check(patcher, namespace, self._autowrap_function_ids)
            for searched in self._autowrap_search:
                _autowrap_check(patcher, vars(searched), self._autowrap_function_ids)
            returns = inspect.get_annotations(inspect.unwrap(function)).get("return")
            self.create_node("output", "output", (self.create_arg(function(*args)),), {},
                             type_expr=returns)

    def __deepcopy__(self, memo):
        made = Tracer.__new__(Tracer)
        for key, value in self.__dict__.items():
            made.__dict__[key] = (copy.copy(value) if key == "_autowrap_search"
                                  else copy.deepcopy(value, memo))
        return made


def symbolic_trace(root, concrete_args=None):
    """Returns a GraphModule that computes the same as a module or function."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
