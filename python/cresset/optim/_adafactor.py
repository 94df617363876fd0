"""Adafactor."""
import cresset
from .. import Tensor
from .optimizer import ElementwiseOptimizer, _to_scalar

__all__ = ["Adafactor"]


class Adafactor(ElementwiseOptimizer):
    """Divides by the root of the mean of squared gradients; that of a matrix is the product of a column
    and a row.  The step's size follows the parameter's.

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.Adafactor([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 0.9000])
    """

    _late_options = {"foreach": None}

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None,
                 maximize=False):
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        for low, value, name in ((0, lr, "Learning rate"), (None, beta2_decay, "beta2_decay"), (0, eps[0], "epsilon1"),
                                 (0, eps[1], "epsilon2"), (1, d, "Clipping threshold d"),
                                 (0, weight_decay, "weight_decay")):
            if value is not None and low is not None and not low <= value:
                raise ValueError(f"{name} should be >= {low} but is: {value}")
            if low is None and not value <= 0:
                raise ValueError(f"{name} should be <= 0 but is: {value}")
        super().__init__(params, {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d,
                                  "weight_decay": weight_decay, "foreach": foreach, "maximize": maximize})

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
        state = {"step": cresset.tensor(0.0)}
        if grad.dim() > 1:
            rows, columns = list(grad.shape), list(grad.shape)
            rows[-1] = columns[-2] = 1
            state.update(row_var=grad.new_zeros(rows), col_var=grad.new_zeros(columns))
        else:
            state["variance"] = cresset.zeros_like(grad, memory_format=cresset.preserve_format)
        return state

    def _step_group(self, group):
        params, grads, states = self._collect(group)
        for param, grad, state in zip(params, grads, states):
            if param.is_complex():
                raise RuntimeError("Adafactor does not support complex parameters")
            _update(param, -grad if group["maximize"] else grad, state, group)


def _root_mean_square(x):
    return x.norm(2).item() / x.numel() ** 0.5


def _update(param, grad, state, group):
    small, least = group["eps"]
    small = cresset.finfo(param.dtype).eps if small is None else small
    lr = _to_scalar(group["lr"])
    state["step"] += 1
    step = state["step"].item()
    size = max(least, _root_mean_square(param)) * min(lr, step ** -0.5)
    if group["weight_decay"] != 0:
        param.mul_(1 - lr * group["weight_decay"])
    variance = _variance(grad, state, step ** group["beta2_decay"], small)
    update = variance.clamp_(min=small * small).rsqrt_().mul_(grad)
    clip = max(1.0, _root_mean_square(update) / group["d"])
    param.add_(update, alpha=-size / clip)


def _variance(grad, state, share, small):
    """Adds the gradient's squares, with weight `share`, to the means.  Returns their estimate."""
    if grad.dim() <= 1:
        return state["variance"].lerp_(grad * grad, share).clone()
    rows, columns = state["row_var"], state["col_var"]
    rows.lerp_(grad.norm(dim=-1, keepdim=True).square_().div_(grad.size(-1)), share)
    columns.lerp_(grad.norm(dim=-2, keepdim=True).square_().div_(grad.size(-2)), share)
    return (rows @ columns).div_(rows.mean(dim=-2, keepdim=True).clamp_(min=small))
