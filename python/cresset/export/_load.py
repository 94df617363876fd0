"""torch.export.load: an exported program from an archive of torch's format.

Nothing of the file is run.  Every field is checked when it is read, and each target is an operator of the table or of the
program, or arithmetic on sizes.
"""
import ast
import io
import json
import keyword
import math
import operator
import os
import warnings
import zipfile

import cresset

from .. import nn, serialization
from .._archive import PyTorchFileReader
from .._size_expr import Size, parse
from .._subclasses.fake_tensor import FakeTensorMode
from .._sym_int import symbolic
from ..fx import Graph, GraphModule
from ..fx.passes.shape_prop import _extract_tensor_metadata
from ..utils._pytree import treespec_loads
from ._constraints import FILE_TESTS, Condition
from ._fakes import make_fake, sparse_fake
from ._graph import add_placeholder
from ._schema import DTYPES, FORMATS, LAYOUTS, SCHEMA_VERSION, FormatError, named
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature, ValueRange
from .graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
                              SymBoolArgument, SymFloatArgument, SymIntArgument, TensorArgument)

# Functions of Python's module `operator` that a file may name.
_NUMBERS = {f.__name__: f for f in (
    operator.mul, operator.add, operator.sub, operator.floordiv, operator.truediv, operator.mod, operator.pow, operator.neg,
    operator.pos, operator.abs, operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge, operator.and_,
    operator.or_, operator.not_, operator.getitem)}
_FLOATS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}
_SYMBOLIC = {"as_sym_int": SymIntArgument, "as_sym_bool": SymBoolArgument, "as_sym_float": SymFloatArgument}


def _refuse(why):
    raise FormatError(f"torch.export.load: {why}")


def _get(x, key, kind):
    """A field of a kind."""
    if not isinstance(x, dict) or key not in x:
        _refuse(f"field '{key}' is missing")
    if not isinstance(x[key], kind) or isinstance(x[key], bool) and kind is int:
        _refuse(f"field '{key}' is a {type(x[key]).__name__}")
    return x[key]


def _name(x):
    """A name that generated code may have."""
    if not (isinstance(x, str) and x.isidentifier() and not keyword.iskeyword(x)):
        _refuse(f"{str(x)[:50]!r} is no name of a value")
    return x


def _path(x):
    """The path of a tensor, which generated code has in quotes where it is no identifier."""
    if not isinstance(x, str) or not x or any(c in x for c in "\"'\\\n\r{}") or not all(x.split(".")):
        _refuse(f"{str(x)[:50]!r} is no path of a tensor")
    return x


def _one(x):
    """(tag, value) of a union: {"as_int": 3}."""
    found = [(k, v) for k, v in x.items() if v is not None or k == "as_none"] if isinstance(x, dict) else []
    if len(found) != 1:
        _refuse(f"not one of the kinds of an argument: {str(x)[:100]}")
    return found[0]


# --- values ---

def _number(x):
    """(Size, value in the example inputs) of a size."""
    tag, value = _one(x)
    if tag == "as_int" and type(value) is int:
        return Size.of(value), value
    if tag != "as_expr":
        _refuse(f"not a size: {str(x)[:100]}")
    hint = value.get("hint") or {}
    try:
        expr = parse(_get(value, "expr_str", str))
    except ValueError as error:
        _refuse(str(error))
    return expr, hint.get("as_int", 2) if isinstance(hint, dict) else 2


def _parsed(text):
    try:
        return parse(text)
    except ValueError as error:
        _refuse(str(error))


def _condition(text):
    """The Condition of a text of a file; None for other truth values, which are not comparisons of two expressions."""
    try:
        tree = ast.parse(text[:10000], mode="eval").body
    except (SyntaxError, RecursionError, MemoryError, ValueError):
        return _refuse(f"not a condition over sizes: {text[:100]!r}")
    test = {name: test for test, name in FILE_TESTS.items()}.get(getattr(getattr(tree, "func", None), "id", None))
    if test is None or len(tree.args) != 2:
        return None
    return Condition(_parsed(ast.unparse(tree.args[0])), test, _parsed(ast.unparse(tree.args[1])))


