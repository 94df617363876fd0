"""torch.onnx.export()."""
import copy
import os
import warnings

from .. import Tensor, bfloat16, nn
from ..export import Dim, ExportedProgram, export as _export_program
from ..export._inputs import leaves_of
from ..export.dynamic_shapes import _DimHint, dim_specs
from ..export.exported_program import refuse_parts
from ..utils._pytree import tree_flatten, tree_unflatten
from . import OnnxExporterError
from ._program import ONNXProgram, check_name


def _module_of(model):
    if isinstance(model, nn.Module):
        return model
    if callable(model):
        class Called(nn.Module):
            def forward(self, *args, **kwargs):
                return model(*args, **kwargs)
        return Called()
    raise TypeError(f"torch.onnx.export: the model is a module or an ExportedProgram, not {type(model).__name__}")


class _Named(_DimHint):
    """Dim.AUTO with the name that the file has."""


def _named(name):
    check_name(name, "a dim")
    hint = _Named(Dim.AUTO.type)
    object.__setattr__(hint, "name", name)
    return hint


def _from_axes(axes, args, kwargs, input_names, output_names):
    """dynamic_shapes for dynamic_axes; a leaf of args and kwargs is an argument if it is a tensor."""
    leaves, spec = tree_flatten((args, kwargs))
    tensors = [k for k, x in enumerate(leaves) if isinstance(x, Tensor)]
    unknown = [name for name in axes if name not in input_names and name not in output_names]
    if unknown:
        raise ValueError(f"dynamic_axes: {unknown[0]!r} is no name of input_names or output_names")
    shapes = [None] * len(leaves)
    for name, k in zip(input_names, tensors):
        dims = axes.get(name, {})
        if isinstance(dims, (list, tuple)):
            dims = {d: f"{name}_dynamic_axes_{i + 1}" for i, d in enumerate(dims)}
        ndim = leaves[k].dim()
        for d in dims:
            if not -ndim <= d < ndim:
                raise ValueError(f"dynamic_axes: {name!r} has {ndim} dims, and no dim {d}")
        shapes[k] = {d % ndim: _named(str(text)) for d, text in dims.items()}
    positional, keyword = tree_unflatten(shapes, spec)
    return positional, keyword


def _dynamic(shapes):
    """dynamic_shapes in which names are sizes that may vary."""
    def one(x):
        return _named(x) if isinstance(x, str) else x

    def walk(x):
        if isinstance(x, dict):
            return {k: walk(v) for k, v in x.items()}
        return type(x)(map(walk, x)) if isinstance(x, (list, tuple)) else one(x)
    return walk(shapes)


def _stated_names(module, args, kwargs, dynamic_shapes):
    """{dim: name} of each leaf of the arguments."""
    leaves = leaves_of(module, args, kwargs)[0]
    names, place = [{} for _ in leaves], {id(leaf): k for k, leaf in enumerate(leaves)}
    for spec in dim_specs(module, args, kwargs, leaves, dynamic_shapes):
        name = spec.spec.__name__ if isinstance(spec.spec, Dim) else getattr(spec.spec, "name", None)
        names[place[id(spec.leaf)]][spec.dim] = name
    return names


def _dim_names(program, names):
    """{symbol: name}: names[k] are those of the dims of the k-th argument."""
    from ..export.graph_signature import InputKind
    out, nodes = {}, [n for n in program.graph.nodes if n.op == "placeholder"]
    users = [n for n, s in zip(nodes, program.graph_signature.input_specs) if s.kind == InputKind.USER_INPUT]
    for node, dims in zip(users, names):
        for d, name in dims.items():
            size = node.meta["val"].shape[d] if isinstance(node.meta.get("val"), Tensor) and d < len(node.meta["val"].shape) else None
            if name and hasattr(size, "node") and size.node.expr.is_symbol:
                out.setdefault(size.node.expr.name, name)
    return out


def _by_parameter(model, positional, keyword):
    """dynamic_shapes by the names of forward's parameters."""
    import inspect
    parameters = list(inspect.signature(model.forward).parameters.values())
    out, left = {}, list(positional)
    for p in parameters:
        if p.kind == p.VAR_POSITIONAL:
            out[p.name] = tuple(left)
            left = []
        elif left and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            out[p.name] = left.pop(0)
    rest = next((p.name for p in parameters if p.kind == p.VAR_KEYWORD), None)
    known = {p.name for p in parameters}
    for name, value in keyword.items():
        if name in known or rest is None:
            out[name] = value
        else:
            out.setdefault(rest, {})[name] = value
    return out


def _captured(model, args, kwargs, dynamic_shapes, axes, input_names, output_names):
    """The exported program, and the names of its dims that vary."""
    if isinstance(model, ExportedProgram):
        refuse_parts(model, "torch.onnx.export")
        return model, {}
    module = _module_of(model)
    if axes and dynamic_shapes is None:
        dynamic_shapes = _by_parameter(module, *_from_axes(axes, args, kwargs, input_names, output_names))
    else:
        dynamic_shapes = _dynamic(dynamic_shapes)
    program = _export_program(module, args, kwargs, dynamic_shapes=dynamic_shapes, strict=False)
    return program, _dim_names(program, _stated_names(module, args, kwargs, dynamic_shapes))


