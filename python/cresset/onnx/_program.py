"""ONNXProgram: an exported program and how it is written as a file of ONNX.

The operators are recorded again from the program's graph, with its sizes that vary as symbols; the file is a printing of
this recording (src/onnx).
"""
import ctypes
import os
import re
import warnings

import cresset

from .. import Tensor, _C
from .._size_expr import Size
from ..export._decompose import _Recording
from ..export._graph import samples_of
from ..export.exported_program import in_order, refuse_values
from ..export.graph_signature import InputKind, OutputKind
from ..utils._pytree import tree_leaves
from ..version import cresset as _version
from . import OnnxExporterError
from .errors import OnnxExporterWarning, UnsupportedOperatorError

_LARGE = 1536 << 20  # bytes of weights from which on they are in a second file
DEFAULT_OPSET, OPSETS = 20, range(18, 22)
_CHECKS = ("_assert_scalar", "_assert_async", "sym_constrain_range", "sym_constrain_range_for_size", "_assert_tensor_metadata")


def check_name(name, what):
    """Raises if a file cannot have this name."""
    if not isinstance(name, str):
        raise TypeError(f"torch.onnx.export: the name of {what} is a str, not {type(name).__name__}")
    if not name or "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
        raise ValueError(f"torch.onnx.export: {name!r} is no name of {what}")


def _source(node):
    """The operator of a node, and "file.py:12": the innermost line of the program that it comes from."""
    found = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    schema = getattr(node.target, "_schema", None)
    name = schema.name + (f".{schema.overload_name}" if schema.overload_name else "") if schema is not None else str(node.target)
    return f"{name}\t{':'.join(found[-1]) if found else 'no line is known'}"


def _is_check(node):
    return getattr(getattr(node.target, "_schema", None), "name", "").partition("::")[2] in _CHECKS


class _Recorded(_Recording):
    """The program's graph, recorded with the place in the program of each call."""

    def _run(self, table):
        from ..export._c_file import SizesInterpreter
        recorder = self.recorder

        class Again(SizesInterpreter):
            def run_node(self, n):
                recorder.at(_source(n))
                return None if n.op == "call_function" and _is_check(n) else super().run_node(n)
        recorder.start()
        try:
            with self.mode, cresset.no_grad():
                out = Again(self.program.graph_module).run(*self.values)
            self.results = tree_leaves(out)
        finally:
            recorder.stop()

    def finish(self, wanted):
        self.graph = self.recorder.finish(wanted)


def _node_name(program, node, spec):
    """The name of an input in the file: the parameter's name, or the argument's."""
    return node.name if spec.kind == InputKind.USER_INPUT else spec.target