def _device(x):
    kind, index = _get(x, "type", str), x.get("index")
    try:
        return cresset.device(kind if index is None else f"{kind}:{index}")
    except (RuntimeError, TypeError) as error:
        _refuse(str(error))


def _kind_of(meta):
    """(dtype, sizes, strides, device, requires_grad) and the sizes' Sizes."""
    sizes, strides = [_number(n) for n in _get(meta, "sizes", list)], [_number(n) for n in _get(meta, "strides", list)]
    if len(sizes) != len(strides) or len(sizes) > 64:
        _refuse("a tensor has as many strides as sizes, at most 64")
    hints = [n for _, n in sizes]
    if any(not 0 <= n < 2 ** 62 for n in [*hints, *(n for _, n in strides)]):
        _refuse("a size or stride is negative or too large")
    named(LAYOUTS, _get(meta, "layout", int), "layout")
    kind = (named(DTYPES, _get(meta, "dtype", int), "dtype"), hints, [n for _, n in strides],
            _device(_get(meta, "device", dict)), bool(meta.get("requires_grad")))
    return kind, [e for e, _ in sizes]


def _float(x):
    if isinstance(x, str):
        return _FLOATS[x] if x in _FLOATS else _refuse(f"not a number: {x[:20]!r}")
    return float(x) if isinstance(x, (int, float)) else _refuse("not a number")


_PLAIN = {"as_none": lambda v: None, "as_int": int, "as_float": _float, "as_string": str, "as_bool": bool,
          "as_complex": lambda v: complex(_float(v["real"]), _float(v["imag"])), "as_device": _device,
          "as_scalar_type": lambda v: named(DTYPES, v, "dtype"), "as_layout": lambda v: named(LAYOUTS, v, "layout"),
          "as_memory_format": lambda v: named(FORMATS, v, "memory format"), "as_ints": lambda v: list(map(int, v)),
          "as_bools": lambda v: list(map(bool, v)), "as_strings": lambda v: list(map(str, v)),
          "as_floats": lambda v: list(map(_float, v)), "as_operator": str,
          "as_int_lists": lambda v: [list(map(int, x)) for x in v]}


def _target(name):
    """The function that a node calls."""
    parts = name.split(".")
    if parts[:2] == ["torch", "ops"] and len(parts) in (4, 5):
        try:
            found = getattr(cresset.ops, parts[2])
            for part in parts[3:]:
                found = getattr(found, part)
            return found
        except AttributeError:
            _refuse(f"operator {name.removeprefix('torch.ops.')} is not known; an operator of a program must be defined before "
                    "the file is read")
    if parts[0] in ("_operator", "operator") and len(parts) == 2 and parts[1] in _NUMBERS:
        return _NUMBERS[parts[1]]
    if name in ("torch.sym_max", "torch.sym_min", "torch.sym_float", "torch.sym_int", "torch.sym_not", "torch.sym_ite",
                "torch.sym_sqrt", "torch._sym_sqrt"):
        return getattr(cresset, parts[1].lstrip("_"))
    if name in ("math.floor", "math.ceil", "math.trunc"):
        return getattr(math, parts[1])
    if name in ("round", "builtins.round"):
        return round
    _refuse(f"target {name[:100]!r} is no operator")