def export(model, args=(), f=None, *, kwargs=None, verbose=None, input_names=None, output_names=None, opset_version=None, dynamo=True,
           external_data=True, dynamic_shapes=None, custom_translation_table=None, report=False, optimize=True, verify=False,
           profile=False, dump_exported_program=False, artifacts_dir=".", export_params=True, keep_initializers_as_inputs=False,
           dynamic_axes=None, training=None, operator_export_type=None, do_constant_folding=True, custom_opsets=None,
           export_modules_as_functions=False, autograd_inlining=True):
    """Exports a module, or an ExportedProgram, as a program of ONNX.  Returns an ONNXProgram; with f, writes it to this file.

        input_names, output_names  names in the file, in order; others are those of the arguments and of the operators
        opset_version              18 to 21
        dynamic_shapes             sizes that vary, as torch.export.export() takes them; a str is a name
        dynamic_axes               the same by names: {"x": {0: "batch"}}
        external_data              with f: weights are in a second file, f.data
        export_params              with f: False leaves weights out
        keep_initializers_as_inputs  with f: weights are inputs, too
        verify                     onnxruntime runs the file on the example, and the results are compared
        dynamo=False               the same file; f is needed, and nothing is returned

    verbose, optimize, do_constant_folding, report, profile, artifacts_dir and the options after them have no effect.
    custom_translation_table and custom_opsets are refused.

    Example::

        >>> file = io.BytesIO()
        >>> torch.onnx.export(nn.ReLU(), (torch.zeros(2),), dynamic_shapes=({0: "n"},)).save(file)
    """
    if custom_translation_table or custom_opsets:
        raise NotImplementedError("torch.onnx.export: custom_translation_table and custom_opsets are not supported")
    if dump_exported_program:
        raise NotImplementedError("torch.onnx.export: dump_exported_program is not supported; torch.export.save writes the program")
    if not dynamo and f is None:
        raise ValueError("torch.onnx.export: f is needed with dynamo=False")
    if not isinstance(args, (Tensor, tuple, list)):
        raise TypeError(f"torch.onnx.export: args is a tuple of the example's arguments, not {type(args).__name__}")
    for what, names in (("input_names", input_names), ("output_names", output_names)):
        if not isinstance(names, (list, tuple, type(None))):
            raise TypeError(f"torch.onnx.export: {what} is a list of str, not {names!r}")
    if not isinstance(dynamic_axes, (dict, type(None))):
        raise TypeError(f"torch.onnx.export: dynamic_axes is a dict, not {type(dynamic_axes).__name__}")
    if f is not None and not isinstance(f, (str, os.PathLike)) and not hasattr(f, "write"):
        raise TypeError(f"torch.onnx.export: f is a path or an open binary file, not {type(f).__name__}")
    args = (args,) if isinstance(args, Tensor) else tuple(args)
    if args and isinstance(args[-1], dict) and kwargs is None and not dynamo:
        args, kwargs = args[:-1], args[-1]
    kwargs = dict(kwargs or {})
    if dynamic_axes and dynamic_shapes is None and dynamo:
        warnings.warn("# 'dynamic_axes' is not recommended when dynamo=True, and may lead to 'torch._dynamo.exc.UserError: Constraints "
                      "violated.' Supply the 'dynamic_shapes' argument instead if export is unsuccessful.", UserWarning, stacklevel=2)
    program, names = _captured(model, args, kwargs, dynamic_shapes, dynamic_axes, list(input_names or ()), list(output_names or ()))
    made = ONNXProgram(program, input_names=input_names, output_names=output_names, opset_version=opset_version, dim_names=names)
    if f is not None:
        made.save(f, include_initializers=export_params, keep_initializers_as_inputs=keep_initializers_as_inputs,
                  external_data=external_data and dynamo)
    if verify:
        _verify(made, program, args, kwargs)
    return made if dynamo else None


def _verify(made, program, args, kwargs):
    from ..testing import assert_close
    if isinstance(args, tuple) and not args and not kwargs and program.example_inputs is not None:
        args, kwargs = program.example_inputs
    halves = "torch.onnx.export: verify=True cannot compare values of bfloat16, which NumPy's arrays cannot have"
    if any(isinstance(x, Tensor) and x.dtype is bfloat16 for x in tree_flatten((args, kwargs))[0]):
        raise TypeError(halves)
    made.initialize_inference_session()  # before the program writes its buffers
    module = copy.deepcopy(program.module())
    expected = [x for x in tree_flatten(module(*copy.deepcopy(args), **copy.deepcopy(kwargs)))[0] if isinstance(x, Tensor)]
    if any(x.dtype is bfloat16 for x in expected):
        raise TypeError(halves)
    for got, want in zip(made(*args, **kwargs), expected):
        try:
            assert_close(got, want.detach().cpu(), rtol=1e-3, atol=1e-4)
        except AssertionError as error:
            raise OnnxExporterError(f"torch.onnx.export: onnxruntime's results differ: {error}") from error
