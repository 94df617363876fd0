"""Settings of compiling; names and defaults are torch's."""
import sys

recompile_limit = 8             # recordings of one function; more calls run eagerly
accumulated_recompile_limit = 256
fail_on_recompile_limit_hit = False
error_on_recompile = False
suppress_errors = False         # a backend that raises is replaced by eager
assume_static_by_default = True
automatic_dynamic_shapes = True
dynamic_shapes = True
disable = False                 # compile() returns its argument
verbose = False
specialize_int = False
specialize_float = False
capture_scalar_outputs = False
capture_dynamic_output_shape_ops = False
guard_nn_modules = True
inline_inbuilt_nn_modules = True
optimize_ddp = True
cache_size_limit = 8            # the former name of recompile_limit


class patch:
    """Other values for a while: patch("name", value), patch({name: value}) or patch(name=value).

    A context manager and a decorator. """

    def __init__(self, changes=None, value=None, **more):
        if isinstance(changes, str):
            changes = {changes: value}
        self.changes, self.before = {**(changes or {}), **more}, []
        for name in self.changes:
            if not hasattr(sys.modules[__name__], name):
                raise AttributeError(f"{__name__}.{name} does not exist")

    def __enter__(self):
        values = vars(sys.modules[__name__])
        self.before.append({name: values[name] for name in self.changes})
        values.update(self.changes)

    def __exit__(self, *error):
        vars(sys.modules[__name__]).update(self.before.pop())

    def __call__(self, fn):
        from functools import wraps

        @wraps(fn)
        def patched(*args, **kwargs):
            with self:
                return fn(*args, **kwargs)
        return patched
