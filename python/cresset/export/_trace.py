"""export(): the call of a module as a graph.

Parameters, buffers and arguments are replaced by fake tensors, and the operators that the call runs on them are recorded
whole (src/graph/record.c), so that nothing is computed and no state of the module changes.
"""
import contextlib
from collections import deque

import cresset

from .. import Tensor, _C
from .._dynamo.exc import ConstraintViolationError, UserError
from .._higher_order_ops.checked import set_tracing
from .._subclasses.fake_tensor import (DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode,
                                       detect_fake_mode)
from ..fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from ..utils._pytree import tree_flatten, tree_unflatten
from ._constraints import Constraints
from ._grad_mode import forget_modes, wrap_other_modes
from ._graph import ConditionOutput, GraphBuilder, NumberOutput
from ._inputs import DRAFT_NOTE, PlaceholderNames, check_call, leaves_of, placeholder_name
from ._sources import Sources
from ._unbacked import OtherExamples, Truth, Values
from .dynamic_shapes import dim_specs
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import ConstantArgument, ExportGraphSignature, InputKind, InputSpec, SymIntArgument, TensorArgument


def _containers(x, found):
    """Adds the dicts, lists, sets and deques of x, also those inside of others: found[id] = (container, copy)."""
    if not isinstance(x, (dict, list, set, deque, tuple)) or id(x) in found:
        return
    found[id(x)] = x, None if isinstance(x, tuple) else list(x.items() if isinstance(x, dict) else x)
    if not isinstance(x, set):
        for item in list(x.values() if isinstance(x, dict) else x):
            _containers(item, found)


def _same_items(a, b):
    return len(a) == len(b) and all(x is y or type(x) is tuple and type(y) is tuple and len(x) == len(y) == 2 and
                                    x[0] is y[0] and x[1] is y[1] for x, y in zip(a, b))


def _restore(container, items):
    """Gives a container the contents that it had."""
    now = list(container.items() if isinstance(container, dict) else container)
    if _same_items(now, items):
        return
    container.clear()
    container.extend(items) if isinstance(container, (list, deque)) else container.update(items)


@contextlib.contextmanager
def _disable_load_state_dict_hooks(mod):
    """Inside, state_dict() of a module runs none of its hooks."""
    names = "_state_dict_hooks", "_state_dict_pre_hooks"
    kept = {name: dict(getattr(mod, name)) for name in names}
    for name in names:
        getattr(mod, name).clear()
    try:
        yield
    finally:
        for name in names:
            getattr(mod, name).update(kept[name])


class ModuleState:
    """The parameters, buffers and attributes of a module, which are fakes while the module is traced."""

    def __init__(self, mod, mode):
        self.mod, self.mode = mod, mode
        self.parameters = dict(mod.named_parameters(remove_duplicate=False))
        self.buffers = dict(mod.named_buffers(remove_duplicate=False))
        with _disable_load_state_dict_hooks(mod):
            self.saved_state = mod.state_dict(keep_vars=True)
        self.attributes = {}  # id of a tensor -> its paths
        self.saved = []
        self.containers = {}  # id of a dict, list, set or deque among the attributes -> (it, its items)

    def __enter__(self):
        for path, sub in self.mod.named_modules():
            tables = {name: dict(getattr(sub, name)) for name in ("_parameters", "_buffers", "_modules")}
            self.saved.append((path, sub, dict(sub.__dict__), tables))
            for name, x in sub.__dict__.items():
                if isinstance(x, Tensor):
                    self.attributes.setdefault(id(x), []).append(f"{path}.{name}" if path else name)
                elif name not in ("_parameters", "_buffers", "_modules"):
                    _containers(x, self.containers)
            for table in (sub._parameters, sub._buffers):
                for name, x in table.items():
                    if x is not None:
                        table[name] = self.mode.from_tensor(x)
        return self

    def keep_assigned(self):
        """Records the assignment of a new tensor to a buffer as a copy into it."""
        for path, sub, before, tables in self.saved:
            for name, x in tables["_buffers"].items():
                now = sub._buffers.get(name)
                old = None if x is None else self.mode.from_tensor(x)
                if isinstance(now, Tensor) and old is not None and now is not old:
                    old.copy_(now)
            for name, x in sub.__dict__.items():
                if isinstance(x, Tensor) and x is not before.get(name):
                    raise ValueError(f"The tensor attribute self.{f'{path}.{name}' if path else name} was assigned during export. "
                                     "Such attributes must be registered as buffers using the `register_buffer` API "
                                     "(https://pytorch.org/docs/stable/generated/torch.nn.Module.html"
                                     "#torch.nn.Module.register_buffer).")

    def __exit__(self, *error):
        for _, sub, attributes, tables in self.saved:
            for name in [n for n in sub.__dict__ if n not in attributes]:
                del sub.__dict__[name]
            sub.__dict__.update(attributes)
            for name, table in tables.items():
                getattr(sub, name).clear()
                getattr(sub, name).update(table)
        for container, items in self.containers.values():
            if items is not None:
                _restore(container, items)


