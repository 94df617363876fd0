"""XPU, which this build lacks: queries return that there is none, other calls raise."""
from .. import _absent

_ERROR = AssertionError("Torch not compiled with XPU enabled")

globals().update(_absent.queries())
globals().update(_absent.parts("torch.xpu", "XPU", _ERROR))

get_stream_from_external = _absent.refusal(_ERROR)

__all__ = sorted(name for name in globals() if name[0] != "_")


def __getattr__(name):
    if name in ("random", "streams"):
        from importlib import import_module
        return import_module(f"{__name__}.{name}")
    from .._absent_names import missing
    raise missing(__name__, name)
