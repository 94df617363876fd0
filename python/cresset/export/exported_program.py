"""ExportedProgram: a graph of operators with its parameters, buffers, constants and constraints."""
import copy
import dataclasses
import operator
from typing import NamedTuple

import cresset

from ..fx import GraphModule
from ..utils._pytree import TreeSpec, tree_flatten
from .graph_signature import InputKind

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]


@dataclasses.dataclass
class ModuleCallSignature:
    """The arguments and results of a module's call."""

    inputs: list
    outputs: list
    in_spec: TreeSpec
    out_spec: TreeSpec
    forward_arg_names: list | None = None


@dataclasses.dataclass
class ModuleCallEntry:
    """A module of the program by its path, and its signature if it was kept."""

    fqn: str
    signature: ModuleCallSignature | None = None


class CallSpec(NamedTuple):
    in_spec: TreeSpec | None
    out_spec: TreeSpec | None


class ValueRange(NamedTuple):
    """The bounds of a number; None: none."""

    lower: int | None
    upper: int | None

    def __repr__(self):
        return f"VR[{'-int_oo' if self.lower is None else self.lower}, {'int_oo' if self.upper is None else self.upper}]"

    def __contains__(self, n):
        return (self.lower is None or self.lower <= n) and (self.upper is None or n <= self.upper)


class _ReadOnly:
    """An attribute that programs can read only."""

    def __set_name__(self, owner, name):
        self.name, self.key = name, f"_{name}"

    def __get__(self, program, owner=None):
        return self if program is None else program.__dict__[self.key]

    def __set__(self, program, value):
        raise RuntimeError(f"Unable to set ExportedProgram's {self.name} attribute.")


def refuse_parts(program, what):
    """Raises if a backend computes parts of the program (to_backend)."""
    for node in program.graph.nodes:
        if node.op == "call_function" and getattr(node.target, "__name__", "") == "executorch_call_delegate":
            raise ValueError(f"{what}: the backend {program.graph_module.get_submodule(node.args[0].target).backend_id} computes parts of the "
                             "program; give the program as it was before to_backend()")


def refuse_values(program, what, fixed=False):
    """Raises if the program calls functions by values (torch.cond, while_loop) or, unless sizes are those of the example
    (`fixed`), as often as a size that varies says (scan, map, associative_scan)."""
    varies = not fixed and any(hasattr(n, "node") for node in program.graph.nodes if node.op == "placeholder"
                               for n in getattr(node.meta.get("val"), "shape", ()))
    for module in program.graph_module.modules():
        for node in module.graph.nodes if hasattr(module, "graph") else ():
            name = str(node.target) if getattr(node.target, "namespace", "") == "higher_order" else ""
            if name in ("cond", "while_loop"):
                raise ValueError(f"{what}: torch.{name} of the program calls a function by a value")
            if varies and name in ("scan", "map_impl", "associative_scan") and not _is_fixed(node, program):
                raise ValueError(f"{what}: {name} of the program has as many steps as a size that varies")


def _is_fixed(node, program):
    """Whether the number of a scan's steps is known: not in functions, of whose operands the sizes are not known."""
    lists = [x for x in node.args if isinstance(x, (list, tuple))]
    xs = lists[1] if str(node.target) == "scan" else lists[0]
    return node.graph is program.graph and not any(hasattr(x.meta["val"].shape[0], "node") for x in xs)


def in_order(spec, args, kwargs):
    """(args, kwargs) in the order of a spec; raises ValueError if they have another structure."""
    wanted = spec.child(1).context
    if set(kwargs) != set(wanted):
        raise ValueError(f"Ran into a kwarg keyword mismatch: Got the following keywords {list(kwargs)} but expected {list(wanted)}")
    kwargs = {name: kwargs[name] for name in wanted}
    found = tree_flatten((args, kwargs))[1]
    if found != spec:
        raise ValueError(f"Trying to flatten user inputs with exported input tree spec: \n{spec}\nbut actually got inputs with tree "
                         f"spec of: \n{found}.\nPlease check that the inputs have the same number and type of args and kwargs as "
                         "the ones you used when tracing.")
    return args, kwargs


def _join_items(module, signature):
    """Leaves one node for each item that is taken of a result, and names it where the signature named another."""
    first, joined = {}, {}
    for node in module.graph.nodes:
        if node.target is operator.getitem and node.op == "call_function":
            key = node.args
            if first.setdefault(key, node) is not node:
                joined[node] = first[key]
    for node, kept in joined.items():
        node.replace_all_uses_with(kept)
        module.graph.erase_node(node)
    if joined:
        names = {node.name: kept.name for node, kept in joined.items()}
        for spec in signature.output_specs:
            spec.arg.name = names.get(spec.arg.name, spec.arg.name)
        module.recompile()


