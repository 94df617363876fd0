"""Proxies: objects that record operations on them as nodes of a graph."""
import bisect
import collections
import copy
import dataclasses
import dis
import enum
import operator
import sys
import traceback as python_traceback

import cresset

from ..overrides import is_tensor_method_or_property
from ..utils._pytree import tree_map_
from .graph import magic_methods, reflectable_magic_methods

from .node import base_types, map_arg
from .traceback import get_current_meta, has_preserved_node_meta

__all__ = ["TracerBase", "GraphAppendingTracer", "TraceError", "Proxy", "Attribute",
           "ParameterProxy", "Scope", "ScopeContextManager"]

_COPIED_META = ("nn_module_stack", "torch_fn", "source_fn_stack", "original_aten", "recompute",
                "ac_graph_id", "has_backward_hook", "from_node", "custom", "partitioner_tag")

class Scope:
    """The path and class of the module whose forward is being recorded."""

    def __init__(self, module_path, module_type):
        self.module_path = module_path
        self.module_type = module_type

class ScopeContextManager:
    """Sets another scope inside a `with` block."""

    def __init__(self, scope, current_scope):
        self._scope = scope
        self._previous = copy.copy(scope)
        scope.__dict__.update(current_scope.__dict__)

    def __enter__(self):
        return self._scope

    def __exit__(self, *exc):
        self._scope.__dict__.update(self._previous.__dict__)

class TraceError(ValueError):
    """A Proxy was asked for its value."""

class TracerBase:
    """Makes nodes and their Proxies.  Subclasses decide which values become nodes."""

    record_stack_traces = False
    _record_forward_stack_traces_only = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):
        """Adds a node to the graph.  Override it to reject or change operations."""
        if kind == "call_function" and self.check_mutable_operations:
            from .operator_schemas import check_for_mutable_operation
            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if has_preserved_node_meta():
            self._copy_meta(node, get_current_meta())
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            frames = self._user_frames(python_traceback.extract_stack())
            if frames:
                text = python_traceback.StackSummary.from_list(frames).format()
                node.stack_trace = "".join(text).strip()
        return node

    @staticmethod
    def _copy_meta(node, meta):
        if meta.get("stack_trace"):
            node.stack_trace = meta["stack_trace"]
        for field in _COPIED_META:
            if field in meta:
                node.meta[field] = copy.copy(meta[field])

    def _user_frames(self, frames):
        """Returns the frames from the first `forward` on, without those of this package."""
        names = [frame.name for frame in frames]
        if "forward" not in names:
            return []
        if self._record_forward_stack_traces_only:
            frames = [frame for frame in frames if frame.name == "forward"]
        else:
            frames = frames[names.index("forward"):]
        package = cresset.__file__.removesuffix("__init__.py")
        return [frame for frame in frames
                if not frame.filename.startswith((f"{package}fx", f"{package}nn/modules/module"))]

    def proxy(self, node):
        """Returns the Proxy of a node.  Override it to use another class."""
        return Proxy(node, self)

    def create_proxy(self, kind, target, args, kwargs, name=None, type_expr=None,
                     proxy_factory_fn=None):
        """Adds a node whose arguments may contain Proxies.  Returns its Proxy."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(args, tuple):
            raise AssertionError(f"Expected args_ to be tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"Expected kwargs_ to be dict, got {type(kwargs)}")
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a):
        """Returns what a node stores for the Python value `a`.  Override it for more types."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(x) for x in a]
            return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return {self._create_key(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, (slice, range)):
            return type(a)(*map(self.create_arg, (a.start, a.stop, a.step)))
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            kwargs = {field.name: self.create_arg(getattr(a, field.name))
                      for field in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), kwargs)
        if isinstance(a, (*base_types, enum.Enum)) or a is None or a is ...:
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_key(self, key):
        def refuse(node):
            raise RuntimeError("Keys for dictionaries used as an argument cannot contain a Node. "
                               f"Got key: {node}")
        if not isinstance(key, str):
            key = self.create_arg(key)
            map_arg(key, refuse)
        return key

    def to_bool(self, obj):
        """Returns the truth value of a Proxy.  A tracer that knows it can override this."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj):
        """Returns an iterator over a Proxy.  A tracer that knows its length can override this."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            "loop or as a *args or **kwargs function argument. See the torch.fx docs on "
            "pytorch.org for a more detailed explanation of what types of control flow can be "
            "traced, and check out the Proxy docstring for help troubleshooting Proxy iteration "
            "errors")

    def keys(self, obj):
        """Called first for `**proxy`."""
        return Attribute(obj, "keys")()

