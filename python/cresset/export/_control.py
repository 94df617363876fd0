"""Functions inside of exported programs: the branches of torch.cond, and the functions of while_loop, scan, map and
associative_scan.  Each function is a graph, and the call is one node.

While the outer call is traced, a function is recorded separately.  Tensors that it reads and that are no operands become
operands.  The outer recording gets a call of an operator that has the results' sizes (`_fake_results`), which the exported
graph replaces by a call of torch.ops.higher_order and the functions' graphs.
"""
import functools
import itertools
import weakref

from .. import Tensor, _C, bool as bool_dtype, empty_like, where
from .._dynamo.exc import UncapturedHigherOrderOpError, UserError
from .._higher_order_ops import checked
from ._fakes import make_fake
from ._grad_mode import BLOCKS, MODE, forget_modes, wrap_other_modes
from ..library import Library
from ..utils._pytree import tree_flatten, tree_leaves, tree_unflatten

_count = itertools.count()
_NAMESPACE = "cresset_export"
OPERATOR = f"{_NAMESPACE}::call"
_sites = weakref.WeakValueDictionary()  # number -> Site of a call that is traced now
_kept = []                              # the Library of the operator


def _slice_of(trace, x):
    """A tensor of the sizes of a slice of x along its first dim, for a function to be recorded with."""
    return make_fake(trace.mode, (x.dtype, x.size()[1:], x.stride()[1:], x.device, x.requires_grad))


class _Function:
    """A function, recorded.  name: of the operator that takes it.  stands: id of an operand -> the tensor of the program of
    which it has the sizes, and how many of its first dims it lacks; other operands are themselves tensors of the program."""

    def __init__(self, trace, name, function, operands, stands=None):
        self.name, self.stands, self.kind = name, stands or {}, "branch" if name == "torch.cond" else "function"
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
                checked.refuse(name, f"{name}: a {self.kind} uses a number that varies and that it does not compute",
                               "Its operands are tensors.", f"Compute the number in the {self.kind}, from a tensor or its size.")
            more = {id(x): x for x in [*more, *used]}
            if not more:
                break
            self.tensors += more.values()  # their sizes vary in the branch, too
            values.symbols, values.facts, values.sites = dict(kept[0]), list(kept[1]), dict(kept[2])
        if self.recorded.guards and any(self.masks):
            raise UserError(f"{name}: a {self.kind} compares a size that varies, which an exported {self.kind} cannot do")

    def _record(self, trace, function, operands):
        """Records a call.  Returns the tensors with sizes that vary, which the function reads and which are no operands."""
        self.recorder, self.masks = _C.Recorder(whole=True), []
        for x in self.tensors:
            self.recorder.input(x)
            of, lacks = self.stands.get(id(x), (x, 0))
            mask = self.recorder.around(of) >> lacks
            mask |= sum(1 << d for d, n in enumerate(x.shape) if n > 1) if trace.dims else 0
            self.masks.append(mask)
            if mask:
                self.recorder.dynamic(x, mask)
                trace.values.unsized.append(self.recorder)
        out = checked.call(self.name, function, operands, lambda f, args: self._run(trace, f, args))
        self.results, self.spec = tree_flatten(out)
        if not all(isinstance(x, Tensor) for x in self.results):
            checked.refuse_value(self.name, f"{self.name}: unsupported {self.kind} return type", "Such functions return tensors.")
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

    def module(self, trace, names, tensors, wraps, single=False):
        """The function as a GraphModule that takes `tensors`; names: of its placeholders.  wraps: autocast blocks are
        subgraphs, else conversions are calls.  single: the graph returns its result, not a tuple of results."""
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
        builder.output(self.results, self.recorded.outputs, single)
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


