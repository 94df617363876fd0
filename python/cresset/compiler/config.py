"""torch.compiler.config: settings of the whole compiler; those of recordings are _dynamo.config's."""
import sys
import types

from .. import _C
from .._dynamo import config as _recording
from .._dynamo.config import Patch

job_id = None                # this package stores no profiles of runs
pgo_extra_read_key = None
pgo_extra_write_key = None
cache_key_tag = ""
force_disable_caches = False  # True: kernels are compiled anew, and none is kept on disk
dynamic_sources = ""
unbacked_sources = ""

_SHARED = ("dynamic_shapes", "assume_static_by_default", "automatic_dynamic_shapes", "recompile_limit",
           "accumulated_recompile_limit", "verbose", "capture_scalar_outputs", "capture_dynamic_output_shape_ops",
           "fail_on_recompile_limit_hit")


class _Settings(types.ModuleType):
    """A module whose shared names are attributes of _dynamo.config."""

    def __getattr__(self, name):
        if name in _SHARED:
            return getattr(_recording, name)
        raise AttributeError(f"{self.__name__}.{name} does not exist")

    def __setattr__(self, name, value):
        if name in _SHARED:
            setattr(_recording, name, value)
        else:
            super().__setattr__(name, value)
        if name == "force_disable_caches":
            _C._cache_turn_off(value)

    def __dir__(self):
        return sorted({*super().__dir__(), *_SHARED})


def _owner(name):
    if name not in _SHARED and name not in globals():
        raise AttributeError(f"{__name__}.{name} does not exist")
    return sys.modules[__name__], name


class patch(Patch):
    """Sets other values temporarily; see _dynamo.config.Patch."""

    _owner = staticmethod(_owner)


sys.modules[__name__].__class__ = _Settings
