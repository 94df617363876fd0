"""torch.export.save: an exported program as an archive of torch's format."""
import io
import json
import math
import operator
import os

import cresset

from .. import Tensor, serialization
from .._archive import PyTorchFileWriter
from ..fx import GraphModule
from ..utils._pytree import treespec_dumps
from ._schema import (DTYPES, FORMATS, LAYOUTS, OPSET_VERSION, SCHEMA_VERSION, TORCH_VERSION, FormatError, device_json,
                      number_of, target_name)
from .graph_signature import (ConstantArgument, InputKind, OutputKind, SymBoolArgument, SymFloatArgument,
                              SymIntArgument)

_OUTPUTS = {OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
            OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
            OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name"),
            OutputKind.GRADIENT_TO_PARAMETER: ("gradient_to_parameter", "parameter_name"),
            OutputKind.GRADIENT_TO_USER_INPUT: ("gradient_to_user_input", "user_input_name")}

_SYMBOLIC = {SymIntArgument: "as_sym_int", SymBoolArgument: "as_sym_bool", SymFloatArgument: "as_sym_float"}


def _float(x):
    return x if math.isfinite(x) else "Infinity" if x > 0 else "-Infinity" if x < 0 else "NaN"


def _size(n):
    """A size or stride: an int or an expression."""
    if hasattr(n, "node"):
        return {"as_expr": {"expr_str": n.node.expr.file_text(), "hint": {"as_int": int(n)}}}
    return {"as_int": int(n)}


def _expression(text):
    """An expression of which no example value is known."""
    return {"as_expr": {"expr_str": text, "hint": None}}


def tensor_meta(x, offset=0):
    """The description of a tensor."""
    if x.layout not in (cresset.strided, cresset.sparse_coo):
        raise NotImplementedError(f"torch.export.save: a tensor of the layout {x.layout} has no form in the file")
    return {"dtype": number_of(DTYPES, x.dtype), "sizes": [_size(n) for n in x.shape], "requires_grad": x.requires_grad,
            "device": device_json(x.device), "strides": [_size(n) for n in x.stride()], "storage_offset": {"as_int": offset},
            "layout": number_of(LAYOUTS, x.layout)}


# --- arguments ---

def _is_number_node(x):
    return hasattr(x, "meta") and not isinstance(x.meta.get("val"), (Tensor, list, tuple))


def _scalar(x):
    """An argument that is no tensor and no list."""
    if x is None:
        return {"as_none": True}
    if isinstance(x, bool):
        return {"as_bool": x}
    if isinstance(x, int):
        return {"as_int": int(x)}
    if isinstance(x, float):
        return {"as_float": _float(x)}
    if isinstance(x, complex):
        return {"as_complex": {"real": x.real, "imag": x.imag}}
    if isinstance(x, str):
        return {"as_string": x}
    for kind, key, table in ((cresset.dtype, "as_scalar_type", DTYPES), (cresset.layout, "as_layout", LAYOUTS),
                             (cresset.memory_format, "as_memory_format", FORMATS)):
        if isinstance(x, kind):
            return {key: number_of(table, x)}
    if isinstance(x, cresset.device):
        return {"as_device": device_json(x)}
    raise NotImplementedError(f"torch.export.save: an argument of type {type(x).__name__} has no form in the file")


def _number_kind(x):
    val = x.meta.get("val")
    return "as_sym_float" if isinstance(val, float) else "as_sym_bool" if isinstance(val, bool) else "as_sym_int"


def _node(x):
    if _is_number_node(x):
        return {_number_kind(x): {"as_name": x.name}}
    return {"as_tensor": {"name": x.name}}


