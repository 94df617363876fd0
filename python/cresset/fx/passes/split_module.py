"""Splits a graph into submodules."""
import inspect

from ..graph import Graph
from ..graph_module import GraphModule, _get_attr
from ..node import map_arg
from ..proxy import Proxy

__all__ = ["Partition", "split_module"]


class Partition:
    """The nodes of one submodule, and the values that enter and leave it."""

    def __init__(self, name):
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names = []
        self.inputs, self.outputs = {}, {}  # ordered sets of node names
        self.dependencies, self.dependents = {}, {}  # of partition names
        self.graph = Graph()
        self.environment = {}  # nodes of the whole graph -> nodes of this graph
        self.targets = {}

    def __repr__(self):
        return (f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n "
                f"outputs: {self.outputs},\n partitions depended on: {self.dependencies},\n "
                f"partition dependents: {self.dependents}")


class _Splitter:
    def __init__(self, m, callback, qualname_map, keep_node_name, keep_input_name, affix,
                 tuple_return):
        self.m = m
        self.callback = callback
        self.qualname_map = qualname_map
        self.keep_node_name = keep_node_name
        self.keep_input_name = keep_input_name
        self.affix = affix
        self.tuple_return = tuple_return
        self.nodes = {node.name: node for node in m.graph.nodes}
        self.partitions = {}
        self.partition_of = {}
        self.base = Graph()
        self.base_env = {}
        self.base_attrs = {}

    # --- partitions of nodes ---

    def assign(self):
        """Assigns every node to a partition."""
        for node in self.m.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            name = str(self.callback(node))
            name = name if self.affix is None else f"{self.affix}_{name}"
            partition = self.partitions.setdefault(name, Partition(name))
            partition.node_names.append(node.name)
            self.partition_of[node] = node._fx_partition = name

    def note_uses(self):
        """Finds the values that pass between partitions."""
        for node in self.m.graph.nodes:
            if node.op == "output":
                map_arg(node.args[0], lambda n: self._note_use(n, None))
            elif node in self.partition_of:
                map_arg((node.args, node.kwargs), lambda n: self._note_use(n, node))

    def _note_use(self, made_by, user):
        defined, used = self.partition_of.get(made_by), self.partition_of.get(user)
        if defined == used:
            return
        if defined is not None:
            self.partitions[defined].outputs.setdefault(made_by.name)
        if used is not None:
            self.partitions[used].inputs.setdefault(made_by.name)
        if defined is not None and used is not None:
            self.partitions[defined].dependents.setdefault(used)
            self.partitions[used].dependencies.setdefault(defined)

    def order(self):
        """Returns the names of the partitions, each after those it depends on."""
        ready = [name for name, p in self.partitions.items() if not p.dependencies]
        done = []
        while ready:
            done.append(ready.pop())
            for name in self.partitions[done[-1]].dependents:
                below = self.partitions[name].dependencies
                del below[done[-1]]
                if not below:
                    ready.append(name)
        if len(done) != len(self.partitions):
            raise RuntimeError("cycle exists between partitions!")
        return done

    # --- graphs of the submodules ---

    def _is_module(self, node):
        return node.op == "get_attr" and hasattr(_get_attr(self.m, node.target), "named_modules")

    def add_inputs(self, partition):
        """Makes placeholders for incoming values; modules are copied instead."""
        names = sorted(partition.inputs, key=lambda name: self._is_module(self.nodes[name]))
        partition.inputs = {}
        for name in names:
            node = self.nodes[name]
            if self._is_module(node):
                made = partition.graph.get_attr(node.target)
                partition.targets[node.target] = _get_attr(self.m, node.target)
            else:
                as_name = name if self.keep_input_name else f"arg_{len(partition.inputs)}"
                made = partition.graph.placeholder(as_name, type_expr=node.type)
                partition.inputs[name] = None
            made.meta = node.meta.copy()
            partition.environment[node] = made

    def copy_node(self, node):
        """Copies a node into its partition's graph."""
        partition = self.partitions[self.partition_of[node]]
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: partition.environment[n])
        target = node.target
        if node.op == "call_module":
            target = node.target.replace(".", "_")
            partition.targets[target] = _get_attr(self.m, node.target)
            if self.qualname_map is not None:
                self.qualname_map[f"{partition.submod_name}.{target}"] = node.target
        made = partition.graph.create_node(node.op, target, args, kwargs,
                                           node.name if self.keep_node_name else None, node.type)
        made.meta = node.meta.copy()
        partition.environment[node] = made

    # --- the calling graph ---

    def add_to_base(self, node):
        """Copies a placeholder or get_attr to the calling graph."""
        if node.op == "placeholder":
            default = node.args[0] if node.args else inspect.Signature.empty
            args = () if default is inspect.Signature.empty else (default,)
            made = self.base.create_node("placeholder", node.target, args, type_expr=node.type,
                                         name=node.name if self.keep_node_name else None)
        elif node.op == "get_attr":
            made = self.base.get_attr(node.target)
            self.base_attrs[node.target] = _get_attr(self.m, node.target)
        else:
            return
        made.meta = node.meta.copy()
        self.base_env[node.name] = made

    def add_call(self, partition):
        """Makes the submodule and adds its call."""
        values = tuple(partition.environment[self.nodes[name]] for name in partition.outputs)
        several = len(values) != 1 or self.tuple_return
        partition.graph.output(values if several else values[0])
        self.base_attrs[partition.submod_name] = GraphModule(partition.targets, partition.graph)
        call = self.base.call_module(partition.submod_name,
                                     tuple(self.base_env[name] for name in partition.inputs))
        for i, name in enumerate(partition.outputs):
            self.base_env[name] = Proxy(call)[i].node if several else call

    def split(self, keep_order):
        """Returns the module that calls the parts."""
        self.assign()
        self.note_uses()
        given_order = list(self.partitions)
        order = self.order()
        for name in order:
            self.add_inputs(self.partitions[name])
        for node in self.partition_of:
            self.copy_node(node)
        waiting = [node for node in self.m.graph.nodes if node.op in ("placeholder", "get_attr")]
        for name in given_order if keep_order else order:
            partition = self.partitions[name]
            # With keep_order an attribute is read just before its first use.
            for node in [n for n in waiting if not keep_order or n.op == "placeholder" or
                         n.name in partition.inputs]:
                self.add_to_base(node)
                waiting.remove(node)
            self.add_call(partition)
        for node in waiting:
            self.add_to_base(node)
        for node in self.m.graph.find_nodes(op="output"):
            self.base.output(map_arg(node.args[0], lambda n: self.base_env[n.name]))
        made = GraphModule(self.base_attrs, self.base)
        made.meta["partition_names"] = {p.submod_name for p in self.partitions.values()}
        return made


def split_module(m, root_m, split_callback, qualname_map=None, keep_original_order=False,
                 keep_original_node_name=False, keep_original_input_name=True, *,
                 partition_affix=None, tuple_return=False):
    """Returns a module with a submodule for every value of split_callback(node), and calls of
    them.

    `qualname_map` receives the old names of the submodules' members.
    """
    return _Splitter(m, split_callback, qualname_map, keep_original_node_name,
                     keep_original_input_name, partition_affix, tuple_return).split(
                         keep_original_order)
