"""Derivatives and batches of functions; modules as functions of their parameters."""
from .._functorch.eager_transforms import (debug_unwrap, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize,
                                           vjp)
from .._functorch.functionalize import functionalize
from .._functorch.vmap import vmap
from ..nn.utils.stateless import _functional_call

__all__ = ["debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap"]


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *,
                    tie_weights=True, strict=False):
    """Calls module(*args, **kwargs) with the given tensors: a dict by name, or several dicts."""
    dicts = parameter_and_buffer_dicts
    if not isinstance(dicts, dict):
        if not isinstance(dicts, (list, tuple)):
            raise ValueError("Expected parameter_and_buffer_dicts to be a dict, or a list/tuple "
                             f"of dicts, but got {type(dicts)}")
        if not all(isinstance(d, dict) for d in dicts):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be "
                             "dictionaries")
        repeated = [k for k in {k for d in dicts for k in d} if sum(k in d for d in dicts) > 1]
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of "
                             "functional call is ambiguous")
        dicts = {k: v for d in dicts for k, v in d.items()}
    return _functional_call(module, dicts, args, kwargs, tie_weights=tie_weights, strict=strict)


def replace_all_batch_norm_modules_(root):
    """Removes the running statistics of all batch norms in a module; they then use those of the batch."""
    from ..nn.modules.batchnorm import _BatchNorm
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def stack_module_state(models):
    """Stacks the parameters and the buffers of equal modules along a new first dim."""
    from .. import stack
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same "
                           "training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(name, of):
        values = [dict(of(m))[name] for m in models]
        if len({x.requires_grad for x in values}) > 1:
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        made = stack(values)
        return made.detach().requires_grad_(values[0].requires_grad)

    params = {k: stacked(k, lambda m: m.named_parameters()) for k, _ in
              models[0].named_parameters()}
    buffers = {k: stacked(k, lambda m: m.named_buffers()) for k, _ in models[0].named_buffers()}
    return params, buffers


def rearrange(tensor, pattern, **axes_lengths):
    """The elements in another order of dims: rearrange(x, "b (h w) c -> b c h w", h=2).

    Names are dims, parentheses join dims, `...` stands for any dims, 1 is a dim of size 1.
    A list of tensors is stacked first.
    """
    from .._functorch.rearrange import rearrange as run
    return run(tensor, pattern, **axes_lengths)
