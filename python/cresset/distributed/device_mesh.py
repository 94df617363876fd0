"""Arrangements of processes: names for annotations, as in a torch built without distributed."""

__all__ = ["init_device_mesh", "DeviceMesh"]


class DeviceMesh:
    """An arrangement of the devices of several processes."""


def init_device_mesh(*args, **kwargs):
    """Makes no arrangement where there is one process: returns None, as torch does then."""
