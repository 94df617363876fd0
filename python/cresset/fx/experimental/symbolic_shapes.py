"""Errors of sizes that are symbols."""
from ..._dynamo.exc import ConstraintViolationError

__all__ = ["ConstraintViolationError"]
