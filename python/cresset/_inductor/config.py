"""Settings of programs, with torch's names; compile(options={...}) sets them for one function.

Settings that do not apply to CPUs are accepted and ignored: `shape_padding`,
`triton.cudagraphs`, and `epilogue_fusion`, because products and convolutions are library
calls.  Random numbers equal eager's, whatever `fallback_random` is.
"""
import sys

from .._dynamo.config import Patch

fast = False  # this package's: true: results may differ from eager's by rounding
epilogue_fusion = True
max_autotune = False  # true: schedules are measured during calls and the best is kept
max_autotune_pointwise = False     # the same
coordinate_descent_tuning = False  # the same
fallback_by_default = False  # true: operators are not fused
fallback_random = False
shape_padding = True
guard_filter_fn = None  # a function of guards; every guard is kept (torch.compiler.skip_all_guards_unsafe)


class trace:
    enabled = False  # true: writes graphs, fusion groups and code of every recording to files
    graph_diagram = False  # also a picture of the fused graph
    debug_dir = None  # folder; None: torch_compile_debug


class triton:
    cudagraphs = False


class aot_inductor:
    """Settings of aoti_compile_and_package()."""
    output_path = ""  # refused: aoti_compile_and_package() takes package_path
    package = False  # accepted and ignored: the result is always a package
    metadata = {}  # {str: str} that AOTICompiledModel.get_metadata() returns
    isa = None  # this package's: "base", "avx2" or "avx512"; None: that of this process
    compiler = None  # this package's: the C compiler; None: CR_CC, gcc, clang or cc
    libraries = False  # this package's: true: products of float32 call oneDNN, which must be there when the package is loaded
    fold_norms = True  # this package's: true: batch norms after convolutions become a part of their weights


_GROUPS = ("trace", "triton", "aot_inductor")


def names():
    """Returns the names of all settings, those of groups as "trace.enabled"."""
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
    """Sets other values temporarily; see Patch."""

    _owner = staticmethod(_owner)
