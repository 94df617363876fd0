"""Graphs: functions as lists of nodes, and their Python text."""
import builtins
import contextlib
import copy
import enum
import functools
import inspect
import keyword
import math
import re
import types
import typing
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import cresset
from .._ops import OpOverload
from .._utils import torch_name, typename
from ..utils import _pytree as pytree
from ..utils._dtype_abbrs import dtype_abbrs
from . import _pytree as fx_pytree
from ._table import table_text
from .immutable_collections import immutable_dict
from .node import (Node, _get_qualified_name, _legal_ops, _meta_value, _type_repr, map_arg,
                   stringify_shape)

__all__ = ["PythonCode", "CodeGen", "Graph"]

# Names.

_illegal_names = {name: object() for name in keyword.kwlist}
_illegal_names.update(builtins.__dict__)


class _CustomBuiltin(NamedTuple):
    """A name that all generated code can use, and the statement that imports it."""

    import_str: str
    obj: object


_custom_builtins = {
    "inf": _CustomBuiltin("from math import inf", math.inf),
    "nan": _CustomBuiltin("from math import nan", math.nan),
    "NoneType": _CustomBuiltin("NoneType = type(None)", type(None)),
    "torch": _CustomBuiltin("import torch", cresset),
    "device": _CustomBuiltin("from torch import device", cresset.device),
    "fx_pytree": _CustomBuiltin("import torch.fx._pytree as fx_pytree", fx_pytree),
    "pytree": _CustomBuiltin("import torch.utils._pytree as pytree", pytree)}
_illegal_names.update((name, custom.obj) for name, custom in _custom_builtins.items())

reflectable_magic_methods = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}",
    "truediv": "{} / {}", "div": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}",
    "lshift": "{} << {}", "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}",
    "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}"}
magic_methods = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}",
    "ge": "{} >= {}", "pos": "+{}", "neg": "-{}", "invert": "~{}", **reflectable_magic_methods}
inplace_methods = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}",
    "imod": "{} %= {}", "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}",
    "ipow": "{} **= {}", "irshift": "{} >>= {}", "isub": "{} -= {}", "itruediv": "{} /= {}",
    "ixor": "{} ^= {}", "setitem": "{}[{}] = {}"}

# typing's name of a container, for annotations such as typing.List[...].
_typing_origins = {list: typing.List, dict: typing.Dict, set: typing.Set,
                   frozenset: typing.FrozenSet, tuple: typing.Tuple}


def _is_from_torch(obj):
    """Returns whether generated code reaches `obj` by the name `torch`."""
    module = getattr(obj, "__module__", None)
    if module is not None:
        return torch_name(module).partition(".")[0] == "torch"
    name = getattr(obj, "__name__", None)
    return name not in (None, "torch", "cresset") and any(
        getattr(guess, name, None) is obj for guess in (cresset, cresset.nn.functional))


def _snake_case(text):
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", text).lower()


