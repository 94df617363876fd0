"""torch's functorch package: compilation to forward and backward graphs."""
import functools

from .. import func as _func
from .._functorch.make_functional import (FunctionalModule, FunctionalModuleWithBuffers, _warn, combine_state_for_ensemble,
                                          make_functional, make_functional_with_buffers)
from ..fx.experimental.proxy_tensor import make_fx
from . import compile, experimental


def _older(name, newer):
    """Returns a function of torch.func under its older name, which warns."""
    function = getattr(_func, name)

    @functools.wraps(function)
    def call(*args, **kwargs):
        _warn(name, newer)
        return function(*args, **kwargs)
    return call


vmap = _older("vmap", "torch.vmap")
functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp = (
    _older(_name, f"torch.func.{_name}") for _name in
    ("functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp"))
