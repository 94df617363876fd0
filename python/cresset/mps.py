"""MPS, which this build lacks: queries return that there is none."""

__all__ = ["is_available", "device_count", "manual_seed", "empty_cache"]


def is_available():
    """Returns whether tensors can be on such a device."""
    return False


def device_count():
    return 0


def manual_seed(seed):
    """Does nothing."""


def empty_cache():
    """Does nothing."""


def __getattr__(name):
    from ._absent_names import missing
    raise missing(__name__, name)
