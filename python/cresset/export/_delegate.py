"""to_backend(): parts of a program as calls of a backend.

    lowered_module_0 = self.lowered_module_0
    executorch_call_delegate = torch.ops.higher_order.executorch_call_delegate(lowered_module_0, x)
    relu = executorch_call_delegate[0]
"""
import copy
import operator
from collections.abc import Iterable

from .. import Tag, Tensor, nn, ops, zeros
from ..fx import Node
from ..fx.passes.infra.partitioner import CapabilityBasedPartitioner
from ..fx.passes.operator_support import OperatorSupportBase
from ..fx.passes.utils.fuser_utils import fuse_by_partitions
from ..utils._pytree import tree_flatten
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, TensorArgument


class Backend(OperatorSupportBase):
    """Computes parts of programs.  A subclass defines its three methods and a name.

    A part is an ExportedProgram with functional operators: its arguments are tensors, its result is a tuple of tensors, and
    parameters, buffers and constants that it reads are its own.  Nodes that read sizes or numbers of the program are in no part.
    """

    name = None

    def is_node_supported(self, submodules, node):
        """Whether the backend computes a node; all nodes of operators are asked."""
        raise NotImplementedError

    def preprocess(self, program):
        """The bytes that a part becomes."""
        raise NotImplementedError

    def execute(self, data, *args):
        """The results of a call of a part, from the bytes that preprocess() returned for it."""
        raise NotImplementedError


class LoweredBackendModule(nn.Module):
    """A part that a backend computes.  Its copies have the same backend."""

    def __init__(self, backend, data, program, results):
        super().__init__()
        self.backend, self.processed_bytes, self.original_module = backend, data, program
        self.__dict__["_results"] = results

    @property
    def backend_id(self):
        return self.backend.name

    def __deepcopy__(self, memo):
        memo[id(self)] = made = LoweredBackendModule(self.backend, self.processed_bytes, copy.deepcopy(self.original_module, memo), self._results)
        return made.train(self.training)

    def forward(self, *args):
        out = self.backend.execute(self.processed_bytes, *args)
        if not isinstance(out, Iterable):
            raise RuntimeError(f"the backend {self.backend_id} returned {type(out).__name__} for a part that has {self._results} tensors")
        out = (out,) if isinstance(out, Tensor) else tuple(out)
        if len(out) != self._results or not all(isinstance(x, Tensor) for x in out):
            raise RuntimeError(f"the backend {self.backend_id} returned {len(out)} results of a part that has {self._results} tensors")
        return out


class _Support(OperatorSupportBase):
    """Nodes of functional operators that read and make tensors only, and which the backend computes."""

    def __init__(self, backend):
        self.backend = backend

    def is_node_supported(self, submodules, node):
        return node.op == "call_function" and node.target is not operator.getitem and \
            getattr(node.target, "namespace", "") != "higher_order" and not _is_mutable(node) and \
            all(isinstance(n.meta.get("val"), Tensor) for n in (node, *node.all_input_nodes)) and \
            bool(self.backend.is_node_supported(submodules, node))


def _is_mutable(node):
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and schema is not None and schema.is_mutable


def _writes(node):
    """Whether a node writes what other nodes read.  An operator like detach_() keeps the elements: it changes its argument alone."""
    return _is_mutable(node) and not (Tag.inplace_view in node.target.tags and all(len(n.users) == 1 for n in node.all_input_nodes))


def _check(program, backend):
    if not isinstance(program, ExportedProgram):
        raise TypeError(f"to_backend() takes an ExportedProgram, not {type(program).__name__}")
    if not isinstance(backend, Backend):
        raise TypeError(f"to_backend() takes a torch.export.Backend, not {type(backend).__name__}")
    if not isinstance(backend.name, str):
        raise TypeError(f"to_backend() takes a backend whose name is a text, and that of {type(backend).__name__} is {backend.name!r}")
    for node in program.graph.nodes:
        if _writes(node):
            raise ValueError(f"to_backend() takes programs with functional operators, and {node.target} writes an argument; "
                             "program.run_decompositions({}) has functional ones")


