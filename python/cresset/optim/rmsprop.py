"""RMSprop."""
from .._ops import ops
from .optimizer import (ElementwiseOptimizer, _check_lr, _check_nonnegative, _count, _decayed,
                        _zeros_like)

__all__ = ["RMSprop"]


class RMSprop(ElementwiseOptimizer):
    """Divides by the root of the mean squared gradient (or its variance, when centered).

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.RMSprop([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([5.9605e-08, 5.9605e-08])
    """

    _late_options = {"momentum": 0, "centered": False, "foreach": None, "maximize": False,
                     "differentiable": False, "capturable": False}

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0,
                 centered=False, capturable=False, foreach=None, maximize=False,
                 differentiable=False):
        _check_lr(lr)
        _check_nonnegative("epsilon value", eps)
        _check_nonnegative("momentum value", momentum)
        _check_nonnegative("weight_decay value", weight_decay)
        _check_nonnegative("alpha value", alpha)
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable})

    def _new_state(self, param, grad, group):
        state = {"step": self._scalar(0.0, param, group), "square_avg": _zeros_like(param)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = _zeros_like(param)
        if group["centered"]:
            state["grad_avg"] = _zeros_like(param)
        return state

    _fused_numbers = ("lr", "alpha", "eps", "weight_decay", "momentum")

    def _step_fused(self, group, params, grads, states):
        means = [s["grad_avg"] for s in states] if group["centered"] else []
        buffers = [s["momentum_buffer"] for s in states] if group["momentum"] > 0 else []
        ops._counted_rmsprop_(
            params, grads, [s["square_avg"] for s in states], means, buffers,
            [s["step"] for s in states], lr=group["lr"], alpha=group["alpha"],
            one_alpha=1 - group["alpha"], eps=group["eps"], weight_decay=group["weight_decay"],
            momentum=group["momentum"], maximize=group["maximize"])

    def _update(self, param, grad, state, group, lr):
        alpha, eps, square = group["alpha"], group["eps"], state["square_avg"]
        _count(state, group)
        grad = _decayed(param, grad, group)
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"]
            mean.lerp_(grad, 1 - alpha)
            root = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            root = square.sqrt()
        root = root.add(eps) if group["differentiable"] else root.add_(eps)
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"]
            buffer.mul_(group["momentum"]).addcdiv_(grad, root)
            param.add_(buffer, alpha=-lr)
        else:
            param.addcdiv_(grad, root, value=-lr)
