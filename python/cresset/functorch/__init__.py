"""torch's functorch package: compilation to forward and backward graphs."""
from ..func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from ..fx.experimental.proxy_tensor import make_fx
from . import compile, experimental
