"""Runs a graph node by node."""
import contextlib
import inspect

from .graph import Graph, _last_uses
from .graph_module import GraphModule
from .node import map_aggregate, map_arg
from .proxy import Proxy
from .traceback import preserve_node_meta, set_current_meta

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs the graph of a module.  Subclasses override methods for the kinds of nodes."""

    def __init__(self, module, garbage_collect_values=True, graph=None):
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph = module.graph if graph is None else graph
        self.env = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        if garbage_collect_values:
            self.user_to_last_uses = _last_uses(self.graph.nodes)

    def run(self, *args, initial_env=None, enable_io_processing=True):
        """Returns the graph's result.  Nodes in `initial_env` are not run."""
        self.env = initial_env if initial_env is not None else {}
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    self._tell_where(error, node)
                raise
            for unused in self.user_to_last_uses.get(node, ()) if self.garbage_collect_values else ():
                del self.env[unused]
            if node.op == "output":
                out = self.env[node]
                return self.graph.process_outputs(out) if enable_io_processing else out
        return None

    @staticmethod
    def _tell_where(error, node):
        """Adds the failing node to an error's message."""
        where = (f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}\n"
                 "Use tlparse to see full graph. (https://github.com/pytorch/tlparse?tab=readme-"
                 "ov-file#tlparse-parse-structured-pt2-logs)")
        error.args = (f"{error.args[0]}\n\n{where}" if error.args else where,) + error.args[1:]
        if isinstance(error, KeyError):  # str(KeyError) shows the repr of its text
            raise RuntimeError(*error.args) from error

    def boxed_run(self, args_list):
        """Runs with the arguments in a list, which is emptied so that they can be freed."""
        placeholders = [node for node in self.graph.nodes if node.op == "placeholder"]
        if len(args_list) != len(placeholders):
            kind = "extra" if len(args_list) > len(placeholders) else "missing"
            raise RuntimeError(f"Interpreter.boxed_run expected {len(placeholders)} arguments for "
                               f"placeholders but received {len(args_list)} ({kind} arguments)")
        env = dict(zip(placeholders, args_list))
        args_list.clear()
        return self.run(initial_env=env)

    @contextlib.contextmanager
    def _set_current_node(self, node):
        with set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n):
        """Returns the value of one node, whose inputs are in `env`."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # --- kinds of nodes ---

    def placeholder(self, target, args, kwargs):
        """Returns the next argument; for *args all remaining ones."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration as end:
            if args:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was "
                               "not passed in!") from end

    def get_attr(self, target, args, kwargs):
        """Returns an attribute of the module."""
        return self.fetch_attr(target)

    def call_function(self, target, args, kwargs):
        """Returns a function's result."""
        if isinstance(target, str):
            raise AssertionError("target should not be a string for call_function")
        return target(*args, **kwargs)

    def call_method(self, target, args, kwargs):
        """Returns the result of a method of the first argument."""
        this, *rest = args
        return getattr(this, target)(*rest, **kwargs)

    def call_module(self, target, args, kwargs):
        """Returns a submodule's result."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target, args, kwargs):
        """Returns the graph's result."""
        return args[0]

    # Values.

    def fetch_attr(self, target):
        """Returns the attribute at a dotted name."""
        at, parts = self.module, target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(at, part):
                raise RuntimeError(
                    f"Node referenced nonexistent target {'.'.join(parts[:i + 1])}")
            at = getattr(at, part)
        return at

    def fetch_args_kwargs_from_env(self, n):
        """Returns the arguments of a node with values instead of nodes."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n):
        """Returns `args` with values instead of nodes."""
        def load(node):
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}! Run "
                                   "Graph.lint() to diagnose such issues")
            return self.env[node]
        return map_arg(args, load)


def _transformer_tracer(graph, module):
    """Returns a tracer that adds to `graph` and enters no module."""
    from ._symbolic_trace import Tracer

    class TransformerTracer(Tracer):
        def is_leaf_module(self, _, __):
            return True
    tracer = TransformerTracer()
    tracer.graph, tracer.root, tracer.tensor_attrs = graph, module, {}
    return tracer


class Transformer(Interpreter):
    """An interpreter whose values are Proxies, so that running it makes a new graph."""

    def __init__(self, module):
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _transformer_tracer(self.new_graph, module)

    def placeholder(self, target, args, kwargs):
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(target, default_value=default), self.tracer)

    def get_attr(self, target, args, kwargs):
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target, args, kwargs):
        module = self.fetch_attr(target)
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target, args, kwargs):
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self):
        """Returns a GraphModule with the new graph."""
        with preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:
            value = map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a)
            self.new_graph.output(value).meta.update(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)
