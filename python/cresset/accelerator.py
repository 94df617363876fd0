"""Accelerator devices: none in this build."""

__all__ = ["is_available", "device_count", "current_accelerator"]


def is_available():
    return False


def device_count():
    return 0


def current_accelerator(check_available=False):
    return None