class Site:
    """A call of an operator that takes functions.

        name       of the operator
        graphs     the name of each function's graph
        functions  each function's _Function
        outer      the tensors of the program that the node's first lists have, in order
        inner      what stands for each of them inside of the functions
    """

    single = False  # whether the first function returns its result, not a tuple of results

    def keep(self, trace, outer, inner):
        """Sets the operands: the given ones, and those that the functions read besides."""
        given = set(map(id, inner))
        more = [x for f in self.functions for x in f.tensors] + [x for f in self.functions for _, x in f.extra]
        more = [x for x in more if id(x) not in given]
        self.more = list({id(x): x for x in more}.values())
        self.outer, self.inner = [*outer, *self.more], [*inner, *self.more]
        self.enroll(self.modules(trace, [f"arg{i}" for i in range(len(self.inner))], False))

    def enroll(self, modules):
        """Sets what computes the results' sizes, and the number.  modules: of the functions."""
        from ..fx import Graph, GraphModule
        graph, owned = Graph(), {}
        nodes = [graph.placeholder(f"x{i}") for i in range(len(self.operands()))]
        graph.output(self.node(graph, owned, modules, nodes))
        self.shape_of = _shapes(GraphModule(owned, graph))
        self.number = next(_count)
        _sites[self.number] = self

    def modules(self, trace, names, wraps):
        return [f.module(trace, names, self.inner, wraps, self.single and f is self.functions[0]) for f in self.functions]

    def call(self):
        """Records the call.  Returns its results, in order."""
        return _operator()(self.operands(), self.number)

    def operands(self):
        return self.outer

    def sizes(self, sized):
        """{id of a tensor inside: its sizes}.  sized: the sizes of each of operands(), or None."""
        return {id(x): known and known[self.functions[0].stands.get(id(x), (x, 0))[1]:]
                for x, known in zip(self.inner, sized[len(sized) - len(self.inner):])}

    def names(self, nodes):
        """The names of the placeholders of the functions' graphs."""
        return [f"arg{i}_1" for i in range(len(nodes))]

    def node(self, graph, owned, modules, nodes):
        """Adds the node of the call to a graph, and the functions' modules to its modules.  nodes: of operands()."""
        from .. import ops
        k = sum(name.startswith(self.graphs[0]) for name in owned)
        graphs = []
        for name, module in zip(self.graphs, modules):
            owned[f"{name}_{k}"] = module
            graphs.append(graph.create_node("get_attr", f"{name}_{k}", name=f"{name}_{k}"))
        return graph.call_function(getattr(ops.higher_order, self.name), self.arguments(graphs, nodes), name=self.name)

    def add(self, builder, names, arguments, source, trace):
        """Adds the node of the call, and the functions' graphs."""
        nodes = [builder.value(x) for x in arguments["operands"]]
        node = self.node(builder.graph, builder.modules, self.modules(trace, self.names(nodes), True), nodes)
        if source:
            node.meta.update(builder.sources.meta(source))
        builder.items(node, names, True)


class _CondSite(Site):
    name, graphs = "cond", ("true_graph", "false_graph")

    def __init__(self, trace, pred, functions, operands):
        self.functions = [_Function(trace, "torch.cond", f, operands) for f in functions]
        a, b = self.functions
        if a.spec != b.spec:
            raise UncapturedHigherOrderOpError("Unmatched output spec from torch.cond branches: true branch tree_spec "
                                               f"{a.spec} vs false branch tree_spec {b.spec}.")
        checked.check_same("true_fn_output", a.results, "false_fn_output", b.results)
        self.pred = pred
        self.keep(trace, (), ())

    def operands(self):
        return [self.pred, *self.outer]

    def names(self, nodes):
        return [node.name for node in nodes[1:]]

    def arguments(self, graphs, nodes):
        return (nodes[0], *graphs, tuple(nodes[1:]))