class KeptCall:
    """The leaves and trees of the arguments and of the result of one call of a module."""

    def __init__(self, key, args, kwargs):
        self.key = key
        self.inputs, self.in_spec = tree_flatten((args, kwargs))

    def end(self, out):
        self.outputs, self.out_spec = tree_flatten(out)

    def leaves(self):
        return [*self.inputs, *self.outputs]


class Trace:
    """One call of a module, recorded.  kept: the paths of modules of whose calls it keeps arguments and results; draft: the
    Draft that notes what export() would have refused, or None."""

    def __init__(self, mod, args, kwargs, dynamic_shapes, kept=(), examples=None, draft=None):
        self.mod, self.args, self.kwargs, self.draft = mod, args, kwargs, draft
        if draft is not None:
            draft.start()
        known = dict(mod.named_modules(remove_duplicate=False))
        for path in kept:
            if path not in known:
                raise AssertionError(f"Attribute '{path.partition('.')[0]}' not found in model" if path.partition(".")[0] not in known else
                                     f"Attribute '{path}' not found in model")
        self.kept_modules, self.kept_calls = {path: known[path] for path in kept}, []
        self.leaves, self.in_spec = leaves_of(mod, args, kwargs)
        self.dims = dim_specs(mod, args, kwargs, self.leaves, dynamic_shapes)
        everything = [x.value for x in self.leaves], list(mod.parameters()), list(mod.buffers())
        self.mode = detect_fake_mode(everything) or FakeTensorMode(allow_non_fake_inputs=True, export=True)
        self.recorder = _C.Recorder(whole=True)
        self.running = self.recorder   # that of the function inside of the program that runs
        self.sites = {}                # number -> the call of an operator that takes functions
        self.modes_in_branches = set() # the grad modes of calls in branches
        self.values = Values(self, {} if examples is None else examples)
        self.known, self.kept = {}, []  # id of a fake -> its number among the recording's inputs

    def input(self, tensor):
        if id(tensor) not in self.known:
            self.known[id(tensor)] = len(self.known)
            self.kept.append(tensor)
            self.recorder.input(tensor)

    def casts(self, recorded):
        """The values of autocast's conversions, which graphs with autocast blocks do not have."""
        return () if self.kept_modules else set(recorded.casts)

    def fake_leaves(self):
        seen = set()
        for leaf in self.leaves:
            x = leaf.value
            if isinstance(x, Tensor):
                leaf.fake = self.mode.from_tensor(x if id(x) not in seen else x.detach())
                seen.add(id(x))
        return [leaf.fake if isinstance(leaf.value, Tensor) else leaf.value for leaf in self.leaves]

    def run(self):
        """Calls the module on fakes.  Sets `out`, `state` and `recorded`."""
        with ModuleState(self.mod, self.mode) as state, cresset.no_grad() if self._inference() else cresset.enable_grad():
            self.state = state
            self.fakes = {**{n: self.mode.from_tensor(x) for n, x in state.parameters.items()},
                          **{n: self.mode.from_tensor(x) for n, x in state.buffers.items()}}
            args, kwargs = tree_unflatten(self.fake_leaves(), self.in_spec)
            for x in [*self.fakes.values(), *(leaf.fake for leaf in self.leaves if isinstance(leaf.value, Tensor))]:
                self.input(x)
            for leaf in self.leaves:
                if isinstance(leaf.value, Tensor):
                    leaf.place = self.known[id(leaf.fake)]
            for spec in self.dims:
                if spec.varies:
                    spec.leaf.mask = getattr(spec.leaf, "mask", 0) | 1 << spec.dim
            for leaf in self.leaves:
                if getattr(leaf, "mask", 0):
                    self.recorder.dynamic(leaf.fake, leaf.mask)
            self.values.name_dims()
            self.out = self.call(args, kwargs)
        self.results, self.out_spec = tree_flatten(self.out)
        others = [x for call in self.kept_calls for x in call.leaves()]
        self.recorded = self.recorder.finish([x for x in [*self.results, *others] if isinstance(x, Tensor)])
        self.sparse = {name: self.mode.as_fake(x) for name, x in self.recorder.sparse().items()}

    def _inference(self):
        return not cresset.is_grad_enabled()

    def call(self, args, kwargs):
        self.sources = Sources(self.mod, self.recorder)
        if self.draft is not None:
            self.sources.replaces = self.values.custom_call
            self.recorder.decides(self.values.decide)
        self.recorder.start()
        self.mode.values = self.values
        allowed, self.mode.allow_non_fake_inputs = self.mode.allow_non_fake_inputs, True
        self.recorder.apart(True)
        outer, caches = set_tracing(self), _C.is_autocast_cache_enabled()
        texts = _C._symbol_texts(self.values.text_of)
        _C.set_autocast_cache_enabled(False)  # as in torch: a block of the program converts a weight at each use
        try:
            with self.mode, self.sources, self._keep_calls():
                out = self.mod(*args, **kwargs)
                self.state.keep_assigned()
            self.values.check_taken()
            return self._with_numbers(out)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise GuardOnDataDependentSymNode(self._data_dependent(error)) from error
        finally:
            set_tracing(outer)
            _C._symbol_texts(texts)
            _C.set_autocast_cache_enabled(caches)
            self.mode.values, self.mode.allow_non_fake_inputs = None, allowed
            self.recorder.decides(None)
            self.recorder.stop()

    @contextlib.contextmanager
    def _keep_calls(self):
        """Inside, notes the arguments and results of calls of the modules whose signatures the program keeps."""
        running = []

        def before(module, args, kwargs):
            running.append(KeptCall(self.sources.stack[-1][2], args, kwargs))

        def after(module, args, kwargs, out):
            running[-1].end(out)
            self.kept_calls.append(running.pop())
        handles = []
        for module in self.kept_modules.values():
            handles += [module.register_forward_pre_hook(before, with_kwargs=True), module.register_forward_hook(after, with_kwargs=True)]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def check_grad_mode(self):
        """Refuses a change of the grad mode that a program in training would lose, for a graph without nodes for it."""
        source = self.sources.without_grad
        if source is None or not self.sources.with_grad or not any(m.training for m in self.mod.modules()):
            return
        path, line, name = source.line()
        raise UserError("torch.export.export: the module in training changes the grad mode (torch.no_grad, torch.enable_grad, "
                        f"torch.inference_mode) around operators on tensors that need gradients: {source.function[1]} at "
                        f"{path}:{line} in {name}.  The graph has no node for the change, and the program's gradients would be "
                        "others.  Use tensor.detach() there, or export the module in evaluation, module.eval()")

    def _data_dependent(self, error):
        note = self.sources.notes[-1] if self.sources.notes else None
        path, line, name = note.frames[-1] if note is not None and note.frames else ("?", 0, "?")
        return ("Could not guard on data-dependent expression: the program needs the elements of a tensor "
                f"({error}).  (Size-like symbols: none)\n\nconsider using torch.cond, torch.where or torch.masked_fill, or "
                "data-dependent friendly APIs such as guard_or_false, guard_or_true and statically_known_true.\n"
                f"Caused by: ({path}:{line} in {name})")

    def _with_numbers(self, out):
        """The results, in which symbols are the numbers of the recording."""
        leaves, spec = tree_flatten(out)
        if not any(type(x) is _C.Symbol or isinstance(x, Truth) for x in leaves):
            return out
        return tree_unflatten([_number_output(x) for x in leaves], spec)


