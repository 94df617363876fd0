"""Converts settings to flags of the compiler, and writes trace files."""
import os
import time

from .. import _C
from . import config

_FLAGS = {"fast": _C._HOW_FAST, "max_autotune": _C._HOW_MEASURE, "max_autotune_pointwise": _C._HOW_MEASURE,
          "coordinate_descent_tuning": _C._HOW_MEASURE, "fallback_by_default": _C._HOW_CALLS}
_written = 0


def _value(changes, name):
    return changes[name] if name in changes else config.get(name)


def how(changes):
    """Returns the flags of compile/how.h."""
    out = 0
    for name, flag in _FLAGS.items():
        out |= flag if _value(changes, name) else 0
    return out


def write_trace(changes, name, graph, call):
    """Writes the recording `graph` of function `name` and its programs to files in a new
    folder."""
    global _written
    if not _value(changes, "trace.enabled"):
        return
    base = _value(changes, "trace.debug_dir") or os.path.join(os.getcwd(), "torch_compile_debug")
    name = "".join(c if c.isalnum() else "_" for c in name)
    folder = os.path.join(base, f"run_{time.strftime('%Y_%m_%d_%H_%M_%S')}-pid_{os.getpid()}", "cresset",
                          f"{name}__{_written}")
    _written += 1
    os.makedirs(folder, exist_ok=True)
    files = {"graph.txt": str(graph)}
    if hasattr(call, "code"):  # not when the sizes are not known yet
        files["fused.txt"] = call.forward + (call.backward or "")
        files["steps.txt"] = call.forward_steps + (call.backward_steps or "")
        files["output_code.c"] = call.code
        if _value(changes, "trace.graph_diagram"):
            from ..compiler._picture import draw
            files["graph_diagram.svg"] = draw(call.listing)
    for file, text in files.items():
        with open(os.path.join(folder, file), "w", encoding="utf-8") as f:
            f.write(text)