class _LoopSite(Site):
    name, graphs, single = "while_loop", ("while_loop_cond_graph", "while_loop_body_graph"), True

    def __init__(self, trace, name, cond_fn, body_fn, leaves, spec):
        inner = [make_fake(trace.mode, (x.dtype, x.size(), x.stride(), x.device, x.requires_grad)) for x in leaves]
        stands = {id(a): (b, 0) for a, b in zip(inner, leaves)}
        self.count, carried = len(leaves), tree_unflatten(inner, spec)
        self.functions = [_Function(trace, name, f, carried, stands) for f in (cond_fn, body_fn)]
        condition, body = self.functions
        pred = condition.results
        if len(pred) != 1 or pred[0].dim() or pred[0].dtype != bool_dtype:
            raise RuntimeError(f"cond_fn must return a boolean scalar tensor or a boolean but got {pred[0] if len(pred) == 1 else pred}")
        checked.check_same("body_fn_output", body.results, "carried_inputs", leaves)
        self.keep(trace, leaves, inner)

    def arguments(self, graphs, nodes):
        return (*graphs, tuple(nodes[:self.count]), tuple(nodes[self.count:]))


class _ScanSite(Site):
    """scan, and map, which is a scan that carries nothing."""

    def __init__(self, trace, kind, name, function, carry, xs, operands):
        self.name = kind
        self.graphs = ("scan_combine_graph",) if kind == "scan" else ("body_graph",)
        slices = [_slice_of(trace, x) for x in xs]
        inner = [make_fake(trace.mode, (x.dtype, x.size(), x.stride(), x.device, x.requires_grad)) for x in carry]
        stands = {id(a): (b, 0) for a, b in zip(inner, carry)}
        stands.update((id(a), (b, 1)) for a, b in zip(slices, xs))
        self.carried, self.count = len(carry), len(carry) + len(xs)
        self.functions = [_Function(trace, name, function, (inner, slices, *operands), stands)]
        found = self.functions[0].results
        checked.check_same("init", carry, "carry", found[:len(carry)])
        given = [x for x in tree_leaves(operands) if isinstance(x, Tensor)]
        self.keep(trace, [*carry, *xs, *given], [*inner, *slices, *given])

    def names(self, nodes):
        return [node.name for node in nodes] if self.name == "map_impl" else super().names(nodes)

    def arguments(self, graphs, nodes):
        carry, xs, more = nodes[:self.carried], nodes[self.carried:self.count], nodes[self.count:]
        return (*graphs, list(carry), list(xs), tuple(more)) if self.name == "scan" else (*graphs, list(xs), list(more))


class _AssociativeSite(Site):
    name, graphs = "associative_scan", ("associative_scan_combine_graph",)

    def __init__(self, trace, function, xs):
        pairs = [[_slice_of(trace, x) for x in xs] for _ in range(2)]
        stands = {id(a): (b, 1) for part in pairs for a, b in zip(part, xs)}
        self.count = len(xs)
        self.functions = [_Function(trace, "torch.ops.higher_order.associative_scan", function, pairs, stands)]
        checked.check_same("combine_fn_output", self.functions[0].results, "xs", pairs[0])
        self.keep(trace, [*xs, *xs], [*pairs[0], *pairs[1]])

    def operands(self):
        return self.outer[self.count:]

    def sizes(self, sized):
        return super().sizes([*sized[:self.count], *sized])

    def names(self, nodes):
        return super().names(self.inner)

    def arguments(self, graphs, nodes):
        return (*graphs, list(nodes[:self.count]), tuple(nodes[self.count:]))


def _fake_results(operands, site):
    return list(_sites[site].shape_of(*operands))


@functools.cache
def _operator():
    """The operator that stands for each call of such an operator while it is traced; `site` is the number of its Site."""
    from .. import ops
    library = Library(_NAMESPACE, "FRAGMENT")
    library.define("call(Tensor[] operands, int site) -> Tensor[]")
    library._register_fake("call", _fake_results)
    _kept.append(library)
    return getattr(ops, _NAMESPACE).call


def trace_cond(trace, pred, true_fn, false_fn, operands):
    """Records torch.cond in the call that `trace` traces; returns fakes of its results."""
    with trace.values.paused():
        site = _CondSite(trace, pred, (true_fn, false_fn), tuple(operands))
    trace.sites[site.number] = site
    return tree_unflatten(site.call(), site.functions[0].spec)