class GraphAppendingTracer(TracerBase):
    """Adds nodes to an existing graph.  Used for Proxies of its nodes."""

    def __init__(self, graph):
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}

def assert_fn(x):
    """Records an assertion on a Proxy."""
    if not x:
        raise AssertionError("Assertion failed")

def _current_instruction(frame):
    """Returns the instructions of a frame's code and the index of the current one."""
    instructions = list(dis.get_instructions(frame.f_code))
    return instructions, bisect.bisect_left(instructions, frame.f_lasti, key=lambda i: i.offset)

def _tracer_of(cls, function, *trees):
    tracers = {}

    def note(x):
        if isinstance(x, cls):
            tracers[x.tracer] = None
    for tree in trees:
        tree_map_(note, tree)
    if len(tracers) > 1:
        raise RuntimeError(f"Found multiple different tracers {list(tracers)} while trying to "
                           f"trace operations {function}")
    return next(iter(tracers))

class Proxy:
    """The value of a node.  Operations on it become nodes of the same graph."""

    def __init__(self, node, tracer=None):
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self):
        return f"Proxy({self.node.name})"

    def __getattr__(self, name):
        return Attribute(self, name)  # becomes a node unless it is called as a method

    # Python looks these up like other attributes; they must not become nodes.

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state):
        self.__dict__ = state

    def __deepcopy__(self, memo):
        made = Proxy.__new__(Proxy)
        memo[id(self)] = made
        for key, value in self.__dict__.items():
            made.__dict__[key] = copy.deepcopy(value, memo)
        return made

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", "__call__", (self,) + args, kwargs)

    def __iter__(self):
        instructions, at = _current_instruction(sys._getframe(1))
        if instructions[at].opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(instructions[at].argval))
        return self.tracer.iter(self)

    def __abs__(self):
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self):
        if self.tracer.trace_asserts:
            instructions, at = _current_instruction(sys._getframe(1))
            # Since CPython 3.13 these instructions read the truth value.
            at += instructions[at].opname in ("TO_BOOL", "COMPARE_OP")
            if (instructions[at].opname.startswith("POP_JUMP") and
                    instructions[at + 1].opname == "LOAD_ASSERTION_ERROR"):
                self.tracer.create_proxy("call_function", assert_fn, (self,), {})
                return True
        return self.tracer.to_bool(self)

    def keys(self):
        """Called first for `**proxy`."""
        return self.tracer.keys(self)

    def __len__(self):
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want "
                           "this call to be recorded, please call torch.fx.wrap('len') at module "
                           "scope")

    @classmethod
    def __torch_function__(cls, orig_method, types, args=None, kwargs=None):
        args, kwargs = args or (), kwargs or {}
        tracer = _tracer_of(cls, orig_method, args, kwargs)
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs,
                                   name=tracer.graph._target_to_str(orig_method.__name__))

class Attribute(Proxy):
    """`proxy.name`: a method when it is called, otherwise a node that reads the attribute."""

    def __init__(self, root, attr):
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node = None

    @property
    def node(self):
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr,
                                                  (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs):
        return self.tracer.create_proxy("call_method", self.attr, (self.root,) + args, kwargs)

class ParameterProxy(Proxy):
    """A parameter whose shape is known while tracing (Tracer's param_shapes_constant)."""

    def __init__(self, tracer, node, name, param):
        super().__init__(node, tracer)
        if not isinstance(param, cresset.nn.Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self):
        return f"ParameterProxy({self.name})"

    @property
    def shape(self):
        return self.param.shape

    def size(self, *args):
        return self.param.size(*args)

    def dim(self):
        return self.param.dim()

    @property
    def ndim(self):
        return self.param.ndim

    def numel(self):
        return self.param.numel()

    def nelement(self):
        return self.param.nelement()

def _add_operator(name):
    function = getattr(operator, name, None)

    def method(*args, **kwargs):
        return args[0].tracer.create_proxy("call_function", function, args, kwargs)
    method.__name__ = name
    setattr(Proxy, f"__{name.strip('_')}__", method)

def _add_reflected_operator(name):
    function = getattr(operator, name, None)

    def method(self, left):
        return self.tracer.create_proxy("call_function", function, (left, self), {})
    method.__name__ = method.__qualname__ = f"__r{name.strip('_')}__"
    setattr(Proxy, method.__name__, method)

for _name in magic_methods:
    _add_operator(_name)
for _name in reflectable_magic_methods:
    _add_reflected_operator(_name)