def _number_output(x):
    if isinstance(x, Truth):
        return NumberOutput(x.number) if x.number is not None else ConditionOutput(x.condition)
    return NumberOutput(_C._symbol_of(x)) if type(x) is _C.Symbol else x


def _input_specs(trace):
    """(name, InputSpec, value, recorded name) of parameters and buffers."""
    names = trace.recorded.inputs
    for path, x in trace.state.parameters.items():
        yield placeholder_name("p_", [path]), InputSpec(InputKind.PARAMETER, TensorArgument(""), path), x, \
            names[trace.known[id(trace.fakes[path])]]
    for path, x in trace.state.buffers.items():
        yield placeholder_name("b_", [path]), \
            InputSpec(InputKind.BUFFER, TensorArgument(""), path, path in trace.state.saved_state), x, \
            names[trace.known[id(trace.fakes[path])]]


def _add_constants(trace, builder, unique):
    """Adds the tensors that the call read and that are neither arguments nor parameters."""
    lifted = 0
    for names, op, *rest in trace.recorded.nodes():
        if op is not None:
            continue
        path, *others = trace.state.attributes.get(id(rest[0]), [f"lifted_tensor_{lifted}"])
        lifted += path == f"lifted_tensor_{lifted}"
        tensor = rest[0].detach() if rest[0].requires_grad else rest[0]
        builder.constant_placeholder(unique(placeholder_name("c_", [path])), names[0], tensor, path)
        builder.constants.update(dict.fromkeys(others, tensor))


