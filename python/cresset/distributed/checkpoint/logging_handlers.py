"""The handler of the logger of checkpoints."""
import logging

from ..logging_handlers import _log_handlers

__all__ = []

DCP_LOGGER_NAME = "dcp_logger"
_log_handlers.setdefault(DCP_LOGGER_NAME, logging.NullHandler())
