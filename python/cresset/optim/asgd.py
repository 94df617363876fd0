"""Averaged stochastic gradient descent."""
import cresset
from .optimizer import (ElementwiseOptimizer, _check_lr, _check_nonnegative, _count, _decayed,
                        _get_scalar_dtype, _to_scalar, _zeros_like)

__all__ = ["ASGD"]


class ASGD(ElementwiseOptimizer):
    """Gradient descent with a decaying rate that also averages the parameters.

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.ASGD([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 0.8000])
    """

    _scalars = ("step", "eta", "mu")

    _capturable_names = "params, mus, etas, and state_steps"

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0,
                 foreach=None, maximize=False, differentiable=False, capturable=False):
        _check_lr(lr)
        _check_nonnegative("weight_decay value", weight_decay)
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay,
            "foreach": foreach, "maximize": maximize, "differentiable": differentiable,
            "capturable": capturable})

    @staticmethod
    def _scalar(value, param, group):
        return cresset.tensor(value, dtype=_get_scalar_dtype(), device=param.device)

    def _new_state(self, param, grad, group):
        return {"step": self._scalar(0.0, param, group),
                "eta": self._scalar(float(_to_scalar(group["lr"])), param, group),
                "mu": self._scalar(1.0, param, group), "ax": _zeros_like(param)}

    def _update(self, param, grad, state, group, lr):
        average, eta, mu = state["ax"], state["eta"], state["mu"]
        step, lambd = _count(state, group), group["lambd"]
        rate = eta if group["capturable"] else eta.item()
        grad = _decayed(param, grad, group)
        param.mul_(1 - lambd * rate)
        param.addcmul_(grad, eta, value=-1) if group["capturable"] else param.add_(
            grad, alpha=-rate)
        if group["capturable"] or mu.item() != 1:
            average.add_(param.sub(average).mul_(mu))
        else:
            average.copy_(param)
        eta.copy_(cresset.as_tensor(lr / (1 + lambd * lr * step) ** group["alpha"]))
        if group["capturable"]:
            mu.copy_(1 / cresset.clamp_min(step - group["t0"], 1))
        else:
            mu.copy_(cresset.as_tensor(1 / max(1, step - group["t0"])))
