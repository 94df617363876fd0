"""Settings of programs, in torch's names; compile(options={...}) sets them for one function.

What CPUs have no use for is taken and does nothing: `shape_padding`, `triton.cudagraphs`, and `epilogue_fusion`, as
products and convolutions are calls of libraries.  Random numbers are eager's whatever `fallback_random` says. """
import sys

from .._dynamo.config import Patch

fast = False                       # ours: results may differ from eager's by rounding
epilogue_fusion = True
max_autotune = False               # schedules are measured on the running calls, the best is kept
max_autotune_pointwise = False     # the same
coordinate_descent_tuning = False  # the same
fallback_by_default = False        # every operator stays a call
fallback_random = False
shape_padding = True


class trace:
    enabled = False        # graphs, groups and code of every recording are written to files
    graph_diagram = False  # and a picture of the fused graph
    debug_dir = None       # where; None: torch_compile_debug


class triton:
    cudagraphs = False


_GROUPS = ("trace", "triton")


def names():
    """Every setting, those of groups as "trace.enabled"."""
    out = [n for n, v in globals().items() if not n.startswith("_") and n not in ("sys", "patch") + _GROUPS
           and not callable(v)]
    for group in _GROUPS:
        out += [f"{group}.{n}" for n in vars(globals()[group]) if not n.startswith("_")]
    return out


def _owner(name):
    group, _, last = name.rpartition(".")
    if name not in names():
        raise AttributeError(f"{__name__}.{name} does not exist")
    return (globals()[group] if group else sys.modules[__name__]), last


def get(name):
    return getattr(*_owner(name))


class patch(Patch):
    """Other values for a while; see Patch."""

    _owner = staticmethod(_owner)
