"""Questions of libraries about compilation; counters."""
from .capture import counters
from .eval_frame import is_dynamo_supported

__all__ = ["counters", "is_compile_supported"]


def is_compile_supported(device_type):
    """Whether compile() makes programs for a kind of device."""
    return device_type == "cpu" and is_dynamo_supported()
