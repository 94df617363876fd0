"""Partitions a graph for a backend, in parts as large as dependences allow."""
from ...node import _get_qualified_name
from ..utils.fuser_utils import fuse_by_partitions

__all__ = ["Partition", "CapabilityBasedPartitioner"]


class Partition:
    """Nodes that become one submodule."""

    def __init__(self, id=None, nodes=None, node_orders=None):
        nodes = list(nodes or ())
        orders = [None] * len(nodes) if node_orders is None else list(node_orders)
        if len(nodes) != len(orders):
            raise AssertionError("nodes and node_orders must have the same length")
        self.id = id
        self.nodes = dict(zip(nodes, orders))

    def __repr__(self):
        return str(self.nodes)

    def add_node(self, node, node_order=None):
        """Adds a node."""
        self.nodes[node] = node_order

    def remove_node(self, node):
        """Takes a node out."""
        del self.nodes[node]

    def size(self):
        """The number of nodes."""
        return len(self.nodes)


class _Proposal:
    """Partitions while they grow."""

    def __init__(self):
        self.partitions = {}  # by id
        self.order = {}  # id -> the lowest id that was merged into it
        self.of = {}  # node -> id
        self.count = 0

    def add(self, node, place):
        """Adds a partition of one node.  Returns its id."""
        made = self.count
        self.count += 1
        self.partitions[made] = Partition(made, [node], [place])
        self.order[made] = made
        self.of[node] = made
        return made

    def in_order(self):
        """Returns the ids, oldest part first."""
        return sorted(self.order, key=self.order.get)

    def _comes_back(self, inside):
        """Returns whether a path leaves `inside` and returns to it; partitions count as single
        nodes."""
        seen = set(inside)
        queue = [user for node in inside for user in node.users if user not in inside]
        while queue:
            node = queue.pop()
            if node in seen:
                continue
            group = self.partitions[self.of[node]].nodes if node in self.of else (node,)
            seen.update(group)
            for user in (user for member in group for user in member.users):
                if user in inside:
                    return True
                queue.append(user)
        return False

    def merge(self, one, other):
        """Merges two partitions unless that makes a cycle.  Returns the id that remains."""
        nodes, others = self.partitions[one].nodes, self.partitions[other].nodes
        if self._comes_back({**nodes, **others}):
            return one
        kept, gone = (other, one) if len(nodes) < len(others) else (one, other)
        self.partitions[kept].nodes.update(self.partitions[gone].nodes)
        self.of.update(dict.fromkeys(self.partitions[gone].nodes, kept))
        self.order[kept] = min(self.order[kept], self.order.pop(gone))
        del self.partitions[gone]
        return kept

    def move(self, node, to):
        """Moves a node to another partition, or to none."""
        if node in self.of:
            self.partitions[self.of.pop(node)].remove_node(node)
        if to is not None:
            self.of[node] = to
            self.partitions[to].add_node(node)


def _is_getitem(node):
    return node.op == "call_function" and _get_qualified_name(node.target) == "_operator.getitem"


class CapabilityBasedPartitioner:
    """Finds the parts of a module's graph that consist of nodes supported by
    `operator_support`."""

    def __init__(self, graph_module, operator_support, allows_single_node_partition=False,
                 non_compute_ops=None, allowed_single_node_partition_ops=None,
                 skip_horizontal_fusion=False):
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops if non_compute_ops is not None else []
        self.allowed_single_node_partition_ops = (
            allowed_single_node_partition_ops if allowed_single_node_partition_ops is not None
            else [])
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _grow(self, proposal):
        """Merges supported nodes into partitions, from the last node to the first."""
        submodules = dict(self.graph_module.named_modules())
        for place, node in enumerate(reversed(self.graph_module.graph.nodes)):
            made = []
            if self.operator_support.is_node_supported(submodules, node):
                made = [proposal.add(node, place)]
            others = proposal.in_order()
            if self.skip_horizontal_fusion:
                others = [proposal.of[u] for u in node.users if made and u in proposal.of]
            candidates = list(dict.fromkeys([*made, *others]))
            for other in candidates[1:]:
                candidates[0] = proposal.merge(candidates[0], other)

    def _keep_items_with_their_tuples(self, proposal):
        """Moves a getitem to the partition that makes its tuple."""
        moves = True
        while moves:
            moves = {}
            for node in self.graph_module.graph.nodes:
                if all(map(_is_getitem, node.users)):
                    home = proposal.of.get(node)
                    moves.update({u: home for u in node.users if proposal.of.get(u) != home})
            for node, home in moves.items():
                proposal.move(node, home)

    def _is_worth_it(self, partition):
        """Returns whether the partition computes more than one operation."""
        free = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        names = [_get_qualified_name(n.target) for n in partition.nodes if n.op == "call_function"]
        alone = sum(name in self.allowed_single_node_partition_ops for name in names)
        return sum(name not in free for name in names) + alone > 1

    def propose_partitions(self):
        """Returns the partitions; those of a single operation only if they are allowed."""
        proposal = _Proposal()
        self._grow(proposal)
        for partition in proposal.partitions.values():
            partition.nodes = dict(sorted(partition.nodes.items(), key=lambda item: -item[1]))
        self._keep_items_with_their_tuples(proposal)
        return [p for p in proposal.partitions.values() if p.size() and (
            self.allows_single_node_partition or self._is_worth_it(p))]

    def fuse_partitions(self, partitions, prefix="fused_"):
        """Makes submodules of the partitions."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix=prefix)

    def partition_and_fuse(self, prefix="fused_"):
        """Proposes partitions and makes submodules of them."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)

    def _is_at_the_edge(self, node, partition, seen, neighbours):
        """Returns whether only non-compute nodes are between `node` and the partition's edge."""
        if node not in partition or node.op == "placeholder":
            return True
        if node not in seen:
            idle = (node.op == "call_function" and
                    _get_qualified_name(node.target) in self.non_compute_ops)
            seen[node] = idle and all(self._is_at_the_edge(n, partition, seen, neighbours)
                                      for n in neighbours(node))
        return seen[node]

    def remove_bookend_non_compute_ops(self, partitions):
        """Removes non-compute nodes at the beginnings and ends of partitions."""
        for partition in partitions:
            before, after, nodes = {}, {}, dict(partition.nodes)
            for node in nodes:
                if (self._is_at_the_edge(node, nodes, before, lambda n: n.all_input_nodes) or
                        self._is_at_the_edge(node, nodes, after, lambda n: list(n.users))):
                    partition.remove_node(node)
