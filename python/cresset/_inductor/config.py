"""Settings of programs, in torch's names; compile(options={...}) sets them for one function.

What CPUs have no use for is taken and does nothing: `shape_padding`, `triton.cudagraphs`, and `epilogue_fusion`, as
products and convolutions are calls of libraries.  Random numbers are eager's whatever `fallback_random` says. """
import sys

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


class patch:
    """Other values for a while: patch("name", value), patch({name: value}) or patch(name=value).

    A context manager and a decorator. """

    def __init__(self, changes=None, value=None, **more):
        if isinstance(changes, str):
            changes = {changes: value}
        self.changes, self.before = {**(changes or {}), **more}, []
        for name in self.changes:
            _owner(name)

    def __enter__(self):
        self.before.append({name: get(name) for name in self.changes})
        for name, value in self.changes.items():
            setattr(*_owner(name), value)

    def __exit__(self, *error):
        for name, value in self.before.pop().items():
            setattr(*_owner(name), value)

    def __call__(self, fn):
        from functools import wraps

        @wraps(fn)
        def patched(*args, **kwargs):
            with self:
                return fn(*args, **kwargs)
        return patched