class _GraphReader:
    """Builds a graph from its JSON."""

    def __init__(self, found, mode, constants=()):
        self.found, self.mode = found, mode
        self.graph, self.env, self.modules = Graph(), {}, {}
        self.tensors, self.numbers = _get(found, "tensor_values", dict), found.get("sym_int_values") or {}
        self.constants = list(constants)  # (name, value) of inputs that are no tensors

    def fake(self, name):
        meta = self.tensors[name]
        kind, exprs = _kind_of(meta)
        layout = named(LAYOUTS, meta["layout"], "layout")
        if layout == cresset.strided:
            return make_fake(self.mode, kind, exprs)
        if layout != cresset.sparse_coo:
            _refuse(f"a tensor of the layout {layout}")
        dtype, sizes, _, device, _ = kind
        return sparse_fake(self.mode, dtype, sizes, device)

    def describe(self, node, name):
        if name in self.tensors:
            node.meta["val"] = self.fake(name)
            node.meta["tensor_meta"] = _extract_tensor_metadata(node.meta["val"])
        elif name in self.numbers:
            node.meta["val"] = symbolic(*_number(self.numbers[name]))
        elif name in (self.found.get("sym_float_values") or {}):
            tag, value = _one(self.found["sym_float_values"][name])
            node.meta["val"] = _float(value if tag == "as_float" else (value.get("hint") or {}).get("as_float", 1.0))
            if tag == "as_expr":
                node.meta["expr"] = _parsed(_get(value, "expr_str", str))
        elif name in (self.found.get("sym_bool_values") or {}):
            tag, value = _one(self.found["sym_bool_values"][name])
            node.meta["val"] = value is True if tag == "as_bool" else True
            condition = _condition(_get(value, "expr_str", str)) if tag == "as_expr" else None
            if condition is not None:
                node.meta["condition"] = condition
        return node

    def keep(self, name, node):
        if _name(name) in self.env:
            _refuse(f"value '{name}' is made twice")
        self.env[name] = self.describe(node, name)

    def value(self, name):
        if name not in self.env:
            _refuse(f"value '{name}' is used before it is made")
        return self.env[name]

    def argument(self, x):
        tag, value = _one(x)
        if tag == "as_tensor":
            return self.value(_get(value, "name", str))
        if tag in ("as_tensors", "as_optional_tensors", "as_nested_tensors"):
            return [self._item(item) for item in value]
        if tag in _SYMBOLIC:
            return self._symbol(value)
        if tag in ("as_sym_ints", "as_sym_bools", "as_sym_floats"):
            return [self._symbol(item) for item in value]
        if tag == "as_graph":
            return self.nested(value)
        if tag not in _PLAIN:
            _refuse(f"an argument of kind {tag}")
        try:
            return _PLAIN[tag](value)
        except (TypeError, KeyError, ValueError, AttributeError):
            _refuse(f"an argument of kind {tag} with a value of another kind")

    def _item(self, item):
        if isinstance(item, dict) and "as_none" in item:
            return None
        if isinstance(item, list):
            return [self._item(x) for x in item]
        return self.value(_get(item.get("as_tensor", item) if isinstance(item, dict) else {}, "name", str))

    def _symbol(self, item):
        tag, value = _one(item)
        if tag == "as_name":
            return self.value(value)
        return value if isinstance(value, (int, float)) else _refuse("a size is neither a number nor a name")

    def nested(self, value):
        name = _name(_get(value, "name", str))
        reader = _GraphReader(_get(value, "graph", dict), self.mode)
        self.modules[name] = reader.module()
        return self.graph.create_node("get_attr", name, name=name)

    # --- nodes ---

    def placeholders(self):
        constants = iter(self.constants)
        for x in _get(self.found, "inputs", list):
            tag, value = _one(x)
            if tag == "as_tensor" or tag in _SYMBOLIC:
                name = _name(value["name"] if tag == "as_tensor" else value["as_name"])
                self.keep(name, add_placeholder(self.graph, name))
                continue
            name, constant = next(constants, (None, None))
            if name is None:
                _refuse("a constant input has no name in the signature")
            if _name(name) in self.env:
                _refuse(f"value '{name}' is made twice")
            node = add_placeholder(self.graph, name)
            node.meta["val"] = constant
            self.env[name] = node

    def call(self, x):
        target = _target(_get(x, "target", str))
        schema = getattr(target, "_schema", None)
        keyword = {a.name for a in schema.arguments if a.kwarg_only} if schema is not None else set()
        args, kwargs = [], {}
        for given in _get(x, "inputs", list):
            name, kind = _get(given, "name", str), given.get("kind")
            value = self.argument(_get(given, "arg", dict))
            value = tuple(value) if isinstance(value, list) and schema is None and len(args) > getattr(target, "lists", 0) else value
            if kind == 2 or kind is None and name in keyword:
                kwargs[name] = value
            else:
                args.append(value)
        outputs = [_one(o) for o in _get(x, "outputs", list)]
        self.results(x, target, tuple(args), kwargs, outputs)

    def results(self, x, target, args, kwargs, outputs):
        schema = getattr(target, "_schema", None)
        is_list = bool(outputs) and outputs[0][0] == "as_tensors"
        single = len(outputs) == 1 and not is_list and not (schema is None and not _is_number(target))
        name = x.get("name") or (outputs[0][1]["name"] if single and outputs[0][0] == "as_tensor" else None)
        name = name if name is None else _name(name)
        node = self.graph.create_node("call_function", target, args, kwargs, name=name)
        node.meta.update(_metadata(x.get("metadata") or {}))
        if single:
            tag, value = outputs[0]
            self.keep(value["as_name"] if tag in _SYMBOLIC else _get(value, "name", str), node)
            return
        items = [item["name"] for item in outputs[0][1]] if is_list else \
            [value["as_name"] if tag in _SYMBOLIC else _get(value, "name", str) for tag, value in outputs]
        vals = []
        for k, item in enumerate(items):
            vals.append(self.fake(item) if item in self.tensors else None)
            if f"_unused_{k}" not in item:
                made = self.graph.create_node("call_function", operator.getitem, (node, k), {}, name=_name(item))
                made.meta.update(node.meta)
                self.keep(item, made)
                vals[-1] = made.meta.get("val", vals[-1])
        node.meta["val"] = vals if is_list else tuple(vals) if items else None

    def module(self, name="GraphModule"):
        self.placeholders()
        for x in _get(self.found, "nodes", list):
            self.call(x)
        outputs = tuple(self.argument(x) for x in _get(self.found, "outputs", list))
        self.graph.output(outputs[0] if self.found.get("is_single_tensor_return") is True and len(outputs) == 1 else outputs)
        self.graph.lint()
        return GraphModule(self.modules, self.graph, name)