def _list(items, kind):
    """A list: of tensors, perhaps with None among them, of numbers, or of truth values."""
    if any(hasattr(x, "meta") and not _is_number_node(x) for x in items):
        if any(x is None for x in items) or kind.startswith(("List[Optional", "Optional[List[Optional")):
            return {"as_optional_tensors": [{"as_none": True} if x is None else {"as_tensor": {"name": x.name}} for x in items]}
        return {"as_tensors": [{"name": x.name} for x in items]}
    if any(map(_is_number_node, items)):
        return {"as_sym_ints": [{"as_name": x.name} if hasattr(x, "meta") else {"as_int": int(x)} for x in items]}
    if "Tensor" in kind:
        return {"as_optional_tensors": [{"as_none": True} for _ in items]} if items else {"as_tensors": []}
    if any(isinstance(x, float) for x in items) or "float" in kind:
        return {"as_floats": [_float(float(x)) for x in items]}
    if items and all(isinstance(x, bool) for x in items):
        return {"as_bools": list(items)}
    if items and all(isinstance(x, str) for x in items):
        return {"as_strings": list(items)}
    return {"as_ints": [int(x) for x in items]}


def _argument(x, kind, program):
    if hasattr(x, "meta"):
        if x.op == "get_attr":
            module = getattr(program, x.target)
            if not isinstance(module, GraphModule):
                raise NotImplementedError(f"save: {x.target} is a part of the backend {module.backend_id}, which files do not have; save the "
                                          "program as it was before to_backend()")
            return {"as_graph": {"name": x.target, "graph": graph_json(module, nested=True)}}
        return _node(x)
    if isinstance(x, (list, tuple)):
        return _list(list(x), kind)
    if isinstance(x, int) and not isinstance(x, bool) and kind in ("float", "Optional[float]"):
        x = float(x)
    return _scalar(x)


def _named_inputs(node, module):
    """The arguments of a call with the names of the operator's schema."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        names = ["a", "b"] if target_name(node.target).startswith("_operator.") else [""] * len(node.args)
        return [{"name": name, "arg": _argument(x, "", module), "kind": 1} for name, x in zip(names, node.args)]
    kinds = {a.name: a.type for a in schema.arguments}
    out = [{"name": a.name, "arg": _argument(x, a.type, module), "kind": 1} for a, x in zip(schema.arguments, node.args)]
    return out + [{"name": key, "arg": _argument(x, kinds.get(key, ""), module), "kind": 2} for key, x in node.kwargs.items()]


def _outputs(node):
    """The names of a call's results, which are those of its getitem nodes."""
    val = node.meta.get("val")
    if not isinstance(val, (list, tuple)):
        return [] if val is None else [_node(node)]
    items = {user.args[1]: user for user in node.users if user.target is operator.getitem}
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return [_node(items[k]) if k in items else {"as_tensor": {"name": f"{node.name}_unused_{k}"}} for k in range(len(val))]
    names = [{"name": items[k].name if k in items else f"{node.name}_unused_{k}"} for k in range(len(val))]
    if len(schema.returns) == 1:
        return [{"as_tensors": names}]
    return [{"as_tensor": name} for name in names]


def _metadata(node):
    out = {}
    if node.meta.get("stack_trace"):
        out["stack_trace"] = node.meta["stack_trace"]
    if node.meta.get("nn_module_stack"):
        out["nn_module_stack"] = ";".join(f"{key},{path},{cls}" for key, (path, cls) in node.meta["nn_module_stack"].items())
    if node.meta.get("torch_fn"):
        out["torch_fn"] = ";".join(node.meta["torch_fn"])
    return {**out, **_custom(node.meta, f"node {node.name}")}


def _custom(meta, what):
    """The metadata that the program's user added, as a JSON text."""
    if not meta.get("custom"):
        return {}
    try:
        return {"custom": json.dumps(meta["custom"])}
    except (TypeError, ValueError) as error:
        raise FormatError(f"Failed to serialize custom metadata for {what} with error {error}") from error


def _is_item(node):
    return node.target is operator.getitem and isinstance(node.args[0].meta.get("val"), (list, tuple))


