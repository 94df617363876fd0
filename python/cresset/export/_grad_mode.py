"""Calls that a program makes in another grad mode than that of the export: one node and one subgraph for each run of them.

    wrap_with_set_grad_enabled = torch.ops.higher_order.wrap_with_set_grad_enabled(False, submod_1, x)
    add = wrap_with_set_grad_enabled[0]
"""
import operator

from .. import Tensor, ops
from ..fx import Graph, GraphModule
from ..fx.node import map_arg

MODE = "_grad_enabled"  # in the metadata of nodes while a graph is built: the grad mode of the call


def _runs(graph, outer):
    """Lists of neighbouring nodes whose calls were in the other mode.  Nodes without a mode, of sizes, join those around them."""
    run, between, out = [], [], []
    for node in graph.nodes:
        mode = node.meta.pop(MODE, None)
        if node.op == "call_function" and mode is None:
            between.append(node)
        elif node.op == "call_function" and mode != outer:
            run += [*(between if run else ()), node]
            between = []
        else:
            if run:
                out.append(run)
            run, between = [], []
    return [*out, run] if run else out


def _common_stack(nodes):
    """The modules that all nodes are in."""
    stacks = [list(n.meta["nn_module_stack"].items()) for n in nodes if "nn_module_stack" in n.meta]
    common = stacks[0] if stacks else []
    for stack in stacks[1:]:
        common = [a for a, b in zip(common, stack) if a == b]
    return dict(common)


def _can_move(run, results):
    """Whether a subgraph can hold the nodes: it has no graphs inside, and gives tensors only."""
    return all(isinstance(n.meta.get("val"), Tensor) for n in results) and not any(
        getattr(n.target, "namespace", "") == "higher_order" for n in run)


class _Region:
    """One run of nodes, moved to a subgraph."""

    def __init__(self, run, results):
        self.run, self.results, self.graph, self.at, self.inputs = run, results, Graph(), {}, []
        inside = set(run)
        for node in run:  # placeholders come first
            map_arg((node.args, node.kwargs), lambda n: self.input(n) if n not in inside else n)
        for node in run:
            self.at[node] = self.graph.node_copy(node, self.at.__getitem__)
        self.graph.output(tuple(self.at[n] for n in results))

    def input(self, node):
        if node not in self.at:
            self.at[node] = new = self.graph.placeholder(node.name)
            new.meta.update(node.meta)
            self.inputs.append(node)
        return node

    def replace(self, graph, name, enabled):
        """Puts one call for the nodes.  The items of its result have the names of the nodes that they replace."""
        items, first = {}, self.run[0]
        with graph.inserting_before(first):
            module = graph.create_node("get_attr", name, name=name)
            call = graph.call_function(ops.higher_order.wrap_with_set_grad_enabled, (enabled, module, *self.inputs),
                                       name="wrap_with_set_grad_enabled")
            call.meta.update({key: first.meta[key] for key in ("stack_trace", "torch_fn") if key in first.meta},
                             nn_module_stack=_common_stack(self.run), val=tuple(n.meta["val"] for n in self.results))
            for k, node in enumerate(self.results):
                item = graph.call_function(operator.getitem, (call, k))
                item.meta.update(node.meta)
                node.replace_all_uses_with(item)
                items[item] = node.name
        for node in reversed(self.run):
            graph.erase_node(node)
        for item, name in items.items():
            item.name = name
            graph._graph_namespace._rename_object(item, name)


def wrap_other_modes(graph, modules, outer):
    """Moves the calls that were in the other mode than `outer` to subgraphs, which are added to `modules`.  Returns
    whether all such calls were moved."""
    count, complete = 0, True
    for run in _runs(graph, outer):
        inside = set(run)
        results = [n for n in run if any(user not in inside for user in n.users)]
        if not _can_move(run, results):
            complete = False
            continue
        region, name = _Region(run, results), f"submod_{2 * count + 1}"  # torch numbers the parts between them, too
        count += 1
        modules[name] = GraphModule({}, region.graph, name)
        region.replace(graph, name, not outer)
    return complete