def _is_number(target):
    return getattr(target, "__module__", "") in ("_operator", "math", "builtins") or \
        getattr(target, "__name__", "").startswith("sym_")


def _custom(found):
    """The metadata that the program's user added; a text of another form is left out."""
    try:
        return {"custom": json.loads(found["custom"])}
    except (KeyError, TypeError, ValueError, RecursionError):
        return {}


def _metadata(found):
    """The metadata of a node; fields of another form are left out."""
    out = _custom(found)
    if isinstance(found.get("stack_trace"), str):
        out["stack_trace"] = found["stack_trace"]
    if isinstance(found.get("torch_fn"), str) and ";" in found["torch_fn"]:
        out["torch_fn"] = tuple(found["torch_fn"].split(";", 1))
    if isinstance(found.get("nn_module_stack"), str):
        parts = [entry.split(",") for entry in found["nn_module_stack"].split(";")]
        if all(len(p) >= 3 for p in parts):
            out["nn_module_stack"] = {p[0]: (p[1], ",".join(p[2:])) for p in parts}
    return out


# --- the signature ---

def _spec_argument(x):
    tag, value = _one(x)
    if tag == "as_tensor":
        return TensorArgument(_get(value, "name", str))
    if tag in _SYMBOLIC:
        return _SYMBOLIC[tag](_get(value, "as_name", str))
    return ConstantArgument("", _GraphReader({"tensor_values": {}}, None).argument(x))


