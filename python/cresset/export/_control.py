"""torch.cond in exported programs: each branch is a graph, and the call is one node.

While the outer call is traced, a branch is recorded separately.  Tensors that it reads and that are no operands become
operands.  The outer recording gets a call of an operator that has the branch's sizes (`fake`), which the exported graph
replaces by torch.ops.higher_order.cond and two subgraphs.
"""
import functools
import itertools
import weakref

from .. import Tensor, _C
from .._dynamo.exc import UncapturedHigherOrderOpError, UserError
from .._higher_order_ops import checked
from ._grad_mode import BLOCKS, MODE, forget_modes, wrap_other_modes
from ..library import Library
from ..utils._pytree import tree_flatten, tree_leaves, tree_unflatten

_count = itertools.count()
_NAMESPACE = "cresset_export"
OPERATOR = f"{_NAMESPACE}::cond"
_sites = weakref.WeakValueDictionary()  # number -> CondSite of a call that is traced now
_kept = []                              # the Library of the operator


class _Branch:
    """A branch, recorded."""

    def __init__(self, trace, function, operands):
        self.tensors = list({id(x): x for x in tree_leaves(operands) if isinstance(x, Tensor)}.values())
        self.blocks = len(trace.sources.blocks)  # the autocast blocks around the call
        values, outer = trace.values, trace.running
        kept = dict(values.symbols), list(values.facts), dict(values.sites)
        while True:
            outer.enter()
            try:
                more = self._record(trace, function, operands)
            finally:
                used = outer.leave()
            if any(not isinstance(x, Tensor) for x in used):
                checked.refuse("torch.cond", "torch.cond: a branch uses a number that varies and that it does not compute",
                               "Operands of branches are tensors.", "Compute the number in the branch, from a tensor or its size.")
            more = {id(x): x for x in [*more, *used]}
            if not more:
                break
            self.tensors += more.values()  # their sizes vary in the branch, too
            values.symbols, values.facts, values.sites = dict(kept[0]), list(kept[1]), dict(kept[2])
        if self.recorded.guards and any(self.masks):
            raise UserError("torch.cond: a branch compares a size that varies, which an exported branch cannot do")

    def _record(self, trace, function, operands):
        """Records a call.  Returns the tensors with sizes that vary, which the branch reads and which are no operands."""
        self.recorder, self.masks = _C.Recorder(whole=True), []
        for x in self.tensors:
            self.recorder.input(x)
            mask = self.recorder.around(x) | (sum(1 << d for d, n in enumerate(x.shape) if n > 1) if trace.dims else 0)
            self.masks.append(mask)
            if mask:
                self.recorder.dynamic(x, mask)
                trace.values.unsized.append(self.recorder)
        out = checked.call("torch.cond", function, operands, lambda f, args: self._run(trace, f, args))
        self.results, self.spec = tree_flatten(out)
        if not all(isinstance(x, Tensor) for x in self.results):
            checked.refuse_value("torch.cond", "torch.cond: unsupported branch return type", "Branches return tensors.")
        self.recorded = self.recorder.finish(self.results)
        self.extra = [(names[0], rest[0]) for names, op, *rest in self.recorded.nodes() if op is None]
        return [x for _, x in self.extra if self.recorder.around(x)]

    def _run(self, trace, function, operands):
        outer, trace.running = trace.running, self.recorder
        trace.sources.recorder = self.recorder
        self.recorder.start()
        paused, trace.values.is_paused = trace.values.is_paused, False
        try:
            return function(*operands)
        finally:
            trace.values.is_paused = paused
            self.recorder.stop()
            trace.values.resume(outer)
            trace.running = trace.sources.recorder = outer

    def module(self, trace, names, tensors, wraps):
        """The branch as a GraphModule that takes all operands; names: of its placeholders.  wraps: autocast blocks are
        subgraphs, else conversions are calls."""
        from ..fx import GraphModule
        from ._graph import GraphBuilder, number_expressions
        from .graph_signature import InputKind, InputSpec, TensorArgument
        numbers = trace.values.numbers(self.recorder)
        builder = GraphBuilder(self.recorded, trace.mode, trace.sources, numbers, trace.values.all_hints(),
                               trace.values.all_bounds(), trace.values.facts)
        builder.trace = trace
        builder.as_called = wraps
        builder.casts = trace.casts(self.recorded) if wraps else ()
        if any(self.masks):  # nothing is known of the sizes of operands
            builder.sized, builder.exprs = {}, number_expressions(builder.numbers, numbers, {})
        known = dict(zip(map(id, self.tensors), self.recorded.inputs))
        known.update((id(x), name) for name, x in self.extra)
        for name, x in zip(names, tensors):
            spec = InputSpec(InputKind.USER_INPUT, TensorArgument(""), None)
            builder.placeholder(name, spec, x, known.get(id(x)))
        builder.nodes()
        builder.output(self.results, self.recorded.outputs)
        builder.graph.eliminate_dead_code()
        modes = {n.meta.pop(MODE) for n in builder.graph.nodes if MODE in n.meta}
        trace.modes_in_branches |= modes
        if builder.casts:
            for node in builder.graph.nodes:
                if BLOCKS in node.meta:
                    node.meta[MODE] = trace.sources.grad
            wrap_other_modes(builder.graph, builder.modules, trace.sources.grad, self.blocks, {})
        forget_modes(builder.graph)
        return GraphModule(builder.modules, builder.graph)


