"""Nodes: an operation of a graph, its arguments and its users."""
import builtins
import inspect
import operator
import types
import typing

import cresset
from .._ops import OpOverload, OpOverloadPacket
from .._utils import torch_name, typename
from ..utils._dtype_abbrs import dtype_abbrs
from .immutable_collections import immutable_dict, immutable_list

__all__ = ["Node", "map_arg", "map_aggregate", "has_side_effect"]

base_types = (str, int, float, bool, complex, cresset.dtype, cresset.Tensor, cresset.device,
              cresset.memory_format, cresset.layout, OpOverload)
BaseArgumentTypes = typing.Union[base_types]
Target = typing.Union[typing.Callable[..., typing.Any], str]
Argument = typing.Any

_legal_ops = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output",
              "root")
_side_effectful_functions = {cresset._C._set_grad_enabled, operator.setitem}
_RANDOM_FUNCTIONS = frozenset(getattr(cresset, entry["name"], None) for entry in cresset._C._records()
                              if "random" in entry["words"]) - {None}


def has_side_effect(fn):
    """Marks `fn` as having side effects, so that its calls are not removed as dead code."""
    _side_effectful_functions.add(fn)
    return fn


# Arguments.

def _map(a, fn, leaf):
    """Returns `a` with fn(x) for every x where leaf(x); containers become immutable."""
    if isinstance(a, tuple):
        items = [_map(x, fn, leaf) for x in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([_map(x, fn, leaf) for x in a])
    if isinstance(a, dict):
        return immutable_dict({k: _map(v, fn, leaf) for k, v in a.items()})
    if isinstance(a, slice):
        return slice(_map(a.start, fn, leaf), _map(a.stop, fn, leaf), _map(a.step, fn, leaf))
    return fn(a) if leaf(a) else a


def _is_node(a):
    return isinstance(a, Node)


def map_arg(a, fn):
    """Returns `a` with fn(node) instead of every node."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return _map(a, fn, _is_node)


def map_aggregate(a, fn):
    """Returns `a` with fn(x) instead of every x that is not a container."""
    return _map(a, fn, lambda _: True)


# Names and texts.

def _find_module_of_method(function):
    module = function.__module__
    if module is not None:
        name = torch_name(module)
        inner = name.startswith("torch._") and getattr(cresset, function.__name__,
                                                       None) is function
        return "torch" if inner else name
    for guess in (cresset, cresset.nn.functional):
        if getattr(guess, function.__name__, None) is function:
            return torch_name(guess.__name__)
    raise RuntimeError(f"cannot find module for {function}")


def _is_tensor_method(function, name):
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType,
                             type(cresset.Tensor.add))):
        return function is getattr(cresset.Tensor, name, None)
    return (function.__module__ == cresset._tensor.__name__ and
            getattr(function, "__qualname__", "") == f"Tensor.{name}")


def _lambda_name(function):
    try:
        return inspect.getsource(function).split("=")[0].strip()
    except Exception as error:
        raise RuntimeError("Unable to represent lambda") from error


def _get_qualified_name(function):
    """Returns the name of `function` in generated code: "torch.add", "getattr"."""
    name = function.__name__
    if getattr(builtins, name, None) is function:
        return name
    if _is_tensor_method(function, name):
        return f"torch.Tensor.{name}"
    if name == "<lambda>":
        name = _lambda_name(function)
    module = _find_module_of_method(function).replace("torch._ops", "torch.ops")
    return f"{module}.{name}"


def _type_repr(obj):
    """Returns the text of a type in generated code."""
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return f"{torch_name(obj.__module__)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj).replace("cresset.", "torch.")


def _format_items(items, max_list_len):
    text = ", ".join(_format_arg(a) for i, a in enumerate(items) if i < max_list_len)
    return text, "" if len(items) < max_list_len + 1 else f", ...[total_len={len(items)}]"


def _format_arg(arg, max_list_len=float("inf")):
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, list):
        return "[%s%s]" % _format_items(arg, max_list_len)
    if isinstance(arg, tuple):
        text, more = _format_items(arg, max_list_len)
        return f"({text}{',' if len(arg) == 1 else ''}{more})"
    if isinstance(arg, dict):
        return "{%s}" % ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items())
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def stringify_shape(shape):
    """Returns the text of a shape in comments."""
    return f"[{', '.join(map(str, shape))}]"


def _is_random(function):
    return getattr(function, "_nondeterministic_seeded", False) or function in _RANDOM_FUNCTIONS


def _is_impure_function(function, impure_random):
    if isinstance(function, OpOverloadPacket):
        function = getattr(function, "default", function)
    schema = getattr(function, "_schema", None)
    return (function in _side_effectful_functions or (impure_random and _is_random(function)) or
            (schema is not None and (schema.is_mutable or not schema.returns)) or "meets" in getattr(function, "words", ()))


class Node:
    """An operation of a graph.

    `op` is "placeholder", "get_attr", "call_function", "call_module", "call_method" or
    "output".  `target` is the called function or the attribute's name.  `args` and `kwargs`
    contain nodes whose values are arguments.  The nodes of a graph are a doubly linked ring
    through the graph's root.
    """

    def __init__(self, graph, name, op, target, args, kwargs, return_type=None):
        if op == "call_function":
            self._check_target(graph, name, target, callable(target), "Callable")
        else:
            if op not in _legal_ops:
                raise AssertionError(f"op '{op}' is not in _legal_ops")
            self._check_target(graph, name, target, isinstance(target, str), "str")
        self.graph = graph
        self._name = name
        self.op = op
        self.target = target
        self.type = return_type
        self.users = {}
        self.meta = {}
        self._input_nodes = {}
        self._args, self._kwargs = (), immutable_dict()
        self._prev = self._next = self
        self._position = 0
        self._erased = False
        self._repr_fn = None
        self._update_args_kwargs(args, kwargs)

    @staticmethod
    def _check_target(graph, name, target, good, expected):
        if not good:
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                             f"{typename(target)} but a {expected} is expected")

    # The list.

    @property
    def next(self):
        """The next node of the graph."""
        return self._next

    @property
    def prev(self):
        """The node before this one."""
        return self._prev

    def _remove_from_list(self):
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x):
        """Moves `x` of the same graph before this node."""
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev = x, before
        x._next, self._prev = self, x
        self.graph._order_changed(x)

    def append(self, x):
        """Moves `x` of the same graph after this node."""
        self._next.prepend(x)

    def __lt__(self, other):
        return self.graph._position_of(self) < self.graph._position_of(other)

    def __gt__(self, other):
        return other < self

    def __le__(self, other):
        return self is other or self < other

    def __ge__(self, other):
        return self is other or other < self

    # Arguments.

    @property
    def name(self):
        """The name of the value, unique in the graph."""
        return self._name

    @name.setter
    def name(self, value):
        for user in self.users if hasattr(self.graph.owning_module, "_replace_hooks") else ():
            self._run_replace_hooks(self, value, user)
        self._name = value

    @property
    def args(self):
        """The positional arguments; assigning updates the users of other nodes."""
        return self._args

    @args.setter
    def args(self, args):
        self._update_args_kwargs(args, self._kwargs)

    @property
    def kwargs(self):
        """The keyword arguments."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs):
        self._update_args_kwargs(self._args, kwargs)

    @property
    def all_input_nodes(self):
        """The nodes among the arguments, each once, in order."""
        return list(self._input_nodes)

    def _update_args_kwargs(self, args, kwargs):
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def use(node):
            self._input_nodes.setdefault(node)
            node.users.setdefault(self)
            return node
        self._args = map_arg(args, use)
        self._kwargs = map_arg(kwargs, use)

    def update_arg(self, idx, arg):
        """Replaces a positional argument by `arg`."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx, arg):
        """Inserts `arg` before the positional argument `idx`."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError(
                f"insert_args index must be between 0 and len(self.args), got {idx}")
        self.args = self.args[:idx] + (arg,) + self.args[idx:]

    def update_kwarg(self, key, arg):
        """Replaces or adds a keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    @staticmethod
    def _run_replace_hooks(old, new, user):
        for hook in getattr(user.graph.owning_module, "_replace_hooks", None) or ():
            hook(old=old, new=new, user=user)

    def replace_input_with(self, old_input, new_input):
        """Replaces `old_input` by `new_input` in the arguments."""
        self._run_replace_hooks(old_input, new_input.name, self)

        def swap(node):
            return new_input if node is old_input else node
        self._update_args_kwargs(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(self, replace_with, delete_user_cb=None, *, propagate_meta=False):
        """Makes the users of this node use `replace_with`.  Returns the changed users."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                    "replace_with already has .meta keys")
            replace_with.meta.update(self.meta)
        changed = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # --- properties ---

    @property
    def stack_trace(self):
        """The Python stack of the recorded call, if it was requested."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace):
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random=True):
        """Returns whether the node must not be removed as dead code."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return _is_impure_function(self.target, impure_random)
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = self.graph.owning_module.get_submodule(self.target)
            return getattr(module, "_is_impure", False)
        return False

    def normalized_arguments(self, root, arg_types=None, kwarg_types=None,
                             normalize_to_only_use_kwargs=False):
        """Returns the arguments by name of the target's signature, or None."""
        from .operator_schemas import normalize_function, normalize_module
        if self.op == "call_function":
            return normalize_function(self.target, self.args, self.kwargs, arg_types, kwarg_types,
                                      normalize_to_only_use_kwargs)
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs,
                                    normalize_to_only_use_kwargs)
        return None

    # --- text ---

    def __repr__(self):
        return self._repr_fn(self) if self._repr_fn else self._name

    def _rename(self, candidate):
        if candidate != self._name:
            name = self.graph._graph_namespace.create_name(candidate, None)
            self.name = name
            self.graph._graph_namespace._rename_object(self, name)

    @staticmethod
    def _pretty_print_target(target):
        """Returns the readable name of the target: "torch.add", "operator.add",
        "builtins.getattr"."""
        if isinstance(target, str):
            return target
        module = getattr(target, "__module__", None)
        if module == "builtins":
            return f"builtins.{target.__name__}"
        if module == "_operator":
            return f"operator.{target.__name__}"
        return _get_qualified_name(target)

    def _tensor_text(self):
        """Returns dtype and shape of the node's tensor, as far as passes have noted them."""
        value = _meta_value(self)
        if not isinstance(value, cresset.Tensor):
            return None
        return (f'Tensor "{dtype_abbrs[value.dtype]}{stringify_shape(value.shape)}'
                f'{stringify_shape(value.stride())}{value.device}"')

    def format_node(self, placeholder_names=None, maybe_return_typename=None, *,
                    include_tensor_metadata=False):
        """Returns a line of text about the node."""
        kind = f"{_type_repr(self.type)} " if self.type is not None else ""
        head = f"%{self.name} : {kind}[num_users={len(self.users)}] = {self.op}"
        if self.op == "placeholder":
            if placeholder_names:
                placeholder_names.append(
                    self.target + (f"{self.target}: {_type_repr(self.type)}" if self.type else ""))
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"{head}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"{head}[target={self._pretty_print_target(self.target)}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        tensor = self._tensor_text() if include_tensor_metadata else None
        if tensor is not None:
            head = f"%{self.name} : {tensor}[num_users={len(self.users)}] = {self.op}"
        return (f"{head}[target={self._pretty_print_target(self.target)}]("
                f"args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})")


def _meta_value(node):
    """Returns the metadata that passes have noted about the node's value."""
    for key in ("val", "tensor_meta", "example_value"):
        if key in node.meta:
            return node.meta[key]
    return None