def _input_spec(x):
    tag, value = _one(x)
    if tag == "user_input":
        return InputSpec(InputKind.USER_INPUT, _spec_argument(_get(value, "arg", dict)), None)
    if tag == "constant_input":
        arg = _spec_argument(_get(value, "value", dict))
        return InputSpec(InputKind.USER_INPUT, ConstantArgument(_get(value, "name", str), arg.value), None)
    arg = TensorArgument(_get(_get(value, "arg", dict), "name", str))
    if tag == "parameter":
        return InputSpec(InputKind.PARAMETER, arg, _path(_get(value, "parameter_name", str)))
    if tag == "buffer":
        return InputSpec(InputKind.BUFFER, arg, _path(_get(value, "buffer_name", str)), bool(value.get("persistent", True)))
    if tag == "tensor_constant":
        return InputSpec(InputKind.CONSTANT_TENSOR, arg, _path(_get(value, "tensor_constant_name", str)))
    _refuse(f"an input of kind {tag}")


_OUTPUTS = {"buffer_mutation": (OutputKind.BUFFER_MUTATION, "buffer_name"),
            "parameter_mutation": (OutputKind.PARAMETER_MUTATION, "parameter_name"),
            "user_input_mutation": (OutputKind.USER_INPUT_MUTATION, "user_input_name"),
            "gradient_to_parameter": (OutputKind.GRADIENT_TO_PARAMETER, "parameter_name"),
            "gradient_to_user_input": (OutputKind.GRADIENT_TO_USER_INPUT, "user_input_name")}


def _output_spec(x):
    tag, value = _one(x)
    if tag == "user_output":
        return OutputSpec(OutputKind.USER_OUTPUT, _spec_argument(_get(value, "arg", dict)), None)
    arg = TensorArgument(_get(_get(value, "arg", dict), "name", str))
    if tag == "loss_output":
        return OutputSpec(OutputKind.LOSS_OUTPUT, arg, None)
    if tag not in _OUTPUTS:
        _refuse(f"an output of kind {tag}")
    kind, key = _OUTPUTS[tag]
    return OutputSpec(kind, arg, _get(value, key, str))


def _call_entry(x):
    found = x.get("signature")
    if found is None:
        return ModuleCallEntry(_get(x, "fqn", str))
    try:
        in_spec, out_spec = treespec_loads(_get(found, "in_spec", str)), treespec_loads(_get(found, "out_spec", str))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        _refuse(f"the tree of a module's arguments: {error}")
    if in_spec.num_children == 2 and in_spec.child(1).type is dict:
        for key in in_spec.child(1).context:
            _name(key)
    names = found.get("forward_arg_names")
    if names is not None and not (isinstance(names, list) and all(isinstance(n, str) and n.isidentifier() for n in names)):
        _refuse("the names of arguments are no names")
    return ModuleCallEntry(_get(x, "fqn", str), ModuleCallSignature(
        list(map(_spec_argument, found.get("inputs") or [])), list(map(_spec_argument, found.get("outputs") or [])), in_spec, out_spec, names))


# --- tensors ---

def _tensor(reader, folder, entry, known):
    """The tensor of an entry of a config; tensors with one record share a storage."""
    kind, _ = _kind_of(_get(entry, "tensor_meta", dict))
    dtype, sizes, strides, device, grad = kind
    offset = _number(entry["tensor_meta"].get("storage_offset") or {"as_int": 0})[1]
    path = f"data/{folder}/{_get(entry, 'path_name', str)}"
    if entry.get("use_pickle"):
        found = serialization.load(io.BytesIO(reader.get_record(path)), weights_only=True)
        return nn.Parameter(found, grad) if entry.get("is_param") else found
    if path not in known:
        known[path] = bytearray(reader.get_record(path))
    content = known[path]
    least = offset + sum((n - 1) * s for n, s in zip(sizes, strides)) + 1 if all(sizes) else 0
    if offset < 0 or least * dtype.itemsize > len(content):
        _refuse(f"{path} has {len(content)} bytes, too few for its tensor")
    if not content or not all(sizes):
        made = cresset.empty_strided(sizes, strides, dtype=dtype)
    else:
        whole = cresset.frombuffer(content, dtype=cresset.uint8)
        made = cresset.empty(0, dtype=dtype).set_(whole.untyped_storage(), offset, sizes, strides)
    made = made.to(device) if device.type != "cpu" else made
    return nn.Parameter(made, grad) if entry.get("is_param") else made.requires_grad_(grad)


