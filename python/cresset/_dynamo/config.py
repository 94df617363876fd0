"""Settings of compiling; names and defaults are torch's."""
import sys

from .._patch import Patch

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


def _owner(name):
    if name not in globals():
        raise AttributeError(f"{__name__}.{name} does not exist")
    return sys.modules[__name__], name


class patch(Patch):
    """Other values for a while; see Patch."""

    _owner = staticmethod(_owner)
