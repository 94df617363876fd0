"""Adamax."""
import cresset
from .optimizer import (ElementwiseOptimizer, _check_betas, _check_lr, _check_nonnegative,
                        _count, _decayed, _zeros_like)

__all__ = ["Adamax"]


class Adamax(ElementwiseOptimizer):
    """Adam with the largest (decaying) gradient instead of the root mean square.

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.Adamax([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 0.9000])
    """

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
                 foreach=None, *, maximize=False, differentiable=False, capturable=False):
        _check_lr(lr)
        _check_nonnegative("epsilon value", eps)
        _check_betas(betas)
        _check_nonnegative("weight_decay value", weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable})

    def _new_state(self, param, grad, group):
        return {"step": self._scalar(0.0, param, group), "exp_avg": _zeros_like(param),
                "exp_inf": _zeros_like(param)}

    def _update(self, param, grad, state, group, lr):
        beta1, beta2 = group["betas"]
        mean, largest = state["exp_avg"], state["exp_inf"]
        step = _count(state, group)
        grad = _decayed(param, grad, group)
        mean.lerp_(grad, 1 - beta1)
        size = grad.abs().add_(group["eps"])
        if group["differentiable"]:
            both = cresset.stack([largest.mul_(beta2), size])
            largest.copy_(cresset.amax(both, 0, keepdim=False))
        else:
            cresset.maximum(largest.mul_(beta2), size, out=largest)
        if group["capturable"]:
            param.addcdiv_(mean, largest * ((beta1 ** step - 1) / lr))
        else:
            param.addcdiv_(mean, largest, value=-(lr / (1 - beta1 ** step)))
