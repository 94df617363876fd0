"""Loggers of a module's name, whose level LOGLEVEL sets."""
import inspect
import logging
import os

__all__ = ["get_logger"]


def get_logger(name=None):
    """Returns the logger of a name, or of the calling module."""
    logger = logging.getLogger(name or _derive_module_name(depth=2))
    logger.setLevel(os.environ.get("LOGLEVEL", "WARNING"))
    return logger


def _derive_module_name(depth=1):
    """Returns the name of the module that called, `depth` calls up."""
    frame = inspect.currentframe()
    for _ in range(depth):
        frame = frame.f_back
    return frame.f_globals.get("__name__")