def graph_json(module, signature=None, nested=False):
    """A graph, and the graphs inside of it."""
    inputs, nodes, outputs, tensors, numbers, floats, truths, single = [], [], [], {}, {}, {}, {}, False
    constants = {s.arg.name: s.arg for s in signature.input_specs if isinstance(s.arg, ConstantArgument)} if signature else {}
    for node in module.graph.nodes:
        val = node.meta.get("val")
        if isinstance(val, Tensor):
            tensors[node.name] = tensor_meta(val)
        elif isinstance(val, (list, tuple)) and node.op == "call_function":
            named = {user.args[1] for user in node.users if user.target is operator.getitem}
            tensors.update({f"{node.name}_unused_{k}": tensor_meta(x) for k, x in enumerate(val)
                            if isinstance(x, Tensor) and k not in named})
        if node.op == "placeholder":
            inputs.append(_scalar(constants[node.name].value) if node.name in constants else _node(node))
        elif node.op == "output":
            single = not isinstance(node.args[0], (list, tuple))
            outputs = [_argument(x, "", module) for x in ([node.args[0]] if single else node.args[0])]
        elif node.op == "call_function":
            if _is_number_node(node):
                if _number_kind(node) == "as_sym_float":
                    expr = node.meta.get("expr")
                    floats[node.name] = {"as_float": _float(val)} if expr is None else _expression(expr.file_text())
                elif _number_kind(node) == "as_sym_bool":
                    condition = node.meta.get("condition")
                    truths[node.name] = {"as_bool": val} if condition is None else _expression(condition.file_text())
                elif _number_kind(node) == "as_sym_int" and val is not None:
                    numbers[node.name] = _size(val)
            if _is_item(node):
                continue
            whole = False if getattr(node.target, "namespace", "") == "higher_order" else None
            nodes.append({"target": target_name(node.target), "inputs": _named_inputs(node, module), "outputs": _outputs(node),
                          "metadata": _metadata(node), "is_hop_single_tensor_return": whole, "name": node.name})
    return {"inputs": inputs, "outputs": outputs, "nodes": nodes, "tensor_values": tensors, "sym_int_values": numbers,
            "sym_bool_values": truths, "is_single_tensor_return": single, "custom_obj_values": {}, "sym_float_values": floats}


# --- the signature ---

def _spec_argument(arg):
    if isinstance(arg, ConstantArgument):
        return _scalar(arg.value)
    kind = _SYMBOLIC.get(type(arg))
    return {kind: {"as_name": arg.name}} if kind else {"as_tensor": {"name": arg.name}}


def _input_spec(spec):
    arg, target = {"name": spec.arg.name}, spec.target
    if spec.kind == InputKind.PARAMETER:
        return {"parameter": {"arg": arg, "parameter_name": target}}
    if spec.kind == InputKind.BUFFER:
        return {"buffer": {"arg": arg, "buffer_name": target, "persistent": spec.persistent}}
    if spec.kind == InputKind.CONSTANT_TENSOR:
        return {"tensor_constant": {"arg": arg, "tensor_constant_name": target}}
    if isinstance(spec.arg, ConstantArgument):
        return {"constant_input": {"name": spec.arg.name, "value": _scalar(spec.arg.value)}}
    return {"user_input": {"arg": _spec_argument(spec.arg)}}


def _output_spec(spec):
    if spec.kind == OutputKind.USER_OUTPUT:
        return {"user_output": {"arg": _spec_argument(spec.arg)}}
    if spec.kind == OutputKind.LOSS_OUTPUT:
        return {"loss_output": {"arg": {"name": spec.arg.name}}}
    kind, key = _OUTPUTS[spec.kind]
    return {kind: {"arg": {"name": spec.arg.name}, key: spec.target}}


def _call_signature(signature):
    if signature is None:
        return None
    def named(args):
        return [_spec_argument(a) for a in args]
    return {"inputs": named(signature.inputs), "outputs": named(signature.outputs), "in_spec": treespec_dumps(signature.in_spec, 1),
            "out_spec": treespec_dumps(signature.out_spec, 1), "forward_arg_names": signature.forward_arg_names}


def _ranges(program):
    return {str(e): {"min_val": r.lower, "max_val": r.upper} for e, r in program.range_constraints.items()}


