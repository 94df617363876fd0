"""Muon."""
import math

import cresset
from .. import Tensor
from .optimizer import ElementwiseOptimizer, _to_scalar, _zeros_like

__all__ = ["Muon"]

_ADJUSTMENTS = (None, "original", "match_rms_adamw")


class Muon(ElementwiseOptimizer):
    """Steps along the orthogonal matrix that is nearest to the mean gradient; for matrices.

    Example::

        >>> w = torch.ones(2, 2, requires_grad=True)
        >>> optimizer = torch.optim.Muon([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.shape
        torch.Size([2, 2])
    """

    _late_options = {}

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
                 ns_coefficients=(3.4445, -4.7750, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for value, name in ((lr, "Learning rate"), (momentum, "momentum"), (weight_decay, "weight decay")):
            if not 0.0 <= value:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in _ADJUSTMENTS:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                                  "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps,
                                  "adjust_lr_fn": adjust_lr_fn})
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError("Muon only supports 2D parameters whereas we found a parameter with size: "
                                     f"{param.size()}")

    def step(self, closure=None):
        """Updates all parameters that have gradients."""
        loss = None
        if closure is not None:
            with cresset.enable_grad():
                loss = closure()
        with cresset.no_grad():
            for group in self.param_groups:
                self._step_group(group)
        return loss

    def _new_state(self, param, grad, group):
        return {"momentum_buffer": _zeros_like(grad)}

    def _step_group(self, group):
        lr = _to_scalar(group["lr"])
        for param, grad, state in zip(*self._collect(group)):
            if param.is_complex():
                raise RuntimeError("Muon does not support complex parameters")
            mean = state["momentum_buffer"].lerp_(grad, 1 - group["momentum"])
            update = grad.lerp(mean, group["momentum"]) if group["nesterov"] else mean
            update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
            param.mul_(1 - lr * group["weight_decay"])
            param.add_(update, alpha=-_adjusted(lr, group["adjust_lr_fn"], param.shape))


def _orthogonal(x, coefficients, steps, eps):
    """Makes the singular values of a matrix about 1, by polynomials a x + b x^3 + c x^5, in bfloat16."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = x.bfloat16()
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = cresset.addmm(x, cresset.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def _adjusted(lr, kind, shape):
    """Scales the learning rate by the matrix's sizes."""
    if kind == "match_rms_adamw":
        return lr * 0.2 * math.sqrt(max(shape))
    return lr * math.sqrt(max(1, shape[0] / shape[1]))
