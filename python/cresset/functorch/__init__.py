"""torch's functorch package: compilation to forward and backward graphs."""
from .._functorch.make_functional import (FunctionalModule, FunctionalModuleWithBuffers, combine_state_for_ensemble,
                                          make_functional, make_functional_with_buffers)
from ..func import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from ..fx.experimental.proxy_tensor import make_fx
from . import compile, experimental
