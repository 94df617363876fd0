"""Errors of symbolic sizes."""
from ..._dynamo.exc import ConstraintViolationError

__all__ = ["ConstraintViolationError"]
