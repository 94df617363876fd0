"""Moves nodes of a graph to a submodule."""
import copy
import heapq

from ...graph import Graph
from ...graph_module import GraphModule, _get_attr
from ...proxy import Proxy
from ..tools_common import stable_topological_sort

__all__ = ["topo_sort", "validate_partition", "fuse_as_graphmodule", "insert_subgm", "erase_nodes",
           "fuse_by_partitions"]


def topo_sort(nodes):
    """Sorts the nodes topologically and otherwise keeps their order."""
    place = {node: i for i, node in enumerate(nodes)}
    waits = {node: sum(n in place for n in node.all_input_nodes) for node in nodes}
    ready = [(place[node], node) for node in nodes if not waits[node]]
    done = []
    while ready:
        done.append(heapq.heappop(ready)[1])
        for user in done[-1].users:
            if user in waits:
                waits[user] -= 1
                if not waits[user]:
                    heapq.heappush(ready, (place[user], user))
    if len(done) != len(nodes):
        raise AssertionError(
            "topological sorted nodes doesn't have same length as input nodes")
    return done


def reaches(starts, goals):
    """Returns whether a node in `goals` can be reached from `starts` through users."""
    seen, queue = set(), list(starts)
    while queue:
        node = queue.pop()
        if node in goals:
            return True
        if node not in seen:
            seen.add(node)
            queue.extend(node.users)
    return False


def validate_partition(partition):
    """Returns whether the nodes can be one operation: no path leaves them and returns."""
    inside = set(partition)
    return not reaches([user for node in inside for user in node.users if user not in inside],
                       inside)


def _check(gm, nodes):
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(
                f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")


def fuse_as_graphmodule(gm, nodes, module_name, partition_lookup_table=None, *,
                        always_return_tuple=False):
    """Returns a module with copies of `nodes`, which are in order; the nodes that it needs; and
    the nodes whose values it returns.  The graph does not change."""
    _check(gm, nodes)
    inside = dict.fromkeys(nodes) if partition_lookup_table is None else partition_lookup_table
    graph, inputs, copies = Graph(), {}, {}

    def value(node):
        if node in inside:
            return copies[node]
        if node not in inputs:
            inputs[node] = graph.placeholder(node.name, type_expr=node.type)
            inputs[node].meta = copy.copy(node.meta)
        return inputs[node]
    for node in nodes:
        copies[node] = graph.node_copy(node, value)
    outputs = [node for node in nodes if any(user not in inside for user in node.users)]
    results = tuple(copies[node] for node in outputs)
    graph.output(results if always_return_tuple or len(results) != 1 else results[0])
    graph.lint()
    members = {node.target: _get_attr(gm, node.target) for node in graph.nodes
               if node.op in ("call_module", "get_attr")}
    return GraphModule(members, graph, module_name), tuple(inputs), tuple(outputs)


def _insertion_point(gm, outputs):
    for node in reversed(gm.graph.nodes):
        if node in outputs:
            return node
    raise AssertionError("Cannot determine insertion point: no insertion_point provided and "
                         "orig_outputs is empty. Pass the last partition node as insertion_point.")


def insert_subgm(gm, sub_gm, orig_inputs, orig_outputs, insertion_point=None):
    """Adds a call of `sub_gm` and replaces `orig_outputs` by its results."""
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    after = _insertion_point(gm, orig_outputs) if insertion_point is None else insertion_point
    with gm.graph.inserting_after(after):
        call = gm.graph.call_module(name, args=orig_inputs)
    if not orig_outputs:
        return gm
    single = len(orig_outputs) == 1 and not isinstance(sub_gm.graph.output_node().args[0], tuple)
    if single:
        orig_outputs[0].replace_all_uses_with(call, propagate_meta=True)
        return gm
    with gm.graph.inserting_before(call.next):
        for i, node in enumerate(orig_outputs):
            node.replace_all_uses_with(Proxy(call)[i].node, propagate_meta=True)
    call.meta["val"] = tuple(node.meta.get("val", None) for node in orig_outputs)
    return gm


def erase_nodes(gm, nodes):
    """Removes nodes, last one first."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(gm, partitions, prefix="fused_", always_return_tuple=False):
    """Makes a submodule of every set of nodes: prefix0, prefix1 and so on."""
    for i, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        made, inputs, outputs = fuse_as_graphmodule(gm, nodes, f"{prefix}{i}", partition,
                                                    always_return_tuple=always_return_tuple)
        insert_subgm(gm, made, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    return gm
