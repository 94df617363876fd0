"""The logger c10d-NullHandler-default, to which functions that fail write what they were called in."""
import functools
import logging

from . import distributed_c10d as dist
from .logging_handlers import _log_handlers

__all__ = []

_DEFAULT_DESTINATION = "default"


def _get_logging_handler(destination=_DEFAULT_DESTINATION):
    handler = _log_handlers[destination]
    return handler, f"{type(handler).__name__}-{destination}"


def _get_or_create_logger(destination=_DEFAULT_DESTINATION):
    handler, name = _get_logging_handler(destination)
    logger = logging.getLogger(f"c10d-{name}")
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
    logger.addHandler(handler)
    return logger


_c10d_logger = _get_or_create_logger()


def _get_msg_dict(func_name, *args, **kwargs):
    """Returns the name of a function, and the group's facts where there is one."""
    facts = {"func_name": f"{func_name}"}
    if dist.is_initialized():
        group = kwargs.get("group") or kwargs.get("process_group")
        facts.update(pg_name=f"{dist._get_process_group_name(kwargs.get('pg'))}", backend=f"{dist.get_backend(group)}",
                     world_size=f"{dist.get_world_size()}", group_size=f"{dist.get_world_size(group)}",
                     global_rank=f"{dist.get_rank()}", local_rank=f"{dist.get_rank(group)}")
    return facts


def _exception_logger(func):
    """Returns the function, whose errors are logged."""
    @functools.wraps(func)
    def call(*args, **kwargs):
        try:
            return func(*args, **kwargs)
        except Exception as error:
            _c10d_logger.debug({**_get_msg_dict(func.__name__, *args, **kwargs), "error": f"{error}"})
            raise
    return call


def _time_logger(func):
    """Returns the function: times are in profiles, not in logs."""
    return func
