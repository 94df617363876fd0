"""Sorting of nodes, and names of call targets."""
import collections
import heapq
import operator

from ..graph import Graph
from ..node import _get_qualified_name

__all__ = ["CALLABLE_NODE_OPS", "get_node_target", "is_node_output_tensor", "legalize_graph",
           "stable_topological_sort"]

CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_node_target(submodules, node):
    """Returns the name of a node's target: a module's class, a function or a method."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(CALLABLE_NODE_OPS)}, but found "
                             f"{node.op}")
    if node.op == "call_module":
        module = submodules[node.target]
        return _get_qualified_name(getattr(module, "_base_class_origin", type(module)))
    return _get_qualified_name(node.target) if node.op == "call_function" else node.target


def is_node_output_tensor(node):
    """Returns whether a pass has noted that the node makes a tensor."""
    from ... import Tensor
    kind = node.meta.get("type", None)
    return kind is not None and issubclass(kind, Tensor)


def stable_topological_sort(gm):
    """Sorts the nodes topologically and otherwise keeps their order."""
    place = {node: i for i, node in enumerate(gm.graph.nodes)}
    waits = {node: len(node._input_nodes) for node in place}
    ready = [(place[node], node) for node in place if not waits[node]]
    graph, copies = Graph(), {}
    while ready:
        _, node = heapq.heappop(ready)
        copies[node] = graph.node_copy(node, copies.__getitem__)
        for user in node.users:
            waits[user] -= 1
            if not waits[user]:
                heapq.heappush(ready, (place[user], user))
    if len(copies) != len(place):
        raise AssertionError("Input graph has cycles, unable to add "
                             f"{[node for node in place if waits[node]]}")
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


# Functions that compute sizes.  These nodes are placed as early as possible.
_EARLY = {operator.add, operator.mul, operator.sub, operator.floordiv, operator.truediv, operator.mod,
          operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne}


def legalize_graph(gm):
    """Sorts the nodes topologically."""
    waits = {node: len(node._input_nodes) for node in gm.graph.nodes}
    ready = collections.deque(node for node in waits if not waits[node])
    graph, copies = Graph(), {}
    while ready:
        node = ready.popleft()
        copies[node] = graph.node_copy(node, copies.__getitem__)
        for user in node.users:
            waits[user] -= 1
            if not waits[user]:
                early = user.op == "call_function" and user.target in _EARLY
                (ready.appendleft if early else ready.append)(user)
    if len(copies) < len(waits):
        raise RuntimeError("Input graph has cycles, unable to add "
                           f"{[node for node in waits if waits[node]]}")
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm
