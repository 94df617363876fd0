"""Replaces subgraphs by other graphs."""
import copy
from dataclasses import dataclass
from typing import NamedTuple

from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node

__all__ = ["Match", "replace_pattern", "replace_pattern_with_filters", "ReplacedPatterns"]


class Match(NamedTuple):
    """A replaced match: the pattern's last node, and the graph's node for each pattern node."""

    anchor: Node
    nodes_map: dict


@dataclass
class ReplacedPatterns:
    """A replaced match, with the nodes that replaced it."""

    anchor: Node
    nodes_map: dict
    replacements: list


def _graph_of(pattern):
    if isinstance(pattern, GraphModule):
        return pattern.graph
    return pattern if isinstance(pattern, Graph) else symbolic_trace(pattern).graph


def _member(module, target):
    path, _, name = target.rpartition(".")
    try:
        return getattr(module.get_submodule(path), name, None)
    except AttributeError:
        return None


def _take_attributes(gm, replacement):
    """Copies attributes that new nodes need from the replacement to the module."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _member(gm, node.target) is not None:
            continue
        value = copy.deepcopy(_member(replacement, node.target))
        if value is None:
            raise RuntimeError(
                'Attempted to create a "', node.op, '" node during subgraph rewriting with target '
                f"{node.target}, but the referenced attribute does not exist in the replacement "
                "GraphModule")
        if isinstance(value, Module):
            gm.add_submodule(node.target, value)
        else:
            setattr(gm, node.target, value)
    gm.graph.lint()


def _insert_point(graph, match):
    """Returns the first user of the match's result, or the node after its last."""
    users = {user for node in match.returning_nodes for user in node.users}
    if users:
        return next(node for node in graph.nodes if node in users)
    after = None
    for node in reversed(graph.nodes):
        if node in match.returning_nodes:
            break
        after = node
    if after is None:
        raise AssertionError("The insert point can't be None")
    return after


class _Rewriter:
    """Replaces the matches in one graph, one after the other."""

    def __init__(self, gm, pattern_graph):
        self.gm = gm
        self.pattern = pattern_graph
        self.replaced = {}  # removed nodes -> their replacements

    def _inputs(self, match, replacement):
        """Returns the replacement's placeholders and their values."""
        placeholders = [n for n in replacement.nodes if n.op == "placeholder"]
        if len(match.placeholder_nodes) != len(placeholders):
            raise AssertionError(f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs "
                                 f"{len(placeholders)}")
        # An earlier replacement may have replaced an input.
        for pn, gn in match.nodes_map.items():
            if pn.op == "placeholder" and isinstance(gn, Node):
                match.nodes_map[pn] = self.replaced.get(gn, gn)
        match.placeholder_nodes = [self.replaced.get(n, n) if isinstance(n, Node) else n
                                   for n in match.placeholder_nodes]
        return dict(zip(placeholders, match.placeholder_nodes))

    def replace(self, match, replacement):
        """Replaces the match by a copy of `replacement`."""
        graph = self.gm.graph
        val_map = self._inputs(match, replacement)
        with graph.inserting_before(_insert_point(graph, match)):
            values = graph.graph_copy(replacement, val_map)
        values = (values,) if isinstance(values, Node) else values
        if len(match.returning_nodes) != len(values):
            raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} "
                                 f"vs {len(values)}")
        for old, new in zip(match.returning_nodes, values):
            old.replace_all_uses_with(new)
            self.replaced[old] = new
        for pn in reversed(self.pattern.nodes):
            if pn.op not in ("placeholder", "output"):
                graph.erase_node(match.nodes_map[pn])
        return ReplacedPatterns(match.anchors[0], match.nodes_map, [
            n for n in val_map.values() if n not in match.placeholder_nodes])


def replace_pattern_with_filters(gm, pattern, replacement=None, match_filters=None,
                                 ignore_literals=False, replacement_callback=None,
                                 node_name_match=""):
    """replace_pattern with filters that select matches, each f(match, graph, pattern).

    `replacement_callback`, with the same arguments, returns a graph for each match.
    """
    from .passes.utils.matcher_utils import SubgraphMatcher
    pattern_graph = _graph_of(pattern)
    if replacement is None and replacement_callback is None:
        raise AssertionError(
            "Must provide either a replacement GraphModule or a replacement callback")
    common = None if replacement is None else _graph_of(replacement)
    matches = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals).match(
        gm.graph, node_name_match=node_name_match)
    matches = [m for m in matches
               if all(f(m, gm.graph, pattern_graph) for f in match_filters or ())]
    rewriter, done = _Rewriter(gm, pattern_graph), []
    for match in matches:
        graph = (common if replacement_callback is None
                 else replacement_callback(match, gm.graph, pattern_graph))
        done.append(rewriter.replace(match, graph))
    gm.recompile()
    if isinstance(replacement, Module):
        _take_attributes(gm, replacement)
    return done


def replace_pattern(gm, pattern, replacement):
    """Replaces the subgraphs of a module that match `pattern`, without overlaps.

    Both are functions or modules.  Their parameters match by position.
    """
    return [Match(m.anchor, m.nodes_map)
            for m in replace_pattern_with_filters(gm, pattern, replacement)]
