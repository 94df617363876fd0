"""Calls that a program makes in another grad mode than that of the export, or in autocast blocks: one node and one subgraph
for each run of them.

    submod_3 = self.submod_1
    linear = torch.ops.higher_order.wrap_with_autocast('cpu', torch.bfloat16, True, False, submod_3, x, p_weight, p_bias)
    getitem = linear[0]

Names are torch's.  It splits a graph at the changes of a mode, so the parts between subgraphs have numbers, too.
"""
import operator

from .. import Tensor, is_grad_enabled, ops
from ..fx import Graph, GraphModule
from ..fx.node import map_arg

MODE = "_grad_enabled"  # in the metadata of nodes while a graph is built: the grad mode of the call
BLOCKS = "_autocast"    # the same: the autocast blocks that are open, the outermost first
_GRAD, _AUTOCAST = "wrap_with_set_grad_enabled", "wrap_with_autocast"


class AutocastBlock:
    """One run of an autocast block of the program."""

    def __init__(self, context):
        self.args = (context.device, context.fast_dtype, context._enabled, context._cache_enabled)
        self.grad = is_grad_enabled()  # before the block


def _next_mode(node, grad, depth):
    """(operator, its first arguments) of the outermost mode of a call, in a graph inside of `depth` blocks; None: that of
    the graph."""
    blocks, mode = node.meta.get(BLOCKS, ()), node.meta.get(MODE)
    if len(blocks) > depth:
        block = blocks[depth]
        return (_GRAD, block.grad) if block.grad != grad else (_AUTOCAST, block)
    return (_GRAD, mode) if mode is not None and mode != grad else None


def _runs(graph, grad, depth):
    """[(mode or None, neighbouring calls of that mode)].  Nodes without a mode, of sizes, join those around them."""
    out, between = [], []
    for node in graph.nodes:
        if node.op == "get_attr" or node.op == "call_function" and MODE not in node.meta:
            between.append(node)
        elif node.op == "call_function":
            mode = _next_mode(node, grad, depth)
            if out and out[-1][0] == mode:
                out[-1][1].extend([*between, node])
            else:
                out.append((mode, [node]))
            between = []
    return [*out, (None, between)] if between else out


def _numbers(runs, kind):
    """The numbers of the subgraphs of one kind, by the place of their run, and that of the last part."""
    at, n = {}, 0
    for k, (mode, _) in enumerate(runs):
        if mode is not None and mode[0] == kind:
            n += 1
            at[k] = n
            following = runs[k + 1][0] if k + 1 < len(runs) else mode
            n += kind == _GRAD or following is None or following[0] != kind
    return at, n


def _common_stack(nodes):
    """The modules that all nodes are in."""
    stacks = [list(n.meta["nn_module_stack"].items()) for n in nodes if "nn_module_stack" in n.meta]
    common = stacks[0] if stacks else []
    for stack in stacks[1:]:
        common = [a for a, b in zip(common, stack) if a == b]
    return dict(common)


def _hoist(run):
    """Moves numbers before the run that are needed after it and do not depend on its tensors.  Returns the other nodes."""
    inside, moved = set(run), set()

    def is_free(node):
        return node not in inside or node in moved or not isinstance(node.meta.get("val"), (Tensor, tuple, list)) and \
            node.op == "call_function" and MODE not in node.meta and all(map(is_free, node.all_input_nodes))

    def move(node):
        if node in inside and node not in moved:
            for x in node.all_input_nodes:
                move(x)
            moved.add(node)
    for node in run:
        if any(user not in inside for user in node.users) and is_free(node):
            move(node)
    left = [n for n in run if n not in moved]
    for node in run if left else ():
        if node in moved:
            left[0].prepend(node)
    return left