def _tensors(reader, folder, what, model):
    name = f"data/{folder}/{model}_{what}_config.json"
    if not reader.has_record(name):
        return {}
    config, known = _get(_json(reader, name), "config", dict), {}
    return {key: _tensor(reader, folder, entry, known) for key, entry in config.items()}


def _all_tensors(reader, model):
    try:
        return _tensors(reader, "weights", "weights", model), _tensors(reader, "constants", "constants", model)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, ValueError, AssertionError) as error:
        raise FormatError(f"torch.export.load: a field has another form than expected: {error}") from error


def _json(reader, name):
    return parse_model(reader.get_record(name), name)


def parse_model(text, name="the program"):
    """The content of a JSON text of the format."""
    try:
        return json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        _refuse(f"{name} is no JSON text: {error}")


# --- the program ---

def _version(found):
    version = _get(found, "schema_version", dict)
    if version.get("major") != SCHEMA_VERSION["major"]:
        raise FormatError(f"Serialized schema version {version.get('major')}.{version.get('minor')} does not match our current schema "
                          f"version {SCHEMA_VERSION['major']}.{SCHEMA_VERSION['minor']}.")


def _ranges(found):
    out = {}
    for text, bounds in (found.get("range_constraints") or {}).items():
        try:
            low, high = bounds.get("min_val"), bounds.get("max_val")
            out[parse(text)] = ValueRange(None if low is None else int(low), None if high is None else int(high))
        except (ValueError, AttributeError, TypeError) as error:
            _refuse(f"range of {text[:50]!r}: {error}")
    return out


def _check_state(signature, graph, state, constants):
    placeholders = [n.name for n in graph.nodes if n.op == "placeholder"]
    if placeholders != [s.arg.name for s in signature.input_specs]:
        _refuse("the graph's inputs are not those of its signature")
    for spec in signature.input_specs:
        if spec.target is not None and spec.target not in state and spec.target not in constants:
            _refuse(f"the file has no tensor '{spec.target}'")


def _check_root(entries, signature, graph):
    """The program's own call has as many arguments and results as its signature, and writes what it has."""
    root = entries[0].signature if entries else None
    if root is None:
        _refuse("the program's call has no signature")
    spec, names = root.in_spec, root.forward_arg_names
    if spec.num_children != 2 or spec.child(0).type is not tuple or spec.child(1).type is not dict:
        _refuse("the program's arguments are no tuple and dict")
    count = spec.child(0).num_children + spec.child(1).num_children
    if names and (len(names) != count or len(set(names)) != count or any(map(keyword.iskeyword, names))):
        _refuse(f"the program's call has {count} arguments and the names {names}")
    users = [s.arg.name for s in signature.input_specs if s.kind == InputKind.USER_INPUT]
    if spec.num_leaves != len(users) or root.out_spec.num_leaves != sum(s.kind == OutputKind.USER_OUTPUT for s in signature.output_specs):
        _refuse("the program's call has another number of arguments or results than its signature")
    if len(signature.output_specs) != len(list(graph.nodes)[-1].args[0]):
        _refuse("the graph's results are not those of its signature")
    targets = {s.target for s in signature.input_specs if s.target is not None}
    for s in signature.output_specs:
        known = {OutputKind.BUFFER_MUTATION: targets, OutputKind.PARAMETER_MUTATION: targets, OutputKind.USER_INPUT_MUTATION: users}
        if s.target not in known.get(s.kind, (s.target,)):
            _refuse(f"the program writes '{s.target}', which it does not have")