def _add_arguments(trace, builder):
    names = trace.recorded.inputs
    for leaf in trace.leaves:
        if isinstance(leaf.value, Tensor):
            spec = InputSpec(InputKind.USER_INPUT, TensorArgument(""), None)
            leaf.node = builder.placeholder(leaf.name, spec, None, names[trace.known[id(leaf.fake)]])
        else:
            spec = InputSpec(InputKind.USER_INPUT, ConstantArgument("", leaf.value), None)
            leaf.node = builder.placeholder(leaf.name, spec, leaf.value)


def _build(trace, constraints):
    """The builder of the finished graph, and the specs of its outputs."""
    builder = GraphBuilder(trace.recorded, trace.mode, trace.sources, constraints.sizes(), constraints.hints(),
                           constraints.bounds(), trace.values.facts, trace.sparse)
    builder.trace = trace
    builder.as_called = True
    builder.casts = trace.casts(trace.recorded)
    unique = PlaceholderNames().unique
    for leaf in trace.leaves:  # arguments keep their names
        leaf.name = unique(leaf.name)
    for name, spec, x, recorded in _input_specs(trace):
        builder.placeholder(unique(name), spec, None, recorded)
    _add_constants(trace, builder, unique)
    _add_arguments(trace, builder)
    builder.size_nodes([(c.number, c.leaf.node, c.dim) for c in constraints.dims])
    builder.nodes()
    signatures = _kept_signatures(trace, builder)
    outputs = builder.output(trace.results, trace.recorded.outputs)
    builder.graph.eliminate_dead_code()
    if trace.modes_in_branches - {trace.sources.grad} or trace.kept_calls:
        trace.check_grad_mode()
    else:
        wrap_other_modes(builder.graph, builder.modules, trace.sources.grad)
        _name_outputs(builder.graph, outputs)
    forget_modes(builder.graph)
    return builder, outputs, signatures


def _name_outputs(graph, specs):
    """Gives the signature the names of the results."""
    for spec, node in zip(specs, graph.output_node().args[0]):
        if hasattr(node, "meta"):
            spec.arg.name = node.name


def _kept_signatures(trace, builder):
    """{path, with @k for a further call: signature} of the calls that are kept."""
    names = iter(trace.recorded.outputs[sum(isinstance(x, Tensor) for x in trace.results):])

    def argument(x):
        if isinstance(x, Tensor):
            return TensorArgument(builder.env[next(names)].name)
        node = builder.number(_C._symbol_of(x)) if type(x) is _C.Symbol else x
        return SymIntArgument(node.name) if hasattr(node, "meta") else ConstantArgument("", node)
    out = {}
    for call in trace.kept_calls:
        inputs = list(map(argument, call.inputs))
        out[call.key] = ModuleCallSignature(inputs, list(map(argument, call.outputs)), call.in_spec, call.out_spec)
    return out


