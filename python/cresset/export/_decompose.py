"""ExportedProgram.run_decompositions(): the program with functional operators.

The graph is run again on fake tensors; functions of a table replace operators.  The recording is made functional
(src/graph/functional.c): new contents of buffers and arguments become outputs.
"""
import itertools
import re

import cresset

from .. import Tensor, _C
from .._library.operators import composites
from .._subclasses.fake_tensor import FakeTensorMode
from ..fx import GraphModule, Interpreter
from ..utils._pytree import tree_leaves
from . import _control
from ._decompositions import ALWAYS
from ._fakes import make_fake
from ._graph import GraphBuilder, NumberOutput, number_expressions
from ._sources import kept_meta
from .exported_program import ExportedProgram, refuse_parts
from .graph_signature import (ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec,
                              TensorArgument)

aten = cresset.ops.aten
_FUNCTIONS = tuple(getattr(cresset.ops.higher_order, name) for name in ("cond", "while_loop", "scan", "map_impl", "associative_scan"))


class _Again(Interpreter):
    """Runs a graph with functions of a table, and tells the recorder which node runs."""

    def __init__(self, module, table, recorder, mode, varies):
        super().__init__(module)
        self.table, self.recorder, self.mode, self.varies = table, recorder, mode, varies
        self.order, self.sites = [], {}

    def run_node(self, n):
        self.recorder.at(str(len(self.order)))
        self.order.append(n)
        return super().run_node(n)

    def call_function(self, target, args, kwargs):
        if target is aten.sym_size.int:
            return args[0].shape[args[1]]
        if target is cresset.ops.higher_order.wrap_with_set_grad_enabled:
            enabled, module, *operands = args
            return self._inner(cresset.set_grad_enabled(enabled), module, operands)
        if target is cresset.ops.higher_order.wrap_with_autocast:
            *settings, module = args[:5]
            return self._inner(cresset.autocast(*settings), module, args[5:])
        if target in _FUNCTIONS:
            return self._site(target, args)
        out = self.table[target](*args, **kwargs) if target in self.table else NotImplemented
        return super().call_function(target, args, kwargs) if out is NotImplemented else out

    def _inner(self, mode, module, operands):
        """Runs a subgraph in a mode."""
        inner = _Again(module, self.table, self.recorder, self.mode, self.varies)
        inner.order, inner.sites = self.order, self.sites
        with mode:
            return inner.run(*operands)

    def _site(self, target, args):
        """Records a call of an operator that takes functions, whose graphs are decomposed."""
        graphs = [re.sub(r"_[0-9]+$", "", n.target) for n in self.order[-1].args if getattr(n, "op", "") == "get_attr"]
        self.recorder.stop()
        try:
            parts = [_Part(x, self) for x in args if isinstance(x, GraphModule)]
            site = _Site(target, graphs, args, parts)
            for x in site.more:
                self.mode.from_tensor(x)  # the mode reads whether it knows the storage
        finally:
            self.recorder.start()
        self.sites[site.number] = site
        return site.call([x.clone() for x in site.more])

    def meta(self, text):
        """The metadata of the node that ran, for the nodes that replace it."""
        node = self.order[int(text)]
        return kept_meta(node)


