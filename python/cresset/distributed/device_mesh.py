"""Arrangements of processes: names for annotations, as in a torch built without distributed."""

__all__ = ["init_device_mesh", "DeviceMesh"]


class DeviceMesh:
    """An arrangement of the devices of several processes."""


def init_device_mesh():
    """Takes no arguments, as in a torch built without distributed: a call with some raises."""