class _Region:
    """One run of nodes, moved to a subgraph.  names: of its placeholders for nodes that are placeholders of the program."""

    def __init__(self, run, modules, names):
        self.run, self.graph, self.at, self.inputs = run, Graph(), {}, []
        self.outer, self.modules, self.inside = modules, {}, set(run)
        self.results, self.moved = self._results(), []
        for node in run:  # placeholders come first
            map_arg((node.args, node.kwargs), lambda n: self.input(n, names) if n not in self.inside else n)
        for node in run:
            self.copy(node)
        self.graph.output(tuple(self.at[n] for n in self.results))

    def _results(self):
        """The nodes that others use, in the order of their first use."""
        out, node, root = {}, self.run[-1].next, self.run[0].graph._root
        while node is not root:
            out.update((x, None) for x in node.all_input_nodes if x in self.inside and x.op != "get_attr")
            node = node.next
        return list(out)

    def input(self, node, names):
        if node.op != "get_attr" and node not in self.at:
            self.at[node] = new = self.graph.placeholder(names.get(node.name, node.name))
            new.meta.update(node.meta)
            new.meta.pop(MODE, None)
            new.meta.pop(BLOCKS, None)
            self.inputs.append(node)
        return node

    def copy(self, node):
        for x in node.all_input_nodes:
            if x.op == "get_attr" and x not in self.at:
                self.copy(x)
        if node.op == "get_attr" and node.target in self.outer:
            self.modules[node.target] = self.outer[node.target]
            self.moved.append(node.target)
        self.at[node] = self.graph.node_copy(node, self.at.__getitem__)

    def replace(self, graph, mode, name, attribute):
        """Puts one call for the nodes.  Its only result has a new name, several results have the names of the nodes."""
        kind, first, before = mode[0], self.run[0], {n: n.name for n in self.results}
        arguments = (mode[1],) if kind == _GRAD else mode[1].args
        single = len(self.results) == 1
        with graph.inserting_before(first):
            module = graph.create_node("get_attr", name, name=attribute)
            call = graph.call_function(getattr(ops.higher_order, kind), (*arguments, module, *self.inputs), name=kind)
            call.meta.update({key: first.meta[key] for key in ("torch_fn",) if key in first.meta},
                             nn_module_stack=_common_stack(self.run), val=tuple(n.meta.get("val") for n in self.results))
            items = {}
            for k, node in enumerate(self.results):
                item = items[node] = graph.call_function(operator.getitem, (call, k))
                item.meta.update(node.meta)
                node.replace_all_uses_with(item)
        used = [x for n in self.run for x in n.all_input_nodes if x.op == "get_attr" and x not in self.inside]
        for node in reversed(self.run):
            graph.erase_node(node)
        for node in dict.fromkeys(used):
            graph.erase_node(node)
        for target in self.moved:
            del self.outer[target]
        for node, item in items.items():
            new = call if single else item
            new.name = before[node]
            graph._graph_namespace._rename_object(new, before[node])
        return {item.name: before[node] for node, item in items.items()}


def wrap_other_modes(graph, modules, grad, depth=0, names=None):
    """Moves the calls in another grad mode than `grad`, and those in autocast blocks inside of `depth` blocks, to subgraphs,
    which are added to `modules`."""
    if names is None:
        names = {n.name: f"arg{i}_1" for i, n in enumerate(n for n in graph.nodes if n.op == "placeholder")}
    runs, known = _runs(graph, grad, depth), {}  # known: {name of a result: its name in the subgraph}
    for kind in (_GRAD, _AUTOCAST):
        at, last = _numbers(runs, kind)
        for k, number in at.items():
            mode, run = runs[k][0], _hoist(runs[k][1])
            region = _Region(run, modules, {**known, **names} if kind == _AUTOCAST else known)
            inner = (mode[1], depth) if kind == _GRAD else (grad, depth + 1)
            wrap_other_modes(region.graph, region.modules, *inner, names)
            while f"submod_{number}" in modules:
                number += 1
            name, last = f"submod_{number}", last + 1
            modules[name] = GraphModule(region.modules, region.graph, name)
            known.update(region.replace(graph, mode, name, f"submod_{last}"))


def forget_modes(graph):
    """Removes the modes from the metadata of the nodes."""
    for node in graph.nodes:
        node.meta.pop(MODE, None)
        node.meta.pop(BLOCKS, None)
