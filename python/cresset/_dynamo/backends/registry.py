"""Backends of compile().

A backend is a function (GraphModule, example inputs) -> callable with the same inputs.  The
names "cresset" and "inductor" mean this package's programs, which need no GraphModule.
"""
from .. import eval_frame
from .debugging import aot_eager, eager
from .inductor import inductor

_registered = {}


def set_default_backend(backend):
    """Sets the backend that compile() uses by default; None means "inductor"."""
    eval_frame.default_backend = "inductor" if backend is None else backend


def get_default_backend():
    return eval_frame.default_backend


def register_backend(compiler_fn=None, name=None, tags=()):
    """Registers a backend under a name; a decorator or a function."""
    if compiler_fn is None:
        return lambda fn: register_backend(fn, name, tags)
    if not callable(compiler_fn):
        raise AssertionError(f"compiler_fn must be callable, got {type(compiler_fn)}")
    name = name or compiler_fn.__name__
    if name in _registered:
        raise AssertionError(f"duplicate name: {name}")
    _registered[name] = compiler_fn
    compiler_fn._tags = tuple(tags)
    return compiler_fn


_DEBUG = {"eager": eager, "aot_eager": aot_eager}


def list_backends(exclude_tags=("debug", "experimental")):
    """Returns the names that compile(backend=...) accepts."""
    debug = list(_DEBUG) if not exclude_tags or "debug" not in exclude_tags else []
    others = [name for name, fn in _registered.items() if not set(fn._tags) & set(exclude_tags or ())]
    return sorted([*eval_frame.OWN_NAMES, *debug, *others])


def lookup_backend(backend):
    """Returns the function of a name."""
    if not isinstance(backend, str):
        if not callable(backend):
            _refuse(backend)
        return backend
    if backend in eval_frame.OWN_NAMES:
        return inductor
    found = _registered.get(backend) or _DEBUG.get(backend)
    if found is None:
        _refuse(backend)
    return found


def _refuse(backend):
    from ..exc import InvalidBackend
    raise InvalidBackend(backend)
