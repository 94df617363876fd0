"""The names of torch._dynamo, on top of recordings (capture.py)."""
from . import config
from .capture import reset
from .eval_frame import disable, optimize, optimize_assert

# Imported on first use, because compile() needs none of them.
_LAZY = {"OptimizedModule": "optimized_module", "ExplainOutput": "explaining", "explain": "explaining",
         "export": "exporting"}
_LAZY |= dict.fromkeys(("list_backends", "lookup_backend", "register_backend"), "backends.registry")
_LAZY |= dict.fromkeys(("mark_dynamic", "mark_static", "mark_static_address", "mark_unbacked",
                        "maybe_mark_dynamic"), "marks")
_LAZY |= dict.fromkeys(("allow_in_graph", "assume_constant_result", "disallow_in_graph", "forbid_in_graph", "graph_break",
                        "is_compiling", "is_dynamo_disable_recursive", "nonstrict_trace", "patch_dynamo_config", "run",
                        "set_stance", "skip", "skip_code", "substitute_in_graph", "skip_frame", "step_unsupported",
                        "error_on_graph_break", "dont_skip_tracing", "disable_nested_graph_breaks",
                        "set_recursion_limit"), "utilities")

_MODULES = ("backends", "exc", "testing", "utils")

__all__ = ["allow_in_graph", "assume_constant_result", "config", "disable", "disable_nested_graph_breaks",
           "disallow_in_graph", "dont_skip_tracing", "error_on_graph_break", "exc", "explain", "export", "forbid_in_graph", "graph_break", "is_compiling", "is_dynamo_disable_recursive", "list_backends",
           "lookup_backend", "mark_dynamic", "mark_static", "mark_static_address", "mark_unbacked",
           "maybe_mark_dynamic", "nonstrict_trace", "optimize", "optimize_assert", "OptimizedModule",
           "patch_dynamo_config", "register_backend", "reset", "run", "set_recursion_limit", "set_stance", "skip_frame", "step_unsupported",
           "substitute_in_graph"]


def __getattr__(name):
    from importlib import import_module
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _LAZY:
        value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
        return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def reset_code_caches():
    reset()
