"""Finds subgraphs that match a pattern."""
import copy
from dataclasses import dataclass, field

import cresset
from ...graph_module import _get_attr
from ...node import Node
from .fuser_utils import validate_partition

__all__ = ["SubgraphMatcher", "InternalMatch"]


@dataclass
class InternalMatch:
    """A match: the graph's node for each node of the pattern."""

    anchors: list
    nodes_map: dict = field(default_factory=dict)
    placeholder_nodes: list = field(default_factory=list)
    returning_nodes: list = field(default_factory=list)
    name_node_map: dict = field(default_factory=dict)

    def __copy__(self):
        return InternalMatch(self.anchors, dict(self.nodes_map), list(self.placeholder_nodes),
                             list(self.returning_nodes))


def _computes(node):
    return node.op not in ("placeholder", "output")


class SubgraphMatcher:
    """Finds `pattern` in graphs.  Its placeholders match any value."""

    def __init__(self, pattern, match_output=False, match_placeholder=False,
                 remove_overlapping_matches=True, ignore_literals=False):
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if not len(pattern.nodes):
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        if any(n.op != "output" and not n.is_impure() and not n.users for n in pattern.nodes):
            raise AssertionError(
                "SubgraphMatcher cannot be initialized with an pattern with dead code")
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        self.pattern_returning_nodes = output.all_input_nodes
        # Matching starts at the values that only the output uses and follows arguments.
        self.pattern_anchors = [output] if match_output else [
            n for n in output.all_input_nodes if len(n.users) == 1]

    # One node.

    @staticmethod
    def _match_attributes(pn, gn):
        ours = _get_attr(pn.graph.owning_module, pn.target)
        theirs = _get_attr(gn.graph.owning_module, gn.target)
        if type(ours) is not type(theirs):
            return False
        if not isinstance(ours, cresset.Tensor):
            raise RuntimeError(f"Unsupported type {ours} when matching attributes")
        return True

    def _nodes_are_equal(self, pn, gn, node_name_match=""):
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op == "get_attr":
            return self._match_attributes(pn, gn)
        return not _computes(pn) or pn.target == gn.target

    @staticmethod
    def _match_literals(pn, gn, match):
        if isinstance(pn, Node):
            if pn.op != "placeholder":
                return False
            return match.nodes_map.setdefault(pn, gn) == gn
        return not isinstance(gn, Node) and type(gn) is type(pn) and gn == pn

    @staticmethod
    def _arguments(pn, gn):
        """Returns both nodes' arguments in order; None when they are passed differently."""
        if len(pn.args) == len(gn.args) and list(pn.kwargs) == list(gn.kwargs):
            return [[*n.args, *n.kwargs.values()] for n in (pn, gn)]
        schema = getattr(pn.target, "_schema", None) if pn.op == "call_function" else None
        if schema is None:
            return None
        return [[n.kwargs[a.name] if a.name in n.kwargs else
                 n.args[i] if not a.kwarg_only and i < len(n.args) else a.default_value
                 for i, a in enumerate(schema.arguments)] for n in (pn, gn)]

    def _match_args(self, ours, theirs, match):
        if len(ours) != len(theirs):
            return False
        return all(self._match_arg(a, b, match) for a, b in zip(ours, theirs))

    def _match_arg(self, a, b, match):
        if isinstance(a, Node) and isinstance(b, Node):
            return self._match_nodes(a, b, match)
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            return self._match_args(a, b, match)
        return self._match_literals(a, b, match) or self.ignore_literals

    def _match_nodes(self, pn, gn, match, node_name_match=""):
        if pn in match.nodes_map:
            return match.nodes_map[pn] == gn
        if gn in match.nodes_map.values() or not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        arguments = self._arguments(pn, gn)
        return arguments is not None and self._match_args(*arguments, match)

    # Whole patterns.

    def _extend(self, anchors, match, graph, name, found):
        """Adds to `found` all matches of the remaining anchors."""
        if not anchors:
            match.placeholder_nodes = [match.nodes_map[n] for n in self.pattern_placeholder_nodes]
            match.returning_nodes = [match.nodes_map[n] for n in self.pattern_returning_nodes]
            found.append(match)
            return
        for node in graph.nodes:
            attempt = copy.copy(match)
            if (self._nodes_are_equal(anchors[0], node, name) and
                    self._match_nodes(anchors[0], node, attempt, name)):
                self._extend(anchors[1:], attempt, graph, name, found)

    def _is_contained(self, nodes_map):
        """Returns whether inner values of the match are used only inside it."""
        inside = {gn: pn for pn, gn in nodes_map.items() if pn.op != "placeholder"}
        return all(user in inside for gn, pn in inside.items()
                   if pn not in self.pattern_returning_nodes for user in gn.users)

    @staticmethod
    def _without_overlaps(matches):
        kept, taken = [], set()
        for match in matches:
            nodes = {gn for pn, gn in match.nodes_map.items() if _computes(pn)}
            if not nodes & taken:
                kept.append(match)
                taken |= nodes
        return kept

    def match(self, graph, node_name_match=""):
        """Returns all matches in `graph`, in the order of their first anchors."""
        found = []
        if self.pattern_anchors:
            self._extend(self.pattern_anchors, InternalMatch(self.pattern_anchors), graph,
                         node_name_match, found)
        found = [m for m in found if self._is_contained(m.nodes_map) and validate_partition(
            [gn for pn, gn in m.nodes_map.items() if _computes(pn)])]
        return self._without_overlaps(found) if self.remove_overlapping_matches else found
