"""Arrangements of processes: the class that annotations name."""

__all__ = ["DeviceMesh"]


class DeviceMesh:
    """An arrangement of the devices of several processes; it has no instances here."""

    def __new__(cls, *args, **kwargs):
        raise RuntimeError("torch.distributed is not available")
