"""Modules, their parameters, and the functions they call."""
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from .modules import *
from . import functional, init, modules, parameter, utils


def __getattr__(name):
    if name in ("attention", "grad", "parallel", "quantized"):
        from importlib import import_module
        return import_module(f"{__name__}.{name}")
    if name == "DataParallel":
        from .parallel import DataParallel
        return DataParallel
    from .._absent_names import missing
    raise missing(__name__, name)


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


__all__ = [*(name for name in globals() if name[0] != "_"), "DataParallel"]