def _own_inputs(program):
    """{placeholder: spec} of the state that the program only reads; a part has it as its own."""
    written = {s.target for s in program.graph_signature.output_specs if s.kind != OutputKind.USER_OUTPUT}
    nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
    return {n.name: s for n, s in zip(nodes, program.graph_signature.input_specs)
            if s.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR) and s.target not in written}


def _example(fake):
    """Zeros of the sizes that the program was exported with."""
    return zeros([s.node.hint if hasattr(s, "node") else s for s in fake.shape], dtype=fake.dtype, device=fake.device)


def _part_program(program, part, own, args):
    """A part as a program.  args: the nodes of the whole program whose values are its arguments."""
    state, constants, specs = {}, {}, []
    placeholders = [n for n in part.graph.nodes if n.op == "placeholder"]
    for node, arg in zip(placeholders, args):
        spec = own.get(arg.name)
        if spec is None:
            specs.append(InputSpec(InputKind.USER_INPUT, TensorArgument(node.name), None))
            continue
        specs.append(InputSpec(spec.kind, TensorArgument(node.name), spec.target, spec.persistent))
        kept = state if spec.target in program.state_dict else constants
        kept[spec.target] = (program.state_dict if spec.target in program.state_dict else program.constants)[spec.target]
    results = part.graph.output_node().args[0]
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(n.name), None) for n in results]
    given = tuple(_example(n.meta["val"]) for n, s in zip(placeholders, specs) if s.kind == InputKind.USER_INPUT)
    entry = ModuleCallEntry("", ModuleCallSignature([], [], tree_flatten((given, {}))[1], tree_flatten(tuple(results))[1]))
    made = ExportedProgram(part, part.graph, ExportGraphSignature(specs, outputs), state, copy.deepcopy(program.range_constraints), [entry],
                           (given, {}), constants, dialect=program.dialect)
    return made, len(results)


def _replace(module, node, name, lowered, args):
    """Puts a call of the delegate for that of a submodule."""
    graph = module.graph
    delattr(module, node.target)
    module.add_module(name, lowered)
    with graph.inserting_before(node):
        call = graph.call_function(ops.higher_order.executorch_call_delegate, (graph.create_node("get_attr", name, name=name), *args),
                                   name="executorch_call_delegate")
    call.meta["val"] = node.meta["val"]
    node.replace_all_uses_with(call)
    graph.erase_node(node)


def to_backend(program, backend):
    """The program with the parts that a backend supports as calls of it: as few and as large parts as dependences allow.

    `program.run_decompositions({})` gives functional operators.  Parts without the backend are unchanged; the results of
    `module()` come from both.

    Example::

        >>> class Counts(torch.export.Backend):
        ...     name = "counts"
        ...     def is_node_supported(self, submodules, node):
        ...         return node.target is torch.ops.aten.relu.default
        ...     def preprocess(self, program):
        ...         return b"relu"
        ...     def execute(self, data, x):
        ...         return x.clamp(min=0)
        >>> program = torch.export.export(nn.ReLU(), (torch.zeros(2),))
        >>> torch.export.to_backend(program, Counts()).module()(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    _check(program, backend)
    module, own = copy.deepcopy(program.graph_module), _own_inputs(program)
    partitions = CapabilityBasedPartitioner(module, _Support(backend), allows_single_node_partition=True)
    parts = [p.nodes for p in partitions.propose_partitions()]
    graph = fuse_by_partitions(module, parts, prefix="part_", always_return_tuple=True).graph
    for k, node in enumerate([n for n in graph.nodes if n.op == "call_module"]):
        part, results = _part_program(program, getattr(module, node.target), own, node.args)
        data = backend.preprocess(part)
        if not isinstance(data, (bytes, bytearray)):
            raise TypeError(f"preprocess() of the backend {backend.name} returned {type(data).__name__}, not bytes")
        _replace(module, node, f"lowered_module_{k}", LoweredBackendModule(backend, bytes(data), part, results), [n for n in node.args if n.name not in own])
    module.recompile()
    signature = copy.deepcopy(program.graph_signature)
    for spec, result in zip(signature.output_specs, graph.output_node().args[0]):
        if isinstance(result, Node):
            spec.arg.name = result.name
    return program._update(module, signature)
