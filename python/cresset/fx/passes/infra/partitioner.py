"""Choosing the parts of a graph that a backend takes: as large as dependences allow."""
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
        self.order = {}  # id -> the lowest id that went into it
        self.of = {}  # node -> id
        self.count = 0

    def add(self, node, place):
        """A partition of one node; returns its id."""
        made = self.count
        self.count += 1
        self.partitions[made] = Partition(made, [node], [place])
        self.order[made] = made
        self.of[node] = made
        return made

    def in_order(self):
        """The ids, oldest part first."""
        return sorted(self.order, key=self.order.get)

    def _comes_back(self, inside):
        """Whether a path leaves `inside` and returns, where partitions are single nodes."""
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
        """Joins two partitions unless that makes a cycle; the id of the one that is left."""
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
        """Puts a node into another partition, or into none."""
        if node in self.of:
            self.partitions[self.of.pop(node)].remove_node(node)
        if to is not None:
            self.of[node] = to
            self.partitions[to].add_node(node)


def _is_getitem(node):
    return node.op == "call_function" and _get_qualified_name(node.target) == "_operator.getitem"


class CapabilityBasedPartitioner:
    """Finds the parts of a module's graph whose nodes `operator_support` supports."""

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
        """From the last node to the first, every supported one joins what it can."""
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
        """A getitem belongs where the tuple is made."""
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
        """Whether the partition computes more than one thing."""
        free = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        names = [_get_qualified_name(n.target) for n in partition.nodes if n.op == "call_function"]
        alone = sum(name in self.allowed_single_node_partition_ops for name in names)
        return sum(name not in free for name in names) + alone > 1

    def propose_partitions(self):
        """The partitions; those of a single operation are left out unless they are allowed."""
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
        """Whether only nodes that compute nothing lie between `node` and the partition's edge."""
        if node not in partition or node.op == "placeholder":
            return True
        if node not in seen:
            idle = (node.op == "call_function" and
                    _get_qualified_name(node.target) in self.non_compute_ops)
            seen[node] = idle and all(self._is_at_the_edge(n, partition, seen, neighbours)
                                      for n in neighbours(node))
        return seen[node]

    def remove_bookend_non_compute_ops(self, partitions):
        """Takes nodes that compute nothing off the beginnings and ends of partitions."""
        for partition in partitions:
            before, after, nodes = {}, {}, dict(partition.nodes)
            for node in nodes:
                if (self._is_at_the_edge(node, nodes, before, lambda n: n.all_input_nodes) or
                        self._is_at_the_edge(node, nodes, after, lambda n: list(n.users))):
                    partition.remove_node(node)