class CondSite:
    """One call of torch.cond, and its branches."""

    def __init__(self, trace, pred, functions, operands):
        self.branches = [_Branch(trace, f, operands) for f in functions]
        a, b = self.branches
        if a.spec != b.spec:
            raise UncapturedHigherOrderOpError("Unmatched output spec from torch.cond branches: true branch tree_spec "
                                               f"{a.spec} vs false branch tree_spec {b.spec}.")
        checked.check_same("true_fn_output", a.results, "false_fn_output", b.results)
        extra = [x for branch in self.branches for _, x in branch.extra]
        self.tensors = list({id(x): x for x in [*a.tensors, *b.tensors, *extra]}.values())
        names = [f"arg{i}" for i in range(len(self.tensors))]
        self.shape_of = _first_branches(a.module(trace, names, self.tensors, False))
        self.pred, self.number = pred, next(_count)
        _sites[self.number] = self

    def call(self):
        return tree_unflatten(_operator()(self.pred, self.tensors, self.number), self.branches[0].spec)


def _fake_results(pred, operands, site):
    return list(_sites[site].shape_of(*operands))


@functools.cache
def _operator():
    """The operator that stands for each call of torch.cond while it is traced; `site` is the number of its CondSite."""
    from .. import ops
    library = Library(_NAMESPACE, "FRAGMENT")
    library.define("cond(Tensor pred, Tensor[] operands, int site) -> Tensor[]")
    library._register_fake("cond", _fake_results)
    _kept.append(library)
    return getattr(ops, _NAMESPACE).cond


def trace_cond(trace, pred, true_fn, false_fn, operands):
    """Records torch.cond in the call that `trace` traces; returns fakes of its results."""
    with trace.values.paused():
        site = CondSite(trace, pred, (true_fn, false_fn), tuple(operands))
    trace.sites[site.number] = site
    return site.call()


def _size(x, dim):
    """The size of x in this call, as a plain number."""
    n = x.shape[dim]
    if type(n) is _C.Symbol:
        with checked.tracing().values.paused():
            n = x.shape[dim]
    return n


def _first_branches(module):
    """A module whose calls of torch.cond are calls of the first branch: it has the sizes of the results."""
    from .. import ops
    from ..fx import Graph, GraphModule, Node
    graph, at = Graph(), {}
    modules = {name: _first_branches(m) for name, m in module.named_children()}
    for node in module.graph.nodes:
        if node.op == "get_attr" and node.target in modules:
            continue
        if node.target is ops.aten.item.default:
            val = node.meta["val"]
            at[node] = val if isinstance(val, (bool, float)) else int(val)  # the number of the example
        elif node.target is ops.aten.sym_size.int:
            at[node] = graph.call_function(_size, tuple(at[x] if isinstance(x, Node) else x for x in node.args))
        elif node.target is ops.higher_order.cond:
            _, branch, _, operands = node.args
            at[node] = graph.call_module(branch.target, tuple(at[x] for x in operands))
        else:
            at[node] = graph.node_copy(node, at.__getitem__)
    return GraphModule(modules, graph)


def add_site(builder, site, names, arguments, source, trace):
    """Adds the node of a call of torch.cond, and its subgraphs."""
    from .. import ops
    k = sum(name.startswith("true_graph_") for name in builder.modules)
    operands = [builder.value(x) for x in arguments["operands"]]
    graphs = []
    for kind, branch in zip(("true", "false"), site.branches):
        name = f"{kind}_graph_{k}"
        builder.modules[name] = branch.module(trace, [node.name for node in operands], site.tensors, True)
        graphs.append(builder.graph.create_node("get_attr", name, name=name))
    args = (builder.value(arguments["pred"]), *graphs, tuple(operands))
    node = builder.graph.call_function(ops.higher_order.cond, args, name="cond")
    if source:
        node.meta.update(builder.sources.meta(source))
    builder.items(node, names, True)