class ONNXProgram:
    """What torch.onnx.export() returns: `save` writes the file, `exported_program` is what it was made from.

    Example::

        >>> program = torch.onnx.export(nn.Linear(2, 3), (torch.zeros(4, 2),), input_names=["x"])
        >>> program.input_names, program.output_names, len(program.model_bytes()) > 0
        (['x'], ['linear'], True)
    """

    def __init__(self, exported_program, *, input_names=None, output_names=None, opset_version=None, dim_names=None):
        self.exported_program = exported_program
        self.opset_version = DEFAULT_OPSET if opset_version is None else opset_version
        if type(self.opset_version) is not int or self.opset_version not in OPSETS:
            raise ValueError(f"opset_version is {OPSETS[0]} to {OPSETS[-1]}, not {self.opset_version!r}")
        for what, names in (("an input", input_names), ("a result", output_names)):
            for name in names or ():
                check_name(name, what)
        try:
            refuse_values(exported_program, "torch.onnx.export")
        except ValueError as error:
            raise OnnxExporterError(str(error)) from None
        self._dim_names = dict(dim_names or {})  # symbol -> name
        self._weights = dict(exported_program.state_dict)
        self._record(list(input_names or ()), list(output_names or ()))
        self._check_dim_names(self._dim_names)
        self.model_bytes()  # what cannot be written is an error of export()

    # --- recording ---

    def _record(self, input_names, output_names):
        program = self.exported_program
        recorded = _Recorded(program, {})
        specs = [s for s in program.graph_signature.output_specs]
        keep = [k for k, s in enumerate(specs) if s.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)]
        results = [recorded.results[k] for k in keep]
        self._kept = [k for k, x in enumerate(results) if x is not None]
        for x in results:
            if x is not None and not isinstance(x, Tensor):
                raise OnnxExporterError(f"torch.onnx.export: a result of the program is no tensor: {x!r}")
        recorded.finish([x for x in results if x is not None])
        self._graph, self._samples, self._hints = recorded.graph, self._choose_samples(recorded), recorded.hints
        self.input_names, self.output_names, self._inputs = [], [], []
        for node, spec in zip(recorded.nodes, program.graph_signature.input_specs):
            if node in recorded.places:
                self._inputs.append((node, spec))
        users = [node for node, spec in self._inputs if spec.kind == InputKind.USER_INPUT]
        self._check_names(input_names, users, "input")
        self._check_names(output_names, self._kept, "output")
        self.input_names = [*input_names, *(n.name for n in users[len(input_names):])]
        self._user_names = dict(zip(users, self.input_names))
        defaults = [specs[keep[k]].arg.name for k in self._kept]
        self.output_names = self._unique([*output_names, *defaults[len(output_names):]], len(output_names))

    def _unique(self, names, given):
        """Names of results, of which those that were not given differ from all others."""
        taken, out = {*self.input_names, *(_node_name(None, n, s) for n, s in self._inputs)}, []
        for k, name in enumerate(names):
            new, i = name, 0
            while k >= given and new in taken:
                i += 1
                new = f"{name}_{i}"
            taken.add(new)
            out.append(new)
        return out

    @staticmethod
    def _check_names(names, values, what):
        if len(names) > len(values):
            raise OnnxExporterError(f"Expected at most {len(values)} {what} names, but got {len(names)}: {names}")

    def _check_dim_names(self, names):
        """Raises for a name that a dim cannot have, and for one of two sizes that differ in the example."""
        sizes = {}
        for symbol, name in names.items():
            check_name(name, "a dim")
            size = self._hints.get(symbol)
            if size is not None and sizes.setdefault(name, size) != size:
                raise ValueError(f"torch.onnx.export: two dims are called {name!r}, but their sizes are {sizes[name]} and {size}")

    def _choose_samples(self, recorded):
        """Sizes with which the program runs, those of the example first."""
        known = recorded.expressions()
        if not known:
            return []
        bounds = {}
        for expr, (low, high) in self.exported_program.range_constraints.items():
            if expr.is_symbol:
                bounds[expr.name] = (max(low or 0, 2), high)
        return samples_of(recorded.graph, known, recorded.hints, bounds)

    # --- writing ---

    def _dims(self, node):
        """The name of each dim of an argument, None for a fixed size."""
        out = []
        for n in node.meta["val"].shape:
            expr = n.node.expr if hasattr(n, "node") else Size.of(n)
            out.append(None if expr.is_number else self._dim_names.get(str(expr), str(expr)))
        return tuple(out)

    def _written(self, weights=True, as_inputs=False, external=None):
        inputs = []
        for node, spec in self._inputs:
            if spec.kind == InputKind.USER_INPUT:
                inputs.append((self._user_names[node], None, self._dims(node)))
            else:
                value = self._weights[spec.target] if spec.target in self._weights else self.exported_program.constants[spec.target]
                inputs.append((spec.target, value.detach().cpu().contiguous(), None))
        try:
            return self._graph.onnx(self._samples, inputs, tuple(self.output_names),
                                    (self.opset_version, weights, as_inputs, external, _version))
        except NotImplementedError as error:
            name, _, reason = str(error).partition(" (")
            if re.fullmatch(r"\w+::[\w.]+", name):
                raise UnsupportedOperatorError(name, self.opset_version, reason=f"({reason}") from error
            raise OnnxExporterError(f"torch.onnx.export: {error}") from error

    def model_bytes(self):
        """The file without a second one."""
        return self._written()[0]

    def _size(self):
        return sum(x.numel() * x.element_size() for x in self._weights.values())

    def save(self, destination, *, include_initializers=True, keep_initializers_as_inputs=False, external_data=None):
        """Writes the file.  external_data: weights are in a second file, `destination`.data; so are those of 1.5 GB and more.

            include_initializers         False: the file has no weights
            keep_initializers_as_inputs  weights are inputs, too
        """
        external = None
        if external_data or self._size() > _LARGE:
            if not isinstance(destination, (str, os.PathLike)):
                raise TypeError("Saving the model to a file-like object is not supported when external_data is True or the model is "
                                "larger than 2GB; the destination must be a path")
            external = os.path.basename(os.fspath(destination)) + ".data"
        if not hasattr(destination, "write"):
            destination = os.fspath(destination)
        data, places = self._written(include_initializers, keep_initializers_as_inputs, external)
        if hasattr(destination, "write"):
            destination.write(data)
            return
        with open(destination, "wb") as file:
            file.write(data)
        if external is not None:
            with open(os.path.join(os.path.dirname(os.fspath(destination)), external), "wb") as file:
                for x, offset in places:
                    file.write(bytes(offset - file.tell()))
                    file.write((ctypes.c_char * (x.numel() * x.element_size())).from_address(x.data_ptr()))

    def apply_weights(self, state_dict):
        """Takes other values for parameters and buffers."""
        self.release()
        for name, value in state_dict.items():
            if name not in self._weights:
                warnings.warn(f"Weight '{name}' not found in the model. Skipped applying.", category=OnnxExporterWarning, stacklevel=2)
            elif value.shape != self._weights[name].shape or value.dtype != self._weights[name].dtype:
                raise ValueError(f"Weight '{name}' has the size {tuple(self._weights[name].shape)} and {self._weights[name].dtype}, not "
                                 f"{tuple(value.shape)} and {value.dtype}")
            else:
                self._weights[name] = value

    def rename_axes(self, rename_mapping):
        """Gives dims that vary other names: {old: new}."""
        names = {symbol: self._dim_names.get(symbol, symbol) for symbol in {**self._hints, **self._dim_names}}
        for old in rename_mapping:
            if str(old) not in (*names, *names.values()):
                warnings.warn(f"Axis '{old}' not found in the model. Skipped renaming.", category=OnnxExporterWarning, stacklevel=2)
        mapping = {str(old): new for old, new in rename_mapping.items()}
        new = {symbol: mapping.get(name, mapping.get(symbol, name)) for symbol, name in names.items()}
        self._check_dim_names(new)
        self._dim_names = new
        self.release()

    @property
    def model_proto(self):
        """The file as an onnx.ModelProto; needs the package onnx."""
        import onnx
        return onnx.load_model_from_string(self.model_bytes())

    def optimize(self):
        """Does nothing: equal nodes and constants, and values that nothing reads, are never written."""

    # --- running ---

    def initialize_inference_session(self, initializer=None):
        """Makes the session of onnxruntime that calls use."""
        self._session = (initializer or self._default_session)(self.model_bytes())

    @staticmethod
    def _default_session(model):
        import onnxruntime
        return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])

    _session = None

    def release(self):
        """Ends the session."""
        self._session = None

    def __call__(self, *args, **kwargs):
        """Calls the file by onnxruntime with the arguments of the exported module."""
        if self._session is None:
            self.initialize_inference_session()
        return self._call(lambda feed: self._session.run(None, feed), args, kwargs)

    def call_reference(self, *args, **kwargs):
        """Calls the file by the evaluator of the package onnx."""
        import onnx.reference
        return self._call(lambda feed: onnx.reference.ReferenceEvaluator(self.model_proto).run(None, feed), args, kwargs)

    def _in_order(self, args, kwargs):
        """(args, kwargs) as they were given to export(), by the names of forward's parameters."""
        signature = self.exported_program.module_call_graph[0].signature
        count = signature.in_spec.child(0).num_children
        positional = list(signature.forward_arg_names or [f"arg{i}" for i in range(count)])
        kwargs, args = dict(kwargs), list(args)
        while len(args) < count and positional[len(args)] in kwargs:
            args.append(kwargs.pop(positional[len(args)]))
        return in_order(signature.in_spec, tuple(args), kwargs)

    def _call(self, run, args, kwargs):
        leaves = tree_leaves(self._in_order(args, kwargs))
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        if len(tensors) != len(self.input_names):
            raise ValueError(f"the program takes {len(self.input_names)} tensors, not {len(tensors)}")
        for name, x in zip(self.input_names, tensors):
            if x.dtype is cresset.bfloat16:
                raise TypeError(f"the input {name!r} is bfloat16, which NumPy's arrays cannot have")
        out = run({name: x.detach().cpu().numpy() for name, x in zip(self.input_names, tensors)})
        return tuple(cresset.from_numpy(x) for x in out)

    def __repr__(self):
        return f"ONNXProgram(inputs={self.input_names}, outputs={self.output_names}, opset_version={self.opset_version})"