class ExportedProgram:
    """What export() returns: a graph of operators without control flow in Python.

    Parameters, buffers and constants are inputs of the graph; `module()` is a module with the signature of the
    exported one.  `verifiers` are kept for programs that read them; nothing here calls them.

    Example::

        >>> program = torch.export.export(nn.Linear(2, 3), (torch.zeros(4, 2),))
        >>> program.module()(torch.ones(4, 2)).shape
        torch.Size([4, 3])
    """

    graph_module, graph_signature, state_dict = _ReadOnly(), _ReadOnly(), _ReadOnly()
    range_constraints, module_call_graph, constants = _ReadOnly(), _ReadOnly(), _ReadOnly()
    dialect = "TRAINING"

    def __init__(self, root, graph, graph_signature, state_dict, range_constraints, module_call_graph, example_inputs=None,
                 constants=None, *, verifiers=None, guards_code=(), dialect="TRAINING"):
        self._graph_module = root if isinstance(root, GraphModule) and root.graph is graph else GraphModule(root, graph)
        _join_items(self._graph_module, graph_signature)
        self._graph_signature, self._state_dict = graph_signature, state_dict
        self._range_constraints, self._module_call_graph = range_constraints, module_call_graph
        self._example_inputs, self._constants = example_inputs, constants or {}
        self._verifiers, self._guards_code = list(verifiers or []), list(guards_code)
        self.dialect = dialect

    @property
    def graph(self):
        return self.graph_module.graph

    @graph.setter
    def graph(self, value):
        raise RuntimeError("Unable to set ExportedProgram's graph attribute.")

    @property
    def example_inputs(self):
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value):
        if value is None:
            self._example_inputs = None
            return
        if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple) and isinstance(value[1], dict)):
            raise ValueError("Example inputs should be a tuple containing example arguments (as a tuple), and example kwargs (as a "
                             "dictionary).")
        self._example_inputs = in_order(self.call_spec.in_spec, *value)

    @property
    def call_spec(self):
        if not self.module_call_graph:
            return CallSpec(None, None)
        signature = self.module_call_graph[0].signature
        return CallSpec(signature.in_spec, signature.out_spec)

    @property
    def tensor_constants(self):
        return self.constants

    @property
    def verifiers(self):
        return self._verifiers

    def parameters(self):
        """The parameters."""
        for _, x in self.named_parameters():
            yield x

    def named_parameters(self):
        """(name, parameter) of each parameter."""
        for name in self.graph_signature.parameters:
            yield name, self.state_dict[name]

    def buffers(self):
        """The buffers."""
        for _, x in self.named_buffers():
            yield x

    def named_buffers(self):
        """(name, buffer) of each buffer."""
        unsaved = set(self.graph_signature.non_persistent_buffers)
        for name in self.graph_signature.buffers:
            yield name, (self.constants if name in unsaved else self.state_dict)[name]

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Unable to call ExportedProgram directly. You should use `exported_program.module()` instead.")

    def __str__(self):
        code = self.graph_module.print_readable(print_output=False, colored=False).replace("\n", "\n    ")
        signature = str(self.graph_signature).replace("\n", "\n    ")
        return (f"ExportedProgram:\n    {code}\nGraph signature: {signature}\n"
                f"Range constraints: {self.range_constraints}\n")

    def module(self, check_guards=True):
        """A module with the exported module's arguments and results; it checks sizes and numbers unless check_guards is
        False."""
        from ._unlift import unlifted
        return unlifted(self, check_guards)

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """The program with functional operators only, of which those in `decomp_table` are replaced by the operators
        that its functions call.  None: default_decompositions().  decompose_custom_triton_ops has no effect: programs have
        no such operators."""
        from ._decompose import decomposed
        return decomposed(self, default_decompositions() if decomp_table is None else decomp_table)

    def _update(self, graph_module, graph_signature, *, state_dict=None, constants=None, verifiers=None):
        """The program with another graph, and with other state where it is given."""
        return ExportedProgram(
            graph_module, graph_module.graph, graph_signature, self.state_dict if state_dict is None else state_dict,
            copy.deepcopy(self.range_constraints), copy.deepcopy(self.module_call_graph), self.example_inputs,
            self.constants if constants is None else constants, verifiers=verifiers or self.verifiers, guards_code=self._guards_code,
            dialect=self.dialect)

    def __deepcopy__(self, memo):
        module = copy.deepcopy(self.graph_module, memo)
        return ExportedProgram(
            module, module.graph, copy.deepcopy(self.graph_signature, memo), copy.deepcopy(self.state_dict, memo),
            copy.deepcopy(self.range_constraints, memo), copy.deepcopy(self.module_call_graph, memo),
            copy.deepcopy(self.example_inputs, memo), copy.deepcopy(self.constants, memo), verifiers=self.verifiers,
            guards_code=self._guards_code, dialect=self.dialect)

    def validate(self):
        """Raises unless graph, signature and state agree."""
        self.graph_module.graph.lint()
        names = [n.name for n in self.graph.nodes if n.op == "placeholder"]
        for name, spec in zip(names, self.graph_signature.input_specs):
            if name != spec.arg.name:
                raise ValueError(f"Expected input name {spec.arg.name} but got {name}")
            known = self.state_dict if spec.kind == InputKind.PARAMETER else {**self.state_dict, **self.constants}
            if spec.target is not None and spec.target not in known:
                raise ValueError(f"{spec.kind.name} {spec.target} is not in the program's state")
        if len(names) != len(self.graph_signature.input_specs):
            raise ValueError(f"Expected {len(self.graph_signature.input_specs)} inputs but the graph has {len(names)}")

    _validate = validate


def default_decompositions():
    """The table of run_decompositions(): {operator: function}."""
    from ._decompose import default_table
    return default_table()