class _Part:
    """A graph inside of a program, recorded again.  extra: (name, tensor) of the constants that the table's functions made."""

    def __init__(self, module, outer):
        self.nodes = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.varies, self.values = outer.varies, [_example(outer.mode, n.meta["val"]) for n in self.nodes]
        recorder = _C.Recorder(whole=True)
        for x in self.values:
            recorder.input(x)
            mask = sum(1 << d for d, n in enumerate(x.shape) if n > 1) if self.varies else 0
            if mask:
                recorder.dynamic(x, mask)
        self.interpreter, self.mode = _Again(module, outer.table, recorder, outer.mode, self.varies), outer.mode
        recorder.start()
        try:
            out = self.interpreter.run(*self.values)
        finally:
            recorder.stop()
        self.single, self.results = not isinstance(out, (tuple, list)), tree_leaves(out)
        self.graph = _functional(recorder.finish(self.results), self.varies, recorder.sparse())
        self.extra = [(names[0], rest[0]) for names, op, *rest in self.graph.nodes() if op is None]

    def module(self, more):
        """The graph with functional operators; more: tensors that it takes besides."""
        builder = GraphBuilder(self.graph, self.mode, self.interpreter, {}, {})
        builder.sites = self.interpreter.sites
        if self.varies:  # nothing is known of the sizes of operands
            builder.sized, builder.exprs = {}, number_expressions(builder.numbers, {}, {})
        taken = {n.name for n in self.nodes}
        names = itertools.filterfalse(taken.__contains__, (f"constant_{k}" for k in itertools.count()))
        known = {id(x): name for name, x in self.extra}
        for name, x, value in [*zip((n.name for n in self.nodes), self.values, self.graph.inputs),
                               *((name, x, known.get(id(x))) for name, x in zip(names, more))]:
            builder.placeholder(name, InputSpec(InputKind.USER_INPUT, TensorArgument(""), None), x, value)
        builder.nodes()
        builder.output(self.results, self.graph.outputs, self.single)
        builder.graph.eliminate_dead_code()
        return GraphModule(builder.modules, builder.graph)


class _Site(_control.Site):
    """A call of an operator that takes functions.  args: its arguments, with graph modules; parts: a _Part for each of them."""

    def __init__(self, target, graphs, args, parts):
        self.name, self.graphs, self.args = target.name(), graphs, args
        self.given = [x for x in tree_leaves(args) if isinstance(x, Tensor)]
        self.more = list({id(x): x for part in parts for _, x in part.extra}.values())
        self.done = [part.module(self.more) for part in parts]
        self.enroll(self.done)

    def operands(self):
        return [*self.given, *self.more]

    def modules(self, trace, names, wraps):
        return self.done

    def call(self, more):
        """Records the call; more: copies of the constants, which the recording makes of constants of its own."""
        self.more = more
        return super().call()

    def arguments(self, graphs, nodes):
        graphs, nodes = iter(graphs), iter(nodes)
        args = [next(graphs) if isinstance(x, GraphModule) else next(nodes) if isinstance(x, Tensor) else type(x)(next(nodes) for _ in x)
                for x in self.args]
        return (*args[:-1], type(args[-1])([*args[-1], *nodes]))


def _functional(graph, varies, sparse):
    """A recording without writes."""
    if not graph.writes:
        return graph
    if sparse:
        raise RuntimeError("run_decompositions: the program has sparse tensors and writes to tensors; export it without the writes")
    if varies:
        raise RuntimeError("run_decompositions: the program writes to tensors and has sizes that vary; export it with sizes "
                           "that do not, or without the writes")
    return graph.apply("functional")


def _example(mode, val):
    """A fake of the sizes of the example."""
    if val.layout != cresset.strided:
        return mode.again(val)
    sizes, strides = ([int(n) for n in numbers] for numbers in (val.shape, val.stride()))
    return make_fake(mode, (val.dtype, sizes, strides, val.device, val.requires_grad))


class _Recording:
    """A program's graph, recorded again."""

    def __init__(self, program, table):
        self.program, self.mode = program, FakeTensorMode(allow_non_fake_inputs=True)
        self.recorder = _C.Recorder(whole=True)
        self.nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
        self.values, self.places, self.hints = [], {}, {}  # places: node -> number of the recording's input
        self.sizes = []                                    # (node, dim, Size)
        for node in self.nodes:
            self.values.append(self._fake(node) if isinstance(node.meta.get("val"), Tensor) else node.meta.get("val"))
        self._run(table)

    def _fake(self, node):
        val, mask = node.meta["val"], 0
        made = _example(self.mode, val)
        self.places[node] = len(self.places)
        self.recorder.input(made)
        for dim, n in enumerate(val.shape):
            if hasattr(n, "node"):
                mask |= 1 << dim
                self.sizes.append((node, dim, n.node.expr))
                if n.node.expr.is_symbol:
                    self.hints[n.node.expr.name] = int(n)
        if mask:
            self.recorder.dynamic(made, mask)
        return made

    def _run(self, table):
        self.interpreter = _Again(self.program.graph_module, table, self.recorder, self.mode, bool(self.sizes))
        self.recorder.start()
        try:
            with self.mode:
                out = self.interpreter.run(*self.values)
            self.results = [NumberOutput(_C._symbol_of(x)) if type(x) is _C.Symbol else x for x in tree_leaves(out)]
        finally:
            self.recorder.stop()
        graph = self.recorder.finish([x for x in self.results if isinstance(x, Tensor)])
        self.sparse = {name: self.mode.as_fake(x) for name, x in self.recorder.sparse().items()}
        self.graph = _functional(graph, bool(self.sizes), self.sparse)

    def expressions(self):
        """{number of the recording: Size} for sizes of inputs."""
        names = self.graph.inputs
        at = {(of[0], of[1]): k for k, (how, *of) in enumerate(self.graph.numbers) if how == "size"}
        return {at[names[self.places[node]], dim]: expr for node, dim, expr in self.sizes}


