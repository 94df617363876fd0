"""export(): the graph of a function, with the function's own arguments and results."""
from typing import NamedTuple

from .. import Tensor
from ..fx import Graph, GraphModule
from ..fx.graph import _PyTreeCodeGen, _PyTreeInfo
from ..nn import Module, Parameter
from ..utils._pytree import tree_flatten
from .capture import compile_function
from .reasons import guards


class ExportResult(NamedTuple):
    graph_module: GraphModule
    guards: list


def export(f, *extra_args, aten_graph=False, tracing_mode="symbolic", assume_static_by_default=False, same_signature=True,
           **extra_kwargs):
    """export(f)(*args) returns (graph_module, guards): f is one graph, or Unsupported is raised.

    graph_module takes f's arguments, all of them by position, and returns f's results.  Tensors that f
    does not get as arguments are its attributes.  Numbers are those of the call.  Sizes of arguments may differ in
    later calls, unless tracing_mode is not "symbolic" or assume_static_by_default is set.
    """
    symbolic = tracing_mode == "symbolic" and not assume_static_by_default

    def inner(*args, **kwargs):
        kept = []

        def keep(module, example_inputs):
            kept.append((module, example_inputs))
            return module.forward
        target = getattr(getattr(f, "_compiled_forward", f), "_torchdynamo_orig_callable", f)
        compiled = compile_function(target, keep, "export", True, symbolic)
        compiled._compiler.one_part = True
        for _ in range(3):  # the first call may make state that later calls read
            out = compiled(*args, **kwargs)
            if kept:
                break
        if not kept:
            from .exc import Unsupported
            raise Unsupported(f"{compiled._compiler.name} makes state in every call, which an exported graph cannot do")
        walk, _ = compiled._compiler.records[-1]
        return ExportResult(_with_signature(*kept[-1], _by_position(target, args, kwargs), out), list(guards(walk)))
    return inner(*extra_args, **extra_kwargs) if extra_args or extra_kwargs else inner


def _by_position(f, args, kwargs):
    if not kwargs:
        return args
    from inspect import signature
    bound = signature(getattr(f, "forward", f)).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        from .exc import UserError
        raise UserError(f"export() cannot pass by position: {', '.join(bound.kwargs)}")
    return bound.args


def _with_signature(recorded, given, args, out):
    """Returns the recorded graph with the arguments and results of the function."""
    leaves, in_spec = tree_flatten(tuple(args))
    results, out_spec = tree_flatten(out)
    graph, root, at = Graph(), Module(), {}
    names = [f"arg{i}" for i in range(len(leaves))]
    places = {id(x): graph.placeholder(name) for name, x in zip(names, leaves)}
    inputs = [node for node in recorded.graph.nodes if node.op == "placeholder"]
    for node, x in zip(inputs, given):
        at[node] = places[id(x)] if id(x) in places else _attribute(root, graph, node.name, x)
    for node in recorded.graph.nodes:
        if node.op == "output":
            made = iter(tree_flatten(node.args[0])[0])
            graph.output([_copied(at, next(made)) if isinstance(x, Tensor) else x for x in results])
        elif node.op != "placeholder":
            if node.op == "get_attr":
                _store(root, node.target, getattr(recorded, node.target))
            at[node] = graph.node_copy(node, lambda n: at[n])
    graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(names, in_spec, out_spec)))
    return GraphModule(root, graph)


def _copied(at, node):
    return at.get(node, node)


def _attribute(root, graph, name, x):
    _store(root, name, x)
    return graph.get_attr(name)


def _store(root, name, x):
    if isinstance(x, Parameter) or not isinstance(x, Tensor):
        setattr(root, name, x)
    else:
        root.register_buffer(name, x)