def program_json(program):
    """models/model.json"""
    signature = program.graph_signature
    return {"graph_module": {"graph": graph_json(program.graph_module, signature),
                             "signature": {"input_specs": list(map(_input_spec, signature.input_specs)),
                                           "output_specs": list(map(_output_spec, signature.output_specs))},
                             "module_call_graph": [{"fqn": e.fqn, "signature": _call_signature(e.signature)}
                                                   for e in program.module_call_graph],
                             "metadata": _custom(program.graph_module.meta, "graph"), "treespec_namedtuple_fields": {}},
            "opset_version": OPSET_VERSION, "range_constraints": _ranges(program), "schema_version": SCHEMA_VERSION,
            "verifiers": [program.dialect], "torch_version": TORCH_VERSION, "guards_code": list(program._guards_code)}


# --- tensors ---

def _bytes(x):
    """The bytes of a tensor's storage."""
    return bytes(x.detach().cpu().untyped_storage())


class _Payload:
    """The records of tensors, in which tensors that share a storage share a record."""

    def __init__(self, writer, folder, prefix, what):
        self.writer, self.folder, self.prefix, self.what = writer, folder, prefix, what
        self.config, self.known = {}, {}

    def add(self, name, x):
        key = cresset._C._storage_key(x) if x.numel() else (name,)
        if key not in self.known:
            self.known[key] = f"{self.prefix}{len(self.known)}"
            self.writer.write_record(f"data/{self.folder}/{self.known[key]}", _bytes(x))
        self.config[name] = {"path_name": self.known[key], "is_param": isinstance(x, cresset.nn.Parameter), "use_pickle": False,
                             "tensor_meta": tensor_meta(x, x.storage_offset())}

    def finish(self):
        self.writer.write_record(f"data/{self.folder}/model_{self.what}_config.json", json.dumps({"config": self.config}))


def _check_path(f, extra_files):
    if isinstance(f, (str, os.PathLike)):
        f = os.fspath(f)
        if not f.endswith(".pt2"):
            import warnings
            warnings.warn(f"Expect archive file to be a file ending in .pt2, or is a buffer. Instead got {{{f}}}", stacklevel=3)
    if extra_files is not None and not isinstance(extra_files, dict):
        raise TypeError(f"extra_files must be a dict, got {type(extra_files)}")
    for name, content in (extra_files or {}).items():
        if not isinstance(name, str) or not isinstance(content, (str, bytes)):
            raise AssertionError(f"Expected string but got {type(content if isinstance(name, str) else name)}")
    if isinstance(f, str) and not os.path.isdir(os.path.dirname(f) or "."):
        raise RuntimeError(f"Parent directory {os.path.dirname(f)} does not exist.")
    if not isinstance(f, str) and not hasattr(f, "write"):
        raise AttributeError(f"{type(f).__name__!r} object has no attribute 'write'")
    return f


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes an exported program to a file, which load() and torch 2.13 read.

        f            a path that ends in .pt2, or an open binary file
        extra_files  {name: text or bytes}: further records

    opset_version is accepted without effect: the file names the versions of the operators of torch 2.13.
    """
    from .exported_program import ExportedProgram
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead.")
    f = _check_path(f, extra_files)
    model = json.dumps(program_json(ep), allow_nan=False)
    writer = PyTorchFileWriter(f)
    weights = _Payload(writer, "weights", "weight_", "weights")
    for name, x in ep.state_dict.items():
        weights.add(name, x)
    weights.finish()
    constants = _Payload(writer, "constants", "tensor_", "constants")
    for name, x in ep.constants.items():
        constants.add(name, x)
    constants.finish()
    writer.write_record("models/model.json", model)
    if ep.example_inputs is not None:
        buffer = io.BytesIO()
        serialization.save(ep.example_inputs, buffer, pickle_protocol=pickle_protocol)
        writer.write_record("data/sample_inputs/model.pt", buffer.getvalue())
    for name, text in (extra_files or {}).items():
        writer.write_record(f"extra/{name}", text)
    writer.write_record("archive_format", "pt2")
    writer.write_record("archive_version", "0")
    writer.write_record(".data/version", "6\n")
    writer.write_record("byteorder", "little")
    writer.write_end_of_file()