def _examples(reader, model):
    name = f"data/sample_inputs/{model}.pt"
    if not reader.has_record(name) or not reader.get_record(name):
        return None
    try:
        return serialization.load(io.BytesIO(reader.get_record(name)), weights_only=True)
    except Exception as error:
        warnings.warn(f"torch.export.load: the example inputs are left out: {error}", stacklevel=2)
        return None


def program_of(found, state, values, examples):
    """The program of the fields `found`.  state: parameters and saved buffers; values: the other tensors; examples: the example
    inputs or None."""
    try:
        return _program(found, state, values, examples)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, ValueError, AssertionError) as error:
        raise FormatError(f"torch.export.load: a field has another form than expected: {error}") from error


def _program(found, state, values, examples):
    _version(found)
    body = _get(found, "graph_module", dict)
    specs = _get(body, "signature", dict)
    signature = ExportGraphSignature(list(map(_input_spec, _get(specs, "input_specs", list))),
                                     list(map(_output_spec, _get(specs, "output_specs", list))))
    constants = [(s.arg.name, s.arg.value) for s in signature.input_specs if isinstance(s.arg, ConstantArgument)]
    module = _GraphReader(_get(body, "graph", dict), FakeTensorMode(), constants).module()
    module.meta.update(_custom(body.get("metadata") or {}))
    _check_state(signature, module.graph, state, values)
    dialect = (found.get("verifiers") or ["TRAINING"])[0]
    calls = list(map(_call_entry, _get(body, "module_call_graph", list)))
    _check_root(calls, signature, module.graph)
    return ExportedProgram(module, module.graph, signature, state, _ranges(found), calls, examples, values,
                           guards_code=[g for g in found.get("guards_code") or [] if isinstance(g, str)], dialect=dialect)


def _check_version(found):
    """Refuses files of the format before archives, which have their version in no folder, in torch's words."""
    if found is None:
        return
    version = found[:100].decode("utf-8", "replace").split(".")
    if version[0] != str(SCHEMA_VERSION["major"]):
        raise RuntimeError(f"Serialized version {version} does not match our current schema version "
                           f"{tuple(SCHEMA_VERSION.values())}.")
    _refuse("the file has the format of torch before 2.8")


def load(f, *, extra_files=None, expected_opset_version=None):
    """Reads an exported program that save() or torch 2.13 wrote.

        f            a path, or an open binary file
        extra_files  {name: ""}: gets the texts of these further records

    expected_opset_version is accepted without effect: operators are found by their names.
    """
    if isinstance(f, (str, os.PathLike)):
        f = os.fspath(f)
        if not f.endswith(".pt2"):
            warnings.warn(f"Expect archive file to be a file ending in .pt2, or is a buffer. Instead got {{{f}}}", stacklevel=2)
        with open(f, "rb"):  # its errors name the file
            pass
    elif not hasattr(f, "tell"):
        raise AttributeError(f"{type(f).__name__!r} object has no attribute 'tell'")
    if not zipfile.is_zipfile(f):
        raise zipfile.BadZipFile("File is not a zip file")
    reader = PyTorchFileReader(f)
    _check_version(reader.get_beside("version"))
    if not reader.has_record("models/model.json"):
        _refuse("the archive has no models/model.json")
    program = program_of(_json(reader, "models/model.json"), *_all_tensors(reader, "model"), _examples(reader, "model"))
    for name in extra_files or {}:
        if reader.has_record(f"extra/{name}"):
            extra_files[name] = reader.get_record(f"extra/{name}").decode("utf-8")
    return program
