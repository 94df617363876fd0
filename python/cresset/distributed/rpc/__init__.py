"""Remote calls, which this build lacks."""

__all__ = ["is_available"]


def is_available():
    """Returns whether functions can be called in other processes: False."""
    return False
