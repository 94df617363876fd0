"""Calls of the methods of referenced values."""
from functools import partial

from ...futures import Future
from . import functions
from .constants import UNSET_RPC_TIMEOUT

__all__ = ["RRefProxy"]


def _local_invoke(rref, func_name, args, kwargs):
    return getattr(rref.local_value(), func_name)(*args, **kwargs)


@functions.async_execution
def _local_invoke_async_execution(rref, func_name, args, kwargs):
    return getattr(rref.local_value(), func_name)(*args, **kwargs)


def _call(rref, rpc_api, func_name, timeout, args, kwargs, kind):
    marked = hasattr(getattr(kind, func_name), "_wrapped_async_rpc_function")
    run = _local_invoke_async_execution if marked else _local_invoke
    return rpc_api(rref.owner(), run, args=(rref, func_name, args, kwargs), timeout=timeout)


def _invoke_rpc(rref, rpc_api, func_name, timeout, *args, **kwargs):
    """Calls a method of the value.  Its class says whether the method is an async_execution."""
    from .api import rpc_async
    if rpc_api is not rpc_async:
        return _call(rref, rpc_api, func_name, timeout, args, kwargs, rref._get_type(timeout=timeout))
    result, known = Future(), rref._get_type(timeout=timeout, blocking=False)

    def ready():
        try:
            answer = _call(rref, rpc_api, func_name, timeout, args, kwargs, known.value())
        except Exception as error:
            result._complete(None, error)
        else:
            answer._when_completed(lambda: result._complete(answer._value, answer._error))
    known._when_completed(ready)
    return result


class RRefProxy:
    """Has the methods of a reference's value; each call goes to the owner."""

    def __init__(self, rref, rpc_api, timeout=UNSET_RPC_TIMEOUT):
        self.rref, self.rpc_api, self.rpc_timeout = rref, rpc_api, timeout

    def __getattr__(self, func_name):
        return partial(_invoke_rpc, self.rref, self.rpc_api, func_name, self.rpc_timeout)
