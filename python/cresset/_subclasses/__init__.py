"""Tensors without elements that stand for tensors on a device (fake_tensor.py)."""
from .fake_tensor import (DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode,
                          UnsupportedFakeTensorException)

__all__ = ["DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor", "FakeTensorMode",
           "UnsupportedFakeTensorException"]
