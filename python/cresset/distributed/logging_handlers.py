"""Handlers of the package's loggers, by the place that records go to.  Programs put their own here before a logger is made."""
import logging

__all__ = []

_log_handlers = {"default": logging.NullHandler()}
