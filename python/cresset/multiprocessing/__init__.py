"""multiprocessing with tensors that processes share: a tensor that is sent moves to shared memory."""
import multiprocessing as _multiprocessing
from multiprocessing import *

from .reductions import init_reductions
from .spawn import (ENV_VAR_PARALLEL_START, ProcessContext, ProcessExitedException, ProcessRaisedException,  # noqa: F401
                    SpawnContext, spawn, start_processes)
from . import reductions, shared

__all__ = [*_multiprocessing.__all__, "set_sharing_strategy", "get_sharing_strategy",
           "get_all_sharing_strategies"]


def get_all_sharing_strategies():
    """Returns the ways in which shared memory is found: by file descriptors or by file names."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy():
    return shared.strategy


def set_sharing_strategy(new_strategy):
    """Sets the way in which shared memory of new tensors is found."""
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(f"invalid sharing strategy '{new_strategy}', expected one of "
                             f"{get_all_sharing_strategies()}")
    shared.strategy = new_strategy


init_reductions()