def _split_copies(recorded):
    """The names of the copies to inputs at the end: {input: value}, and those copies' results."""
    inputs, copies, results = set(recorded.inputs), {}, set()
    for names, op, *rest in recorded.nodes():
        if op == "copy_" and rest[1]["self"][0] in inputs:
            copies[rest[1]["self"][0]] = rest[1]["src"][0]
            results.update(names)
        elif op is not None and any(a.is_write for a in _schema_arguments(op, rest)):
            raise RuntimeError(f"run_decompositions: no functional form of the writes of {op}")
    return copies, results


def _schema_arguments(op, rest):
    from .._ops import overload_of
    return overload_of(op, rest[0], rest[1])._schema.arguments


class _Builder(GraphBuilder):
    """Leaves out the copies to inputs."""

    copies = {}

    def call(self, names, op, overload, arguments, source):
        if op == "copy_" and arguments["self"][0] in self.copies:
            self.env[names[0]] = self.env[self.copies[arguments["self"][0]]]
        else:
            super().call(names, op, overload, arguments, source)


def _mutations(recording, builder, copies):
    """The new contents of buffers, parameters and arguments, and their specs."""
    kinds = {InputKind.BUFFER: OutputKind.BUFFER_MUTATION, InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
             InputKind.CONSTANT_TENSOR: OutputKind.BUFFER_MUTATION}
    specs = dict(zip(recording.nodes, recording.program.graph_signature.input_specs))
    names, nodes, out = recording.graph.inputs, [], []
    for node, place in recording.places.items():
        value = copies.get(names[place])
        if value is None:
            continue
        new, spec = builder.env[value], specs[node]
        kind = kinds.get(spec.kind, OutputKind.USER_INPUT_MUTATION)
        out.append(OutputSpec(kind, TensorArgument(new.name), spec.target if spec.kind in kinds else node.name))
        nodes.append(new)
    return nodes, out


def _inputs(recording, builder):
    """Adds the placeholders, and the constants that the table's functions made."""
    names = recording.graph.inputs
    for node, spec, value in zip(recording.nodes, recording.program.graph_signature.input_specs, recording.values):
        arg = ConstantArgument(node.name, spec.arg.value) if isinstance(spec.arg, ConstantArgument) else type(spec.arg)(node.name)
        new = InputSpec(spec.kind, arg, spec.target, spec.persistent)
        known = names[recording.places[node]] if node in recording.places else None
        builder.nodes_of[node] = builder.placeholder(node.name, new, value, known)


def _constants(recording, builder):
    count, taken = 0, {n.name for n in recording.nodes}
    for names, op, *rest in recording.graph.nodes():
        if op is None:
            while f"lifted_tensor_{count}" in {**recording.program.constants, **builder.constants} or \
                    f"c_lifted_tensor_{count}" in taken:
                count += 1
            builder.constant_placeholder(f"c_lifted_tensor_{count}", names[0], rest[0], f"lifted_tensor_{count}")


def _refuse_elements(program):
    """Refuses numbers and sizes that depend on elements, for which the graph cannot run again on fakes."""
    for e in program.range_constraints:
        name = next((s for s in e.free_symbols if s.startswith(("u", "zuf"))), None)
        if name is not None:
            raise RuntimeError(f"run_decompositions: the program has {name}, a number or size that depends on elements; "
                               "export the decomposed operators instead")


