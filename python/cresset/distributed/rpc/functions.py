"""Marks of functions that other processes call."""
import functools

__all__ = ["async_execution"]


def async_execution(fn):
    """Decorates a function that returns a torch.futures.Future: its caller gets the future's value when it is there, and no
    thread waits for it meanwhile.  Goes below @staticmethod and @classmethod."""
    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)
    wrapper._wrapped_async_rpc_function = fn
    return wrapper
