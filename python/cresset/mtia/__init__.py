"""MTIA, which this build lacks: queries return that there is none, other calls raise."""
from .. import _absent

_ERROR = RuntimeError("Cannot execute getCurrentDevice() without MTIA backend.")

globals().update(_absent.queries())
globals().update(_absent.parts("torch.mtia", "MTIA", _ERROR))

default_stream = _absent.refusal(_ERROR)


def is_bf16_supported(including_emulation=True):
    return True


__all__ = sorted(name for name in globals() if name[0] != "_")


def __getattr__(name):
    from .._absent_names import missing
    raise missing(__name__, name)
