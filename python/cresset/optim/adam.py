"""Adam."""
import cresset
from .. import Tensor
from .._ops import ops
from .optimizer import (ElementwiseOptimizer, _check_betas, _check_capturable, _check_fused,
                        _check_foreach, _check_fusible, _check_nonnegative, _to_scalar, _zeros_like)

__all__ = ["Adam"]


def _check_tensor(name, value, foreach, capturable):
    if isinstance(value, Tensor):
        if foreach and not capturable:
            raise ValueError(f"{name} as a Tensor is not supported for capturable=False and "
                             "foreach=True")
        if value.numel() != 1:
            raise ValueError(f"Tensor {name} must be 1-element")


class Adam(ElementwiseOptimizer):
    """Adam; with decoupled_weight_decay it is AdamW.

    m and v are exponential means of the gradient and of its square, corrected for their initial
    zero; param -= lr * m / (sqrt(v) + eps).

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.Adam([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 0.9000])
    """

    _late_options = {"amsgrad": False, "maximize": False, "foreach": None, "capturable": False,
                     "differentiable": False, "decoupled_weight_decay": False, "fused": None}

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0,
                 amsgrad=False, *, foreach=None, maximize=False, capturable=False,
                 differentiable=False, fused=None, decoupled_weight_decay=False):
        _check_tensor("lr", lr, foreach, capturable)
        _check_nonnegative("learning rate", lr)
        _check_nonnegative("epsilon value", eps)
        _check_betas(betas)
        _check_nonnegative("weight_decay value", weight_decay)
        if not (all(isinstance(b, float) for b in betas)
                or all(isinstance(b, Tensor) for b in betas)):
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            _check_tensor(f"betas[{i}]", beta, foreach, capturable)
        defaults = {"lr": lr, "betas": tuple(map(_to_scalar, betas)), "eps": eps,
                    "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize,
                    "foreach": foreach, "capturable": capturable,
                    "differentiable": differentiable, "fused": fused,
                    "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, defaults)
        if fused:
            self._step_supports_amp_scaling = True
            _check_fused(defaults)

    def _new_state(self, param, grad, group):
        state = {"step": self._scalar(0.0, param, group), "exp_avg": _zeros_like(param),
                 "exp_avg_sq": _zeros_like(param)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = _zeros_like(param)
        return state

    def _refuse_sparse(self):
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam "
                           "instead")

    def _may_fuse(self, group, params):
        return super()._may_fuse(group, params) and not any(
            isinstance(beta, Tensor) for beta in group["betas"])

    def _step_group(self, group):
        params, grads, states = self._collect(group)
        if not params:
            return
        self._check_group(group, params, states)
        if self._may_fuse(group, params):
            return self._step_fused(group, params, grads, states)
        for param, grad, state in zip(params, grads, states):
            self._update(param, -grad if group["maximize"] else grad, state, group)

    def _check_group(self, group, params, states):
        if group["fused"]:
            _check_fusible(params)
        _check_foreach(group)
        if group["capturable"]:
            _check_capturable(states, params)
        if group["differentiable"] and any(s["step"].requires_grad for s in states):
            raise RuntimeError("`requires_grad` is not supported for `step` in differentiable "
                               "mode")
        if group["foreach"] and isinstance(group["lr"], Tensor) and not group["capturable"]:
            raise RuntimeError("lr as a Tensor is not supported for capturable=False and "
                               "foreach=True")

    _fused_numbers = ("lr", "weight_decay")

    def _step_fused(self, group, params, grads, states):
        maxima = [s["max_exp_avg_sq"] for s in states] if group["amsgrad"] else []
        steps = [s["step"] for s in states]
        self._count(group, steps, lambda known: ops._counted_adam_(
            params, grads, [s["exp_avg"] for s in states], [s["exp_avg_sq"] for s in states],
            maxima, steps, lr=group["lr"], beta1=group["betas"][0],
            beta2=group["betas"][1], weight_decay=group["weight_decay"], eps=group["eps"],
            amsgrad=group["amsgrad"], maximize=group["maximize"],
            decoupled=group["decoupled_weight_decay"], known=known, **self._scaling()))

    def _update(self, param, grad, state, group):
        """Updates one parameter by tensor operators, like the fused operator."""
        beta1, beta2 = group["betas"]
        lr, decay = _to_scalar(group["lr"]), group["weight_decay"]
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        maximum = state["max_exp_avg_sq"] if group["amsgrad"] else None
        step = state["step"]
        step += 1
        if group["decoupled_weight_decay"]:
            if decay != 0:
                param.mul_(1 - lr * decay)
        elif isinstance(decay, Tensor) and decay.requires_grad:
            grad = grad.addcmul_(param.clone(), decay)
        elif decay != 0:
            grad = grad.add(param, alpha=decay)
        if param.is_complex():
            param, grad, mean, square = map(cresset.view_as_real, (param, grad, mean, square))
            maximum = None if maximum is None else cresset.view_as_real(maximum)
        mean.lerp_(grad, 1 - beta1)
        if isinstance(beta2, Tensor) and beta2.requires_grad:
            square.lerp_(grad.square(), 1 - beta2)
        else:
            square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        tensors = group["capturable"] or group["differentiable"]
        apply = _apply_with_tensors if tensors else _apply
        apply(param, mean, square, maximum, step, lr, beta1, beta2, group)


def _apply(param, mean, square, maximum, step, lr, beta1, beta2, group):
    step = step.item()
    step_size = lr / (1 - beta1 ** step)
    correction = (1 - beta2 ** step) ** 0.5
    if maximum is not None:
        square = cresset.maximum(maximum, square, out=maximum)
    denominator = (square.sqrt() / correction).add_(group["eps"])
    param.addcdiv_(mean, denominator, value=-step_size)


def _apply_with_tensors(param, mean, square, maximum, step, lr, beta1, beta2, group):
    """As _apply, with the step count as a tensor, so that graphs and gradients contain it."""
    differentiable = group["differentiable"]
    count = step.clone() if differentiable else step
    step_size = (lr / (1 - beta1 ** count)).neg()
    correction = (1 - beta2 ** count).sqrt() * step_size
    if maximum is not None:
        old = maximum.clone() if differentiable else maximum
        maximum.copy_(cresset.maximum(old, square))
        square = maximum
    denominator = (square.sqrt() / correction).add_(group["eps"] / step_size)
    param.addcdiv_(mean.clone() if differentiable else mean, denominator)