def trace_loop(trace, name, cond_fn, body_fn, leaves, spec):
    """Records while_loop; returns fakes of the carried tensors after it."""
    with trace.values.paused():
        site = _LoopSite(trace, name, cond_fn, body_fn, leaves, spec)
    trace.sites[site.number] = site
    return tree_unflatten(site.call(), spec)


def trace_scan(trace, kind, name, function, carry, xs, operands=()):
    """Records scan or map_impl along the first dim.  function(carry, slices, *operands) returns lists: a carry and outputs.
    Returns lists: the last carry and the stacked outputs."""
    def flat(carry, slices, *operands):
        found, outputs = function(carry, slices, *operands)
        return [*found, *outputs]
    with trace.values.paused():
        site = _ScanSite(trace, kind, name, flat, carry, xs, operands)
    trace.sites[site.number] = site
    found = site.call()
    return found[:len(carry)], found[len(carry):]


def trace_associative_scan(trace, function, xs):
    """Records associative_scan along the first dim; function(a, b) takes and returns lists of slices."""
    with trace.values.paused():
        site = _AssociativeSite(trace, function, xs)
    trace.sites[site.number] = site
    return site.call()


def _size(x, dim):
    """The size of x in this call, as a plain number."""
    n = x.shape[dim]
    if type(n) is _C.Symbol:
        with checked.tracing().values.paused():
            n = x.shape[dim]
    return n


def _like(tensors):
    return [empty_like(x) for x in tensors]


def _scan_shapes(function, carried, count, operands):
    """Tensors of the sizes of a scan's results.  operands: the carry, from `carried` to `count` what is scanned, and others."""
    xs = operands[carried:count]
    found = function(*operands[:carried], *(x.select(0, 0) for x in xs), *operands[count:])
    rows = xs[0].flatten(1).sum(1) != 0 if xs[0].dim() > 1 else xs[0] != 0  # a tensor of as many elements as there are steps

    def stacked(x):
        return where(rows.reshape((-1, *[1] * x.dim())), x, x)
    return [*map(empty_like, found[:carried]), *map(stacked, found[carried:])]


def _shapes(module):
    """A module that has the sizes of a function's results, without its branches and loops: a call of torch.cond is a call of
    the first branch, the results of a loop are the carried tensors, and a scan is one step."""
    from .. import ops
    from ..fx import Graph, GraphModule, Node
    hop, graph, at = ops.higher_order, Graph(), {}
    modules = {name: _shapes(m) for name, m in module.named_children()}

    def given(x):
        return at[x] if isinstance(x, Node) else [given(y) for y in x] if isinstance(x, (list, tuple)) else x
    for node in module.graph.nodes:
        if node.op == "get_attr" and node.target in modules:
            continue
        if node.target is ops.aten.item.default:
            val = node.meta["val"]
            at[node] = val if isinstance(val, (bool, float)) else int(val)  # the number of the example
        elif node.target is ops.aten.sym_size.int:
            at[node] = graph.call_function(_size, tuple(map(given, node.args)))
        elif node.target is hop.cond:
            _, branch, _, operands = node.args
            at[node] = graph.call_module(branch.target, tuple(given(operands)))
        elif node.target is hop.while_loop:
            at[node] = graph.call_function(_like, (given(node.args[2]),))
        elif node.target is hop.associative_scan:
            at[node] = graph.call_function(_like, (given(node.args[1]),))
        elif node.target in (hop.scan, hop.map_impl):
            step, *lists = node.args
            lists = [given(x) for x in lists] if node.target is hop.scan else [[], *map(given, lists)]
            carry, xs, more = lists
            step = graph.create_node("get_attr", step.target)
            at[node] = graph.call_function(_scan_shapes, (step, len(carry), len(carry) + len(xs), [*carry, *xs, *more]))
        else:
            at[node] = graph.node_copy(node, at.__getitem__)
    return GraphModule(modules, graph)
