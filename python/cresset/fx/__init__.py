"""Programs as graphs that programs can transform: tracing, graphs, and generated code.

symbolic_trace() runs a module on Proxies and returns a GraphModule: a module with a `graph` of
nodes and a `forward` generated from it.
"""
from . import immutable_collections
from ._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Attribute, Proxy
from .subgraph_rewriter import replace_pattern

__all__ = ["symbolic_trace", "Tracer", "wrap", "Graph", "GraphModule", "Interpreter",
           "Transformer", "Node", "Proxy", "Attribute", "replace_pattern", "has_side_effect",
           "map_arg", "CodeGen", "PH", "ProxyableClassMeta", "immutable_collections"]


def __getattr__(name):
    if name in ("experimental", "passes"):
        from importlib import import_module
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
