"""NAdam."""
from .optimizer import (ElementwiseOptimizer, _check_betas, _check_lr, _check_nonnegative,
                        _count, _zeros_like)

__all__ = ["NAdam"]


class NAdam(ElementwiseOptimizer):
    """Adam with Nesterov momentum of increasing strength.

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.NAdam([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8944, 0.8944])
    """

    _late_options = {"maximize": False, "foreach": None, "capturable": False,
                     "differentiable": False, "decoupled_weight_decay": False}
    _scalars = ("step", "mu_product")

    _capturable_names = "params, mu_products and state_steps"

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
                 momentum_decay=4e-3, decoupled_weight_decay=False, *, foreach=None,
                 maximize=False, capturable=False, differentiable=False):
        _check_lr(lr)
        _check_nonnegative("epsilon value", eps)
        _check_betas(betas)
        _check_nonnegative("weight_decay value", weight_decay)
        _check_nonnegative("momentum_decay value", momentum_decay)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay,
            "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize, "foreach": foreach, "capturable": capturable,
            "differentiable": differentiable})

    def _new_state(self, param, grad, group):
        return {"step": self._scalar(0.0, param, group),
                "mu_product": self._scalar(1.0, param, group), "exp_avg": _zeros_like(param),
                "exp_avg_sq": _zeros_like(param)}

    def _update(self, param, grad, state, group, lr):
        (beta1, beta2), decay = group["betas"], group["weight_decay"]
        mean, square, product = state["exp_avg"], state["exp_avg_sq"], state["mu_product"]
        step = _count(state, group)
        if decay != 0 and group["decoupled_weight_decay"]:
            param.mul_(1 - lr * decay)
        elif decay != 0:
            grad = grad.add(param, alpha=decay)
        mu, mu_next = (beta1 * (1.0 - 0.5 * 0.96 ** (n * group["momentum_decay"]))
                       for n in (step, step + 1))
        product *= mu
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        root = square.div(1 - beta2 ** step).sqrt()
        if group["differentiable"] or group["capturable"]:
            root = root.add(group["eps"])
            param.addcdiv_(grad * (-lr * (1.0 - mu) / (1.0 - product)), root)
            param.addcdiv_(mean * (-lr * mu_next / (1.0 - product * mu_next)), root)
        else:
            product = product.item()
            root.add_(group["eps"])
            param.addcdiv_(grad, root, value=-lr * (1.0 - mu) / (1.0 - product))
            param.addcdiv_(mean, root, value=-lr * mu_next / (1.0 - product * mu_next))
