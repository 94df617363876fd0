"""The handler of this process's errors."""
from .error_handler import ErrorHandler

__all__ = ["get_error_handler"]


def get_error_handler():
    """Returns the handler of error files."""
    return ErrorHandler()