class _Namespace:
    """Unique names.  A name is given once, and an object keeps its name."""

    def __init__(self):
        self._obj_to_name = {}
        self._used_names = set()
        self._base_count = {}

    @staticmethod
    def _split(candidate):
        """Splits a name into (base, number or None).  Characters that are invalid in names are
        replaced."""
        pattern = r"([a-zA-Z_][0-9a-zA-Z_]*?)(?:_(\d+))?"
        found = re.fullmatch(pattern, candidate)
        if found is None:
            candidate = re.sub("[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
            candidate = f"_{candidate}" if candidate[0].isdigit() else candidate
            found = re.fullmatch(pattern, candidate)
        return candidate, *found.groups()

    def create_name(self, candidate, obj):
        """Returns a new name like `candidate`, or the existing name of `obj`."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        candidate, base, num = self._split(candidate)
        if num is None or candidate in self._used_names:
            num = self._base_count.get(base, 0)
            if _illegal_names.get(candidate, obj) is not obj:
                num += 1
                candidate = f"{base}_{num}"
        num = int(num)
        while candidate in self._used_names:
            num += 1
            candidate = f"{base}_{num}"
        self._used_names.add(candidate)
        self._base_count[base] = num
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name, obj):
        """Sets the name of `obj`."""
        if self._obj_to_name.setdefault(obj, name) is not name:
            raise AssertionError("obj is already associated")

    def _rename_object(self, obj, name):
        self._obj_to_name[obj] = name
        self._used_names.add(name)


# Python code.

@dataclass
class PythonCode:
    """The text of a function and the objects of its global names."""

    src: str
    globals: dict
    _lineno_map: dict
    _prologue_start: int = 0


class _PyTreeInfo(NamedTuple):
    """The nesting of a function's arguments and results."""

    orig_args: list
    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec


_COLORS = {"yellow": "\033[33m", "cyan": "\033[36m", "green": "\033[32m", "red": "\033[31m",
           "blue": "\033[34m", "black": "\033[30m"}


def _color(name, dimmed=False):
    prefix = ("\033[2m" if dimmed else "") + _COLORS.get(name, "")
    return lambda text: f"{prefix}{text}\033[0m"


def _plain(text):
    return text


def _format_target(base, target):
    """Returns `base.a.b`, with getattr for parts that are not identifiers."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class _Stack(NamedTuple):
    """The innermost frame of a node's stack trace."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self):
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


def _parse_stack_trace(stack_trace):
    found = re.findall(r'^\s*File "(.+)", line (\d+), in (.+)\n(.*)', stack_trace, re.MULTILINE)
    if not found:
        return None
    file, lineno, name, code = found[-1]
    return _Stack(file, lineno, name, code.strip())


class _Writer:
    """Writes the nodes of one graph as Python statements."""

    def __init__(self, codegen, root_module, namespace, verbose, include_stride, include_device,
                 colored, expanded_def, additional_meta):
        self.codegen = codegen
        self.root = root_module
        self.namespace = namespace
        self.verbose = verbose
        self.include_stride, self.include_device = include_stride, include_device
        self.expanded_def = expanded_def
        self.additional_meta = additional_meta or ()
        self.globals = {}
        self.free_vars, self.body = [], []
        self.wrapped = {}
        self.return_annotation = ""
        self.last_summary = None
        self.red = _color("red") if colored else _plain
        self.blue = _color("blue") if colored else _plain
        self.dim = _color("", True) if colored else _plain
        self.dim_blue = _color("blue", True) if colored else _plain
        self.dim_green = _color("green", True) if colored else _plain
        for name, custom in _custom_builtins.items():
            self.add_global(name, custom.obj)

    def add_global(self, hint, obj):
        """Returns the name of `obj` in the code; makes it a global unless torch has it."""
        if _is_from_torch(obj) and obj is not cresset.device:
            return _get_qualified_name(obj)
        name = self.namespace.create_name(hint, obj)
        if name in self.globals and self.globals[name] is not obj:
            raise AssertionError(f"Global name {name} already assigned to different object")
        self.globals[name] = obj
        return name

    # Values.

    def value(self, arg):
        """Returns the text of an argument."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple):
            return self._tuple(arg)
        if isinstance(arg, OpOverload):
            return self.add_global(_get_qualified_name(arg), arg)
        if isinstance(arg, enum.Enum):
            return f"{self.add_global(type(arg).__name__, type(arg))}.{arg.name}"
        if isinstance(arg, cresset.Tensor):
            dtype = str(arg.dtype).split(".")[-1]
            return f"torch.Tensor(size={list(arg.size())}, dtype={dtype})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.value, arg))}]"
        if isinstance(arg, slice):
            return f"slice({', '.join(map(self.value, (arg.start, arg.stop, arg.step)))})"
        return self.blue(repr(arg))

    def _tuple(self, arg):
        if hasattr(arg, "_fields"):
            cls = type(arg)
            return f"{self.add_global(_get_qualified_name(cls), cls)}{tuple(arg)!r}"
        return f"({', '.join(map(self.value, arg))}{',' if len(arg) == 1 else ''})"

    def arguments(self, args, kwargs):
        """Returns the text between the parentheses of a call."""
        return ", ".join([self.value(a) for a in args] +
                         [f"{k} = {self.value(v)}" for k, v in kwargs.items()])

    def annotation(self, kind):
        """Returns the text of a type."""
        if kind == ():
            return "()"
        name = _type_repr(kind)
        if isinstance(kind, types.UnionType) and "|" in name:
            return "|".join(map(self.annotation, typing.get_args(kind)))
        origin = getattr(kind, "__origin__", None)
        if not origin:
            return self.add_global(name, kind)
        if isinstance(kind, typing._GenericAlias):
            origin = _typing_origins.get(origin, origin)
        name = self.add_global(_type_repr(origin), origin)
        inside = typing.get_args(kind)
        return f"{name}[{','.join(map(self.annotation, inside))}]" if inside else name

    def _tensor_text(self, t):
        return (self.red(dtype_abbrs[t.dtype]) + self.blue(stringify_shape(t.shape)) +
                self.dim_blue(stringify_shape(t.stride()) if self.include_stride else "") +
                self.dim_green(str(t.device) if self.include_device else ""))

    def _what(self, node):
        """Returns the annotation after a node's name; in verbose code dtype and shape."""
        from .passes.shape_prop import TensorMetadata
        value = _meta_value(node) if self.verbose else None
        if isinstance(value, cresset.Tensor):
            text = self._tensor_text(value)
            plain = type(value) is cresset.Tensor or type(value).__name__ == "FakeTensor"
            return f': "{text}"' if plain else f': "{type(value).__name__}({text})"'
        if isinstance(value, int) and hasattr(value, "node"):
            return f': "Sym({value})"'
        shown = node.meta.get("condition", node.meta.get("expr")) if isinstance(value, (bool, float)) else None
        if shown is not None:  # of an exported program
            return f': "Sym({shown})"'
        if isinstance(value, TensorMetadata):
            return f': "{dtype_abbrs[value.dtype]}{stringify_shape(value.shape)}"'
        return "" if node.type is None else f" : {self.annotation(node.type)}"

    # Statements.

    def statement(self, node):
        """Appends the statement of a node, without the end of the line."""
        getattr(self, f"_{node.op}")(node, f"{node!r}{self._what(node)} = ")

    def _placeholder(self, node, _):
        default = f" = {self.value(node.args[0])}" if node.args else ""
        desc = node.meta.get("desc") if self.expanded_def else None
        comment = "" if desc is None else f"  # {desc}"
        self.free_vars.append(f"{node.target}{self._what(node)}{default}{comment}")
        raw_name = node.target.replace("*", "")
        if raw_name != repr(node):
            self.body.append(f"{node!r} = {raw_name}\n")

    def _get_attr(self, node, left):
        self.body.append(left + _format_target(self.root, node.target))

    def _call_method(self, node, left):
        method = _format_target(self.value(node.args[0]), node.target)
        self.body.append(f"{left}{method}({self.arguments(node.args[1:], node.kwargs)})")

    def _call_module(self, node, left):
        module = _format_target(self.root, node.target)
        self.body.append(f"{left}{module}({self.arguments(node.args, node.kwargs)})")

    def _call_function(self, node, left):
        if getattr(node.target, "__module__", "") == "_operator":
            name, values = node.target.__name__, [self.value(a) for a in node.args]
            if name in magic_methods:
                self.body.append(left + magic_methods[name].format(*values))
                return
            if name in inplace_methods:
                self.body.append(f"{inplace_methods[name].format(*values)};  {left}{values[0]}")
                return
        name = self.add_global(_get_qualified_name(node.target), node.target)
        if (name == "getattr" and len(node.args) == 2 and isinstance(node.args[1], str) and
                node.args[1].isidentifier()):
            self.body.append(left + _format_target(self.value(node.args[0]), node.args[1]))
            return
        self.body.append(f"{left}{name}({self.arguments(node.args, node.kwargs)})")
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(name)

    def _output(self, node, _):
        if node.type is not None:
            self.return_annotation = f" -> {self.annotation(node.type)}"
        descs = node.meta.get("desc") if self.expanded_def else None
        self.body.append(self.codegen._call(self.codegen.generate_output, node.args[0],
                                            descs=descs, repr_fn=self.value))

    def summary(self, node):
        """Appends a comment with the source of the next nodes, when it changes."""
        if node.op in ("placeholder", "output"):
            return
        more = ", ".join(f"{k}: {node.meta[k]}" for k in self.additional_meta if k in node.meta)
        trace = _parse_stack_trace(node.stack_trace) if node.stack_trace else None
        text = trace.get_summary_str() if trace else "No stacktrace found for following nodes"
        custom = {k: v if len(str(v)) <= 40 else str(v)[:40] + "..."
                  for k, v in (node.meta.get("custom") or {}).items()}
        note = f" Annotation: {custom}" if custom else ""
        head = f"# {more} " if more else ""
        line = f"\n{self.dim(f'{head}#{note} {text}')}\n"
        if line != self.last_summary:
            self.last_summary = line
            self.body.append(line)

    def end_of_statement(self, node, last_uses):
        """Ends the line and deletes values that are not used any more."""
        if node.op == "placeholder":
            return
        done = [] if node.op == "output" else last_uses.get(node, [])
        if node.op != "output" and not node.users:
            done = [*done, node]
        names = " = ".join([*map(repr, done), "None"])
        self.body.append(f";  {self.dim(names)}\n" if done else "\n")


def _last_uses(nodes):
    """Returns for each node the nodes whose values have their last use there."""
    seen, out = set(), {}
    for user in reversed(nodes):
        for node in user._input_nodes:
            if node not in seen:
                seen.add(node)
                out.setdefault(user, []).append(node)
    return out


class CodeGen:
    """Writes a graph as the text of a function.  Subclasses change its parameters and results."""

    def __init__(self):
        self._body_transformer = None
        self._func_name = "forward"

    @staticmethod
    def _call(method, *args, **kwargs):
        """Calls a method that a subclass may have overridden with fewer keywords."""
        known = inspect.signature(method).parameters
        return method(*args, **{k: v for k, v in kwargs.items() if k in known})

    @staticmethod
    def _one_a_line(args):
        lines = []
        for arg in args:
            arg, hash_mark, comment = arg.partition("#")
            lines.append(f"    {arg.rstrip()},  # {comment.lstrip()}\n" if hash_mark
                         else f"    {arg},\n")
        return "".join(lines)

    @staticmethod
    def _described(items, descs, prefix, repr_fn):
        opening, closing = "()" if isinstance(items, tuple) else "[]"
        lines = "".join(f"    {repr_fn(item)},  # {desc}\n" for item, desc in zip(items, descs))
        return f"{prefix}{opening}\n{lines}{closing}"

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        """Returns the `def` line."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        args = f"\n{self._one_a_line(free_vars)}" if expanded_def else ", ".join(free_vars)
        return f"def {self._func_name}({args}){maybe_return_annotation}:"

    def generate_output(self, output_args, *, descs=None, repr_fn=repr):
        """Returns the return statement."""
        if descs is not None and isinstance(output_args, (list, tuple)):
            return self._described(output_args, descs, "return ", repr_fn)
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args):
        """Converts the function's arguments to values for the placeholders."""
        return args

    def process_outputs(self, outputs):
        """Converts the graph's outputs to the function's result."""
        return outputs

    def additional_globals(self):
        """Returns (name, object) pairs that the text of a subclass needs."""
        return []

    def _gen_python_code(self, nodes, root_module, namespace, *, verbose=False,
                         include_stride=False, include_device=False, colored=False,
                         expanded_def=False, additional_meta=None):
        writer = _Writer(self, root_module, namespace, verbose, include_stride, include_device,
                         colored, expanded_def, additional_meta)
        last_uses = _last_uses(nodes)
        for i, node in enumerate(nodes):
            if verbose:
                writer.summary(node)
            writer.body.append(f"# COUNTER: {i}\n")
            writer.statement(node)
            writer.end_of_statement(node, last_uses)
        return self._assemble(writer)

    def _assemble(self, writer):
        body = writer.body or ["pass\n"]
        wraps = ""
        if writer.wrapped:
            wrap = writer.add_global("wrap", cresset.fx.wrap)
            wraps = "\n".join(f'{wrap}("{name}")' for name in writer.wrapped)
        if self._body_transformer:
            body = self._body_transformer(body)
        for name, value in self.additional_globals():
            writer.add_global(name, value)
        prologue = self._call(self.gen_fn_def, writer.free_vars, writer.return_annotation,
                              expanded_def=writer.expanded_def)
        lines, numbers = self._without_counters(body, prologue.count("\n") + 1)
        code = "\n".join(lines).lstrip("\n")
        code = "\n".join(f"    {line}" for line in code.split("\n"))
        return PythonCode(f"\n{wraps}\n\n{prologue}\n{code}", writer.globals, numbers,
                          wraps.count("\n") + 4)

    @staticmethod
    def _without_counters(body, offset):
        """Returns the lines without their counters, and the node of each line."""
        lines, numbers, current = [], {}, None
        for line in "".join(body).split("\n"):
            counter = re.search(r"# COUNTER: (\d+)", line)
            if counter is not None:
                current = int(counter.group(1))
            else:
                numbers[len(lines) + offset] = current
                lines.append(line)
        return lines, numbers


class _PyTreeCodeGen(CodeGen):
    """Code whose function takes nested arguments and flattens them for the graph."""

    def __init__(self, pytree_info):
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs):
        return pytree.tree_leaves(inputs)

    def process_outputs(self, out):
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        out = out if isinstance(out, (list, tuple)) else [out]
        return pytree.tree_unflatten(out, self.pytree_info.out_spec)

    def _bindings(self, fn_args, free_vars):
        names = [x.split(":")[0].split("#")[0] for x in free_vars]
        annotated = [x for x in free_vars if ":" in x]
        text = "\n    " + "".join(f"{x}; " for x in annotated) + "\n" if annotated else ""
        return (f"{text}\n    {', '.join(names)}, = fx_pytree.tree_flatten_spec("
                f"{self._packed(fn_args)}, self._in_spec)")

    def _packed(self, fn_args):
        """Returns the text of the nested arguments."""
        spec = self.pytree_info.in_spec
        if not (spec.type is tuple and spec.num_children == 2 and
                spec.child(0).type is tuple and spec.child(1).type is dict):
            return f"[{', '.join(fn_args)}]"
        count = spec.child(0).num_children
        names = self.pytree_info.orig_args
        pairs = ", ".join(f"'{k}':{v}" for k, v in zip(spec.child(1).context, names[count:]))
        return f"([{', '.join(names[:count])}], {{{pairs}}})"

    def gen_fn_def(self, free_vars, maybe_return_annotation, *, expanded_def=False):
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation,
                                      expanded_def=expanded_def)
        fn_args = self.pytree_info.orig_args
        if fn_args and fn_args[0] == "self":
            free_vars.insert(0, "self")
        head = super().gen_fn_def(fn_args[:], maybe_return_annotation, expanded_def=expanded_def)
        return head + (self._bindings(fn_args, free_vars) if free_vars else "")

    def generate_output(self, output_args, *, descs=None, repr_fn=repr):
        if not self.pytree_info or not self.pytree_info.out_spec:
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        prefix = "return pytree.tree_unflatten("
        if descs is not None and isinstance(output_args, (list, tuple)):
            return self._described(output_args, descs, prefix, repr_fn) + ", self._out_spec)"
        return f"{prefix}{repr_fn(output_args)}, self._out_spec)"