def decomposed(program, table):
    """The program, run again with the functions of a table."""
    refuse_parts(program, "run_decompositions")
    _refuse_elements(program)
    recording = _Recording(program, {**ALWAYS, **(table.materialize() if isinstance(table, CustomDecompTable) else table)})
    copies, _ = _split_copies(recording.graph)
    builder = _Builder(recording.graph, recording.mode, recording.interpreter, recording.expressions(), recording.hints,
                       sparse=recording.sparse)
    builder.copies, builder.nodes_of, builder.sites = copies, {}, recording.interpreter.sites
    _constants(recording, builder)
    _inputs(recording, builder)
    builder.size_nodes([(k, builder.nodes_of[node], dim) for k, (node, dim, _) in
                        zip(recording.expressions(), recording.sizes)])
    builder.nodes()
    nodes, mutations = _mutations(recording, builder, copies)
    old = [s for s in program.graph_signature.output_specs if s.kind != OutputKind.USER_OUTPUT]
    outputs = _finish(builder, recording, nodes, mutations, len(old), program)
    module = GraphModule(builder.modules, builder.graph, "GraphModule")
    if "custom" in program.graph_module.meta:
        module.meta["custom"] = program.graph_module.meta["custom"]
    return ExportedProgram(module, builder.graph, ExportGraphSignature(builder.specs, outputs), dict(program.state_dict),
                           dict(program.range_constraints), list(program.module_call_graph), program.example_inputs,
                           {**program.constants, **builder.constants}, guards_code=program._guards_code, dialect="ATEN")


def _finish(builder, recording, nodes, mutations, earlier, program):
    """Ends the graph: mutations that the program had, new ones, and results."""
    values = iter(recording.graph.outputs)
    args, specs = [], []
    for x, spec in zip(recording.results, program.graph_signature.output_specs):
        node = builder.env[next(values)] if isinstance(x, Tensor) else builder.number(x) if isinstance(x, NumberOutput) else x
        arg = type(spec.arg)(node.name) if hasattr(node, "meta") else ConstantArgument("", node)
        args.append(node)
        specs.append(OutputSpec(spec.kind, arg, spec.target))
    builder.graph.output((*args[:earlier], *nodes, *args[earlier:]))
    builder.graph.eliminate_dead_code()
    return [*specs[:earlier], *mutations, *specs[earlier:]]


def default_table():
    """The operators that run_decompositions() replaces, and the functions that it calls instead."""
    return CustomDecompTable()


class CustomDecompTable(dict):
    """The default table, which programs change before they give it to run_decompositions().

    Operators that a program defines join it when it is read as a whole (`has_materialized`), so those that are defined
    after the table was made are in it, too."""

    def __init__(self):
        from ._decompositions import TABLE
        super().__init__(TABLE)
        self.has_materialized, self._without = False, set()

    def _materialize(self):
        if not self.has_materialized:
            self.has_materialized = True
            for op, function in composites().items():
                if op not in self._without:
                    self.setdefault(op, function)
        return self

    def materialize(self):
        """The table as a dict."""
        return dict(dict.items(self._materialize()))

    def pop(self, key, *default):
        found = key in self
        value = dict.pop(self, key) if dict.__contains__(self, key) else composites()[key] if found else None
        self._without.add(key)
        if not found and not default:
            raise KeyError(f"{key} doesn't exist in the table")
        return value if found else default[0]

    def __delitem__(self, key):
        self.pop(key)

    def __contains__(self, key):
        return dict.__contains__(self, key) or not self.has_materialized and key not in self._without and key in composites()

    def __getitem__(self, key):
        if not dict.__contains__(self, key) and key in self:
            return composites()[key]
        return dict.__getitem__(self, key)

    def get(self, key, default=None):
        return self[key] if key in self else default

    def keys(self):
        return dict.keys(self._materialize())

    def values(self):
        return dict.values(self._materialize())

    def items(self):
        return dict.items(self._materialize())

    def __iter__(self):
        return dict.__iter__(self._materialize())

    def __len__(self):
        return dict.__len__(self._materialize())

    def copy(self):
        """Another table with the same changes."""
        new = CustomDecompTable()
        dict.clear(new)
        dict.update(new, dict.items(self))
        new.has_materialized, new._without = self.has_materialized, set(self._without)
        return new
