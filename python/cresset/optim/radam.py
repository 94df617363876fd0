"""RAdam."""
import cresset
from .optimizer import (ElementwiseOptimizer, _check_betas, _check_lr, _check_nonnegative,
                        _count, _zeros_like)

__all__ = ["RAdam"]


class RAdam(ElementwiseOptimizer):
    """Adam with rectification while its second moment is unreliable.

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.RAdam([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 0.8000])
    """

    _late_options = {"foreach": None, "maximize": False, "differentiable": False,
                     "decoupled_weight_decay": False, "capturable": False}

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
                 decoupled_weight_decay=False, *, foreach=None, maximize=False,
                 capturable=False, differentiable=False):
        _check_lr(lr)
        _check_nonnegative("epsilon value", eps)
        _check_betas(betas)
        _check_nonnegative("weight_decay value", weight_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable})

    def _new_state(self, param, grad, group):
        return {"step": self._scalar(0.0, param, group), "exp_avg": _zeros_like(param),
                "exp_avg_sq": _zeros_like(param)}

    def _update(self, param, grad, state, group, lr):
        (beta1, beta2), decay = group["betas"], group["weight_decay"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        step = _count(state, group)
        if decay != 0 and group["decoupled_weight_decay"]:
            param.mul_(1 - lr * decay)
        elif decay != 0:
            grad = grad.add(param, alpha=decay)
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        correction = 1 - beta2 ** step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2 ** step / correction

        def adaptive():
            root = square.sqrt()
            eps = group["eps"]
            return correction ** 0.5 / (root.add(eps) if group["differentiable"]
                                        else root.add_(eps))

        def rectification():
            return ((length - 4) * (length - 2) * limit
                    / ((limit - 4) * (limit - 2) * length)) ** 0.5

        update = mean / (1 - beta1 ** step) * lr
        if group["capturable"]:
            update = update * cresset.where(length > 5.0, rectification() * adaptive(), 1.0)
        elif length > 5.0:
            update = update * adaptive() * rectification()
        param.add_(update, alpha=-1.0)