def _call_graph(trace, signatures):
    from ._inputs import forward_arg_names
    top = ModuleCallSignature([], [], trace.in_spec, trace.out_spec, forward_arg_names(trace.mod, trace.args, trace.kwargs))
    paths = [name for name, _ in trace.mod.named_modules(remove_duplicate=False) if name]
    return [ModuleCallEntry("", top), *(ModuleCallEntry(path, signatures.get(path)) for path in paths),
            *(ModuleCallEntry(key, signature) for key, signature in signatures.items() if key not in paths)]


def _state(trace):
    saved, constants = trace.state.saved_state, {}
    first = [name for name in trace.state.parameters if name in saved]
    state = {name: saved[name] for name in [*first, *(name for name in saved if name not in trace.state.parameters)]}
    for path, x in trace.state.buffers.items():
        if path not in state:
            constants[path] = x
    return state, constants


def _traced(mod, args, kwargs, dynamic_shapes, preserve, draft, attempts=16):
    """The Trace of one call, with values of elements for which the program's facts hold."""
    examples = {}
    for _ in range(attempts):
        trace = Trace(mod, args, kwargs, dynamic_shapes, preserve, examples, draft)
        try:
            trace.run()
            return trace
        except OtherExamples:
            continue
    raise UserError("torch.export.export: no values of the numbers that depend on elements were found for which all of torch._check() "
                    "hold")


def export_call(mod, args, kwargs, dynamic_shapes=None, preserve=(), draft=None):
    """The ExportedProgram of one call; draft: as in Trace."""
    check_call(mod, args, kwargs)
    trace = _traced(mod, args, kwargs or {}, dynamic_shapes, preserve, draft)
    constraints = Constraints(trace.recorded, trace.dims, trace.leaves, trace.values)
    constraints.solve()
    builder, outputs, signatures = _build(trace, constraints)
    state, constants = _state(trace)
    from ..fx import GraphModule
    module = GraphModule(builder.modules, builder.graph, "GraphModule")
    if isinstance(mod, GraphModule) and "custom" in mod.meta:
        module.meta["custom"] = mod.meta["custom"]
    return ExportedProgram(module, builder.graph, ExportGraphSignature(builder.specs, outputs), state, constraints.ranges(),
                           _call_graph(trace, signatures), (args, kwargs or {}), {**builder.constants, **constants},
                           guards_code=constraints.guards())


def _export(mod, args, kwargs=None, dynamic_shapes=None, *, strict=True, preserve_module_call_signature=(), pre_dispatch=False,
            prefer_deferred_runtime_asserts_over_guards=False):
    """export() under the name of torch's function; pre_dispatch has no effect: programs always have the operators that the
    module called."""
    return export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
                  preserve_module_call_signature=preserve_module_call_signature)


def export(mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(),
           prefer_deferred_runtime_asserts_over_guards=False):
    """The ExportedProgram of mod(*args, **kwargs): a graph of operators.

        dynamic_shapes  sizes that may vary: {argument: {dim: Dim(...), Dim.AUTO or Dim.DYNAMIC}}, or a list or tuple in the
                        order of the arguments; a ShapesCollection
        strict          accepted: calls are recorded in the same way
        preserve_module_call_signature
                        paths of modules: module_call_graph has the arguments and results of their calls, and unflatten()
                        makes modules that are called as the original ones
        prefer_deferred_runtime_asserts_over_guards
                        accepted without effect: sizes have conditions that module() checks, and no assertions

    Example::

        >>> batch = torch.export.Dim("batch")
        >>> program = torch.export.export(nn.Linear(2, 3), (torch.zeros(4, 2),), dynamic_shapes={"input": {0: batch}})
        >>> program.module()(torch.ones(7, 2)).shape
        torch.Size([7, 3])
    """
    try:
        return export_call(mod, args, kwargs, dynamic_shapes, preserve_module_call_signature)
    except (UserError, ConstraintViolationError, GuardOnDataDependentSymNode) as error:
        error.args = (f"{error}\n\n{DRAFT_NOTE}",)
        raise