# Graphs.

class _InsertPoint:
    """Sets where new nodes are inserted: in a `with` block, otherwise permanently."""

    def __init__(self, graph, insert):
        self.graph = graph
        self.previous, graph._insert = graph._insert, insert

    def __enter__(self):
        pass

    def __exit__(self, *exc):
        self.graph._insert = self.previous


class _node_list:
    """The nodes of a graph, in order; nodes may be added and erased while iterating."""

    def __init__(self, graph, direction="_next"):
        if direction not in ("_next", "_prev"):
            raise AssertionError(f"direction must be '_next' or '_prev', got {direction}")
        self.graph = graph
        self.direction = direction

    def __len__(self):
        return self.graph._len

    def _walk(self, direction):
        node = getattr(self.graph._root, direction)
        while node is not self.graph._root:
            if not node._erased:
                yield node
            node = getattr(node, direction)

    def __iter__(self):
        return self._walk(self.direction)

    def __reversed__(self):
        return self._walk("_prev" if self.direction == "_next" else "_next")


def _find_attribute(module, target):
    """Returns whether `target` names a module, parameter or buffer below `module`."""
    path, _, name = target.rpartition(".")
    try:
        module = module.get_submodule(path)
    except AttributeError:
        warnings.warn(f"Failed to fetch module {path}!")
        return False
    if not hasattr(module, name):
        return False
    found = getattr(module, name)
    return isinstance(found, (cresset.nn.Module, cresset.nn.Parameter)) or name in module._buffers


