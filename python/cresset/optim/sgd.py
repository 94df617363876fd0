"""Stochastic gradient descent."""
from .. import Tensor
from .._ops import ops
from .optimizer import (ElementwiseOptimizer, _check_fused, _check_fusible, _check_lr,
                        _to_scalar, _zeros_like)

__all__ = ["SGD"]


class SGD(ElementwiseOptimizer):
    """Stochastic gradient descent with momentum.

    buf = momentum * buf + (1 - dampening) * grad (the first time buf = grad);
    param -= lr * (grad + momentum * buf if nesterov else buf).

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.SGD([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 0.8000])
    """

    _late_options = {"nesterov": False, "maximize": False, "foreach": None,
                     "differentiable": False, "fused": False}
    _scalars = ()

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0,
                 nesterov=False, *, maximize=False, foreach=None, differentiable=False,
                 fused=None):
        _check_lr(lr)
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening,
                    "weight_decay": weight_decay, "nesterov": nesterov, "maximize": maximize,
                    "foreach": foreach, "differentiable": differentiable, "fused": fused}
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, defaults)
        if fused:
            self._step_supports_amp_scaling = True
            _check_fused(defaults)

    def _step_group(self, group):
        params, grads, plain = [], [], False
        for param in group["params"]:
            grad = param.grad
            if grad is not None:
                params.append(param)
                grads.append(grad)
                plain = plain or grad.is_sparse or not grad.is_floating_point()
        fused = group["fused"]
        if fused:
            _check_fusible(params)
        if (plain or fused is False or group["differentiable"]
                or isinstance(group["lr"], Tensor)
                or isinstance(group["weight_decay"], Tensor)):
            self._step_plain(group, params, grads)
        elif params:
            self._step_fused(group, params, grads)

    def _step_fused(self, group, params, grads):
        """Updates all parameters by one operator; parameters without a buffer need a separate
        call."""
        if group["momentum"] == 0:
            return self._call_fused(group, params, grads, [], False)
        states = [self.state[p] for p in params]
        if all(s.get("momentum_buffer") is not None for s in states):
            buffers = [s["momentum_buffer"] for s in states]
            return self._call_fused(group, params, grads, buffers, False)
        new = [s.get("momentum_buffer") is None for s in states]
        for first in (True, False):
            chosen = [i for i, missing in enumerate(new) if missing == first]
            if chosen:
                buffers = [self._buffer(states[i], params[i]) for i in chosen]
                self._call_fused(group, [params[i] for i in chosen], [grads[i] for i in chosen],
                                 buffers, first)

    @staticmethod
    def _buffer(state, param):
        if state.get("momentum_buffer") is None:
            state["momentum_buffer"] = _zeros_like(param)
        return state["momentum_buffer"]

    def _call_fused(self, group, params, grads, buffers, first):
        # A zero buffer makes the first step like later ones, except for the dampening.
        first = first and group["dampening"] != 0
        ops._fused_sgd_(params, grads, buffers, weight_decay=group["weight_decay"],
                        momentum=group["momentum"], lr=group["lr"],
                        dampening=group["dampening"], nesterov=group["nesterov"],
                        maximize=group["maximize"], is_first_step=first, **self._scaling())

    def _step_plain(self, group, params, grads):
        momentum, lr = group["momentum"], _to_scalar(group["lr"])
        for param, grad in zip(params, grads):
            grad = self._decay(param, -grad if group["maximize"] else grad,
                               group["weight_decay"])
            if momentum != 0:
                grad = self._momentum(self.state[param], grad, momentum, group)
            if isinstance(lr, Tensor) and lr.requires_grad:
                param.addcmul_(grad, lr, value=-1)
            else:
                param.add_(grad, alpha=-lr)

    @staticmethod
    def _decay(param, grad, weight_decay):
        if isinstance(weight_decay, Tensor) and weight_decay.requires_grad:
            return grad.addcmul_(param.clone(), weight_decay)
        return grad.add(param, alpha=weight_decay) if weight_decay != 0 else grad

    @staticmethod
    def _momentum(state, grad, momentum, group):
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = grad.detach().clone()
        else:
            buffer.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
        return grad.add(buffer, alpha=momentum) if group["nesterov"] else buffer
