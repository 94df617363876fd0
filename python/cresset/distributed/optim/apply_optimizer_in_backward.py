"""Optimizers that step while backward runs, as soon as a parameter has its gradient."""
__all__ = []


def _step(parameter):
    for optimizer in parameter._in_backward_optimizers:
        optimizer.step()
    parameter.grad = None


def _prepare(parameter):
    """Adds the attributes under which a parameter's optimizers are found."""
    if not hasattr(parameter, "_in_backward_optimizers"):
        parameter._in_backward_optimizers, parameter._optimizer_classes, parameter._optimizer_kwargs = [], [], []
        parameter._steps_in_backward = False


def _apply_optimizer_in_backward(optimizer_class, params, optimizer_kwargs, register_hook=True):
    """Gives each parameter an optimizer of its own, which steps in backward and frees the gradient.  The options may be a list:
    one optimizer for each.  Without `register_hook` the program steps them."""
    options = [optimizer_kwargs] if isinstance(optimizer_kwargs, dict) else list(optimizer_kwargs)
    for parameter in list(params):
        _prepare(parameter)
        parameter._optimizer_classes.append(optimizer_class)
        parameter._optimizer_kwargs.append(optimizer_kwargs)
        parameter._in_backward_optimizers += [optimizer_class([parameter], **o) for o in options]
        if register_hook and not parameter._steps_in_backward:
            parameter._steps_in_backward = True
            parameter.register_post_accumulate_grad_hook(_step)


def _get_in_backward_optimizers(module):
    """Returns the optimizers of a module's parameters."""
    return [o for p in module.parameters() for o in getattr(p, "_in_backward_optimizers", [])]
