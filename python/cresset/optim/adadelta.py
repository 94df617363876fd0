"""Adadelta."""
from .._ops import ops
from .optimizer import (ElementwiseOptimizer, _check_lr, _check_nonnegative, _count, _decayed,
                        _zeros_like)

__all__ = ["Adadelta"]


class Adadelta(ElementwiseOptimizer):
    """Scales by the root mean square of past updates over that of past gradients.

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.Adadelta([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9997, 0.9997])
    """

    _capturable_devices = ["cuda", "xpu", "hpu", "privateuseone"]

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *,
                 capturable=False, maximize=False, differentiable=False):
        _check_lr(lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        _check_nonnegative("epsilon value", eps)
        _check_nonnegative("weight_decay value", weight_decay)
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay,
            "maximize": maximize, "capturable": capturable, "foreach": foreach,
            "differentiable": differentiable})

    def _new_state(self, param, grad, group):
        return {"step": self._scalar(0.0, param, group), "square_avg": _zeros_like(param),
                "acc_delta": _zeros_like(param)}

    _fused_numbers = ("lr", "rho", "eps", "weight_decay")

    def _step_fused(self, group, params, grads, states):
        ops._counted_adadelta_(
            params, grads, [s["square_avg"] for s in states], [s["acc_delta"] for s in states],
            [s["step"] for s in states], lr=group["lr"], rho=group["rho"],
            one_rho=1 - group["rho"], eps=group["eps"], weight_decay=group["weight_decay"],
            maximize=group["maximize"])

    def _update(self, param, grad, state, group, lr):
        rho, eps = group["rho"], group["eps"]
        square, updates = state["square_avg"], state["acc_delta"]
        _count(state, group)
        grad = _decayed(param, grad, group)
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = updates.add(eps).sqrt_()
        if group["differentiable"]:
            delta = delta.clone()
        delta.div_(square.add(eps).sqrt_()).mul_(grad)
        updates.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        param.add_(delta, alpha=-lr)
