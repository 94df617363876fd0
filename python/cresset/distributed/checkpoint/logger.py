"""The logger of checkpoints: saves and loads write when they begin, end and fail.  Its handler drops records by default."""
import functools
import time
import uuid

from .. import c10d_logger
from .logging_handlers import DCP_LOGGER_NAME

__all__ = []

_dcp_logger = c10d_logger._get_or_create_logger(DCP_LOGGER_NAME)


def _msg_dict_from_dcp_method_args(*args, **kwargs):
    """Returns the facts that a call's keyword arguments give, and a number of the call."""
    parts = {name: kwargs[name] for name in ("storage_writer", "storage_reader", "planner") if kwargs.get(name)}
    place = kwargs.get("checkpoint_id")
    storage = parts.get("storage_writer") or parts.get("storage_reader")
    if not place and storage:
        place = getattr(storage, "checkpoint_id", None)
    facts = {"checkpoint_id": None if place is None else str(place), "uuid": str(uuid.uuid4().int)}
    return {**facts, **{name: type(part).__name__ for name, part in parts.items()}}


def _get_msg_dict(func_name, *args, **kwargs):
    return {**_msg_dict_from_dcp_method_args(*args, **kwargs), **c10d_logger._get_msg_dict(func_name, *args, **kwargs)}


def _dcp_method_logger(log_exceptions=False, **wrapper_kwargs):
    """Returns a decorator: each call of the function is logged."""
    def decorator(func):
        @functools.wraps(func)
        def call(*args, **kwargs):
            facts = _get_msg_dict(func.__name__, *args, **{**wrapper_kwargs, **kwargs})
            begin = time.time_ns()
            _dcp_logger.debug({**facts, "event": "start", "time": begin, "log_exceptions": log_exceptions})
            try:
                result = func(*args, **kwargs)
            except BaseException as error:
                if log_exceptions:
                    _dcp_logger.error({**facts, "event": "exception", "error": f"{error}", "time": time.time_ns()})
                raise
            end = time.time_ns()
            _dcp_logger.debug({**facts, "event": "end", "time": end, "times_spent": end - begin})
            return result
        return call
    return decorator
