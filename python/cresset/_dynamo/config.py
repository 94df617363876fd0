"""Settings of compile(), with torch's names and defaults."""
import sys

recompile_limit = 8  # recordings of one function; further calls are deferred
deferred_calls = 1  # calls of a function that are deferred before one is recorded; torch has no such setting
accumulated_recompile_limit = 256
fail_on_recompile_limit_hit = False
error_on_recompile = False
error_on_nested_fx_trace = True  # false: fx traces the plain function in place of a compiled one
suppress_errors = False  # true: eager mode replaces a backend that raises
assume_static_by_default = True
automatic_dynamic_shapes = True
dynamic_shapes = True
disable = False  # true: compile() returns its argument
verbose = False
specialize_int = False
specialize_float = False
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
guard_nn_modules = True
inline_inbuilt_nn_modules = True
optimize_ddp = True
cache_size_limit = 8  # the earlier name of recompile_limit


def _owner(name):
    if name not in globals():
        raise AttributeError(f"{__name__}.{name} does not exist")
    return sys.modules[__name__], name


class Patch:
    """patch("name", value), patch({name: value}) or patch(name=value): a context manager and a
    decorator.

    A subclass defines `_owner(name)`, which returns the object that has the setting and the
    setting's name there, or raises AttributeError.
    """

    def __init__(self, changes=None, value=None, **more):
        if isinstance(changes, str):
            changes = {changes: value}
        self.changes = [(*self._owner(name), value) for name, value in {**(changes or {}), **more}.items()]
        self.before = []

    def __enter__(self):
        self.before.append([(owner, name, getattr(owner, name)) for owner, name, _ in self.changes])
        for owner, name, value in self.changes:
            setattr(owner, name, value)

    def __exit__(self, *error):
        for owner, name, value in self.before.pop():
            setattr(owner, name, value)

    def __call__(self, fn):
        from functools import wraps

        @wraps(fn)
        def patched(*args, **kwargs):
            with self:
                return fn(*args, **kwargs)
        return patched


class patch(Patch):
    """Sets other values temporarily; see Patch."""

    _owner = staticmethod(_owner)


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
