"""Modules, their parameters, and the functions they call."""
from .parameter import Buffer, Parameter
from .modules import *
from . import functional, init, modules, parameter, utils


def factory_kwargs(kwargs):
    """Returns the arguments among `kwargs` that tensor factories accept."""
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    if not kwargs.keys() <= simple | {"factory_kwargs"}:
        raise TypeError(f"unexpected kwargs {kwargs.keys() - simple - {'factory_kwargs'}}")
    out = dict(kwargs.get("factory_kwargs", {}))
    for name in simple & kwargs.keys():
        if name in out:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        out[name] = kwargs[name]
    return out
