"""Which FakeTensorMode a call belongs to."""
from ._subclasses.fake_tensor import active_fake_mode, detect_fake_mode

__all__ = ["active_fake_mode", "detect_fake_mode"]
