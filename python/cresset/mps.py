"""MPS, which this build does not have: the questions are answered."""

__all__ = ["is_available", "device_count", "manual_seed", "empty_cache"]


def is_available():
    """Whether tensors can be on such a device."""
    return False


def device_count():
    return 0


def manual_seed(seed):
    """Nothing to seed."""


def empty_cache():
    """Nothing is cached."""
