"""Events of a run, which a logging handler gets."""
import inspect
import logging
import os
import socket
import traceback

from .api import Event, EventMetadataValue, EventSource, NodeState, RdzvEvent
from .handlers import get_logging_handler

__all__ = ["Event", "EventMetadataValue", "EventSource", "NodeState", "RdzvEvent", "construct_and_record_rdzv_event",
           "get_logging_handler", "record", "record_rdzv_event"]

_loggers = {}  # by destination


def _get_or_create_logger(destination="null"):
    """Returns the logger of a destination's events."""
    if destination not in _loggers:
        logger = logging.getLogger(f"torchelastic-events-{destination}")
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(get_logging_handler(destination))
        _loggers[destination] = logger
    return _loggers[destination]


def record(event, destination="null"):
    """Gives an event to a destination."""
    _get_or_create_logger(destination).info(event.serialize())


def record_rdzv_event(event):
    """Gives an event of a rendezvous to its destination."""
    _get_or_create_logger("dynamic_rendezvous").info(event.serialize())


def construct_and_record_rdzv_event(run_id, message, node_state, name="", hostname="", pid=None, master_endpoint="",
                                    local_id=None, rank=None):
    """Makes an event of a rendezvous, if its destination wants any.  A failure has the traceback."""
    if isinstance(get_logging_handler("dynamic_rendezvous"), logging.NullHandler):
        return
    if not name:
        caller = inspect.stack()[1]
        name = f"{os.path.splitext(os.path.basename(caller.filename))[0]}.{caller.function}"
    trace = traceback.format_exc() if node_state == NodeState.FAILED else ""
    record_rdzv_event(RdzvEvent(name, run_id, message, hostname or socket.getfqdn(), pid or os.getpid(), node_state,
                                master_endpoint, rank, local_id, trace))
