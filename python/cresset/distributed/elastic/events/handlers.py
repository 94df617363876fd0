"""Handlers of events, by name.  A program may add its own to the table."""
import logging

_log_handlers = {"console": logging.StreamHandler(), "dynamic_rendezvous": logging.NullHandler(), "null": logging.NullHandler()}


def get_logging_handler(destination="null"):
    """Returns the handler of a destination: null, console, or one that was added."""
    if destination not in _log_handlers:
        raise KeyError(f"no handler of events is named '{destination}': {', '.join(sorted(_log_handlers))} are")
    return _log_handlers[destination]