class Graph:
    """A function as a list of nodes: its parameters, its operations and its return."""

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None):
        self._len = 0
        self._order_known = True
        self._root = Node(self, "", "root", "", (), {})
        self._insert = self._root.prepend
        self._graph_namespace = _Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields = {}

    @property
    def owning_module(self):
        """The GraphModule that has this graph, or None."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod):
        self._owning_module = mod

    @property
    def nodes(self):
        """The nodes in order; supports `reversed`."""
        return _node_list(self)

    # Order.

    def _order_changed(self, node):
        """Notes that `node` has moved.  Positions are computed when they are compared."""
        if node._next is self._root:
            node._position = node._prev._position + 1
        else:
            self._order_known = False

    def _position_of(self, node):
        if not self._order_known:
            for i, each in enumerate(self.nodes, 1):
                each._position = i
            self._order_known = True
        return node._position

    # Finding.

    def output_node(self):
        """Returns the output node."""
        node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op={node.op}")
        return node

    def find_nodes(self, *, op, target=None, sort=True):
        """Returns the nodes with this op, and target if given, in order."""
        if op == "call_function" and target is None:
            raise AssertionError("target must not be None for call_function op")
        return [node for node in self.nodes
                if node.op == op and (target is None or node.target == target)]

    # Making nodes.

    @staticmethod
    def _target_to_str(target):
        name = target
        if callable(target):
            name = target.__name__
        elif not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        elif target.startswith("__") and target.endswith("__"):
            name = target[2:-2]
        return _snake_case(name)

    def create_node(self, op, target, args=None, kwargs=None, name=None, type_expr=None):
        """Makes a node at the insertion point, which is the end unless inserting_... changed
        it."""
        args, kwargs = args or (), kwargs or immutable_dict()
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(candidate, None)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        for hook in getattr(self.owning_module, "_create_node_hooks", None) or ():
            hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._len += 1
        return node

    def placeholder(self, name, type_expr=None, default_value=inspect.Signature.empty):
        """Adds a parameter of the function."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name, type_expr=None):
        """Adds a node that reads a parameter, buffer or module of the owning module."""
        if self.owning_module is not None and not _find_attribute(self.owning_module,
                                                                  qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
                "GraphModule.add_parameter to add the necessary Parameter, or "
                "nn.Module.register_buffer to add the necessary buffer", stacklevel=2)
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name, args=None, kwargs=None, type_expr=None):
        """Adds a call of a submodule."""
        if (self.owning_module is not None and
                self.owning_module.get_submodule(module_name) is None):
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the "
                "owning GraphModule! Call GraphModule.add_submodule to add the necessary "
                "submodule")
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name, args=None, kwargs=None, type_expr=None):
        """Adds a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None):
        """Adds a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name,
                                type_expr=type_expr)

    def output(self, result, type_expr=None):
        """Adds the output node."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node, arg_transform=lambda x: x):
        """Copies a node of another graph.  `arg_transform` maps that graph's nodes to this
        graph's."""
        made = self.create_node(node.op, node.target, map_arg(node.args, arg_transform),
                                map_arg(node.kwargs, arg_transform), node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g, val_map, return_output_node=False):
        """Copies all nodes of `g` except the output, whose value is returned."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo=None):
        made = Graph(tracer_cls=self._tracer_cls)
        output = made.graph_copy(self, memo if memo else {}, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen)
        if output is not None:
            value, old = output
            made.output(value, type_expr=old.type).meta = copy.copy(old.meta)
        return made

    # Changing.

    def inserting_before(self, n=None):
        """Inserts new nodes before `n`, or at the beginning; use it with `with`."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n=None):
        """Inserts new nodes after `n`, or at the end; use it with `with`."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def erase_node(self, to_erase):
        """Removes a node without users."""
        if to_erase.users:
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had "
                               f"{len(to_erase.users)} users in the graph: {to_erase.users}!")
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node")
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs(map_arg(to_erase._args, lambda n: None),
                                     map_arg(to_erase._kwargs, lambda n: None))

    def _clear_nodes(self):
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    def eliminate_dead_code(self, is_impure_node=None):
        """Removes nodes whose values are not used.  Returns whether there were any."""
        self.lint()
        changed = False
        for node in reversed(self.nodes):
            impure = is_impure_node(node) if is_impure_node is not None else node.is_impure()
            if not impure and not node.users:
                self.erase_node(node)
                changed = True
        return self._eliminate_below() or changed

    def _eliminate_below(self):
        """Removes dead nodes of graphs that nodes of this graph refer to."""
        changed = False
        if self.owning_module is not None:
            names = {node.target for node in self.find_nodes(op="get_attr")}
            for name, child in self.owning_module.named_children():
                if name in names and isinstance(child, cresset.fx.GraphModule):
                    changed |= child.graph.eliminate_dead_code()
                    child.recompile()
        return changed

    # Checking.

    def _check_argument(self, arg, node, seen):
        of = f" of Node '{node}' " if node else " "
        if arg.graph is not self:
            raise RuntimeError(
                f"Argument '{arg}'{of}does not belong to this Graph, but was used as an argument! "
                "If you are copying nodes from another graph, make sure to use ``arg_transform`` "
                f"on node_copy() to remap values\n{self}")
        if arg not in seen:
            raise RuntimeError(
                f"Argument '{arg}'{of}was used before it has been defined! Please check that "
                f"Nodes in the graph are topologically ordered\n{self}")

    def _check_target(self, node):
        kind = typename(node.target)
        if node.op == "call_function":
            if not callable(node.target):
                raise ValueError(f"Node {node} target {node.target} has type {kind} but a "
                                 "Callable is expected")
        elif not isinstance(node.target, str):
            raise ValueError(f"Node {node} target {node.target} has type {kind} but a str is "
                             "expected")

    def _check_path(self, node):
        """Checks that the target of a get_attr or call_module node exists."""
        at, parts = self.owning_module, node.target.split(".")
        for i, part in enumerate(parts):
            below = ".".join(parts[:i])
            at = getattr(at, part, None)
            if at is None:
                raise RuntimeError(f"Node {node} target {node.target} references nonexistent "
                                   f"attribute {part} of {below}")
            if node.op == "call_module" and not isinstance(at, cresset.nn.Module):
                raise RuntimeError(f"Node {node} target {node.target} {part} of {below} does not "
                                   "reference an nn.Module")

    def lint(self):
        """Raises when the graph is malformed: order, names, owners, targets."""
        names, seen = set(), set()
        for node in self.nodes:
            if node.op not in _legal_ops or node.op == "root":
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for arg in node._input_nodes:
                self._check_argument(arg, node, seen)
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        for node in self.nodes if self.owning_module else ():
            self._check_target(node)
            if node.op in ("get_attr", "call_module"):
                self._check_path(node)

    # Text.

    def python_code(self, root_module, *, verbose=False, include_stride=False,
                    include_device=False, colored=False, expanded_def=False,
                    additional_meta=None):
        """Returns the text of the function.  `root_module` is the name of its module."""
        namespace = _Namespace()
        namespace.create_name(root_module.partition(".")[0], None)  # a node of this name, as of a submodule `self`, gets another
        with self._named_by(lambda node: namespace.create_name(node.name, node)):
            return self._codegen._gen_python_code(
                self.nodes, root_module, namespace, verbose=verbose,
                include_stride=include_stride, include_device=include_device, colored=colored,
                expanded_def=expanded_def, additional_meta=additional_meta)

    @contextlib.contextmanager
    def _named_by(self, name_of):
        previous = {node: node._repr_fn for node in self.nodes}
        for node in previous:
            node._repr_fn = name_of
        try:
            yield
        finally:
            for node, repr_fn in previous.items():
                node._repr_fn = repr_fn

    def __str__(self):
        return "\n    ".join(["graph():", *(node.format_node() for node in self.nodes)])

    def print_tabular(self):
        """Prints the nodes as a table."""
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        print(table_text(("opcode", "name", "target", "args", "kwargs"), rows))

    # --- code generation ---

    def set_codegen(self, codegen):
        """Uses another CodeGen."""
        self._codegen = codegen

    def process_inputs(self, *args):
        """Converts the function's arguments to values for the placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out):
        """Converts the output node's value to the function's result."""
        return self._codegen.process_outputs(out)

    def on_generate_code(self, make_transformer):
        """Transforms the generated lines: make_transformer(earlier transformer) returns a function
        from lines to lines.  Inside a `with` block only."""
        previous = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(previous)

        @contextlib.contextmanager
        def restore():
            try:
                yield
            finally:
                self._codegen._body_transformer = previous
        return restore()
