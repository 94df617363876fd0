"""Rprop."""
import cresset
from .optimizer import (ElementwiseOptimizer, _check_lr, _count, _to_scalar, _zeros_like)

__all__ = ["Rprop"]


class Rprop(ElementwiseOptimizer):
    """Steps by the sign of the gradient; a size grows while the sign stays and shrinks when it
    changes.

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.Rprop([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 0.9000])
    """

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *,
                 capturable=False, foreach=None, maximize=False, differentiable=False):
        _check_lr(lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable})

    def _new_state(self, param, grad, group):
        lr = _to_scalar(group["lr"])
        size = complex(lr, lr) if param.is_complex() else lr
        return {"step": self._scalar(0.0, param, group), "prev": _zeros_like(param),
                "step_size": cresset.full_like(grad, size)}

    def _update(self, param, grad, state, group, lr):
        down, up = group["etas"]
        previous, sizes = state["prev"], state["step_size"]
        _count(state, group)
        product = grad.mul(previous.clone() if group["differentiable"] else previous)
        factor = cresset.ones_like(product)
        factor = factor.masked_fill(product > 0, up).masked_fill(product < 0, down)
        sizes.mul_(factor).clamp_(*group["step_sizes"])
        grad = grad.masked_fill(factor == down, 0)
        param.addcmul_(grad.sign(), sizes, value=-1)
        previous.copy_(grad)
