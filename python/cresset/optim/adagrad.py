"""Adagrad."""
import cresset
from .._ops import ops
from .optimizer import (ElementwiseOptimizer, _check_fused, _check_foreach, _check_fusible, _check_lr, _check_nonnegative,
                        _decayed, _to_scalar)

__all__ = ["Adagrad"]


class Adagrad(ElementwiseOptimizer):
    """Divides by the root of the sum of all squared gradients.

    Example::

        >>> w = torch.ones(2, requires_grad=True)
        >>> optimizer = torch.optim.Adagrad([w], lr=0.1)
        >>> w.square().sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 0.9000])
    """

    _late_options = {"foreach": None, "maximize": False, "differentiable": False,
                     "fused": None}

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0,
                 initial_accumulator_value=0, eps=1e-10, foreach=None, *, maximize=False,
                 differentiable=False, fused=None):
        _check_lr(lr)
        _check_nonnegative("lr_decay value", lr_decay)
        _check_nonnegative("weight_decay value", weight_decay)
        _check_nonnegative("initial_accumulator_value value", initial_accumulator_value)
        _check_nonnegative("epsilon value", eps)
        defaults = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                    "initial_accumulator_value": initial_accumulator_value, "foreach": foreach,
                    "maximize": maximize, "differentiable": differentiable, "fused": fused}
        super().__init__(params, defaults)
        if fused:
            self._step_supports_amp_scaling = True
            _check_fused(defaults)
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param].update(self._new_state(param, None, group))

    def _new_state(self, param, grad, group):
        start = self.defaults["initial_accumulator_value"]
        start = complex(start, start) if param.is_complex() else start
        return {"step": self._scalar(0.0, param, group),
                "sum": cresset.full_like(param, start, memory_format=cresset.preserve_format)}

    def share_memory(self):
        """Moves the sums to shared memory."""
        for group in self.param_groups:
            for param in group["params"]:
                self.state[param]["sum"].share_memory_()

    _fused_numbers = ("lr", "lr_decay", "eps", "weight_decay")

    def _refuse_sparse(self):
        """Raises for sparse gradients, which need another update."""

    def _step_group(self, group):
        params, grads, states = self._collect(group)
        if not params:
            return
        if group["fused"]:
            _check_fusible(params)
        _check_foreach(group)
        if self._may_fuse(group, params) and not any(g.is_sparse for g in grads):
            return self._step_fused(group, params, grads, states)
        lr = _to_scalar(group["lr"])
        for param, grad, state in zip(params, grads, states):
            state["step"] += 1
            rate = lr / (1 + (state["step"].item() - 1) * group["lr_decay"])
            grad = -grad if group["maximize"] else grad
            update = self._update_sparse if grad.is_sparse else self._update_dense
            update(param, grad, state["sum"], rate, group)

    def _step_fused(self, group, params, grads, states):
        steps = [s["step"] for s in states]
        self._count(group, steps, lambda known: ops._counted_adagrad_(
            params, grads, [s["sum"] for s in states], steps,
            lr=group["lr"], lr_decay=group["lr_decay"], weight_decay=group["weight_decay"],
            eps=group["eps"], maximize=group["maximize"], known=known, **self._scaling()))

    def _update_dense(self, param, grad, total, rate, group):
        grad = _decayed(param, grad, group)
        if param.is_complex():
            param, grad, total = map(cresset.view_as_real, (param, grad, total))
        total.addcmul_(grad, grad, value=1)
        root = total.sqrt()
        root = root + group["eps"] if group["differentiable"] else root.add_(group["eps"])
        param.addcdiv_(grad, root, value=-rate)

    def _update_sparse(self, param, grad, total, rate, group):
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = grad.coalesce()
        indices, values = grad._indices(), grad._values()
        sparse = lambda v: cresset.sparse_coo_tensor(indices, v, grad.size())
        total.add_(sparse(values.pow(2)))
        root = total.sparse_mask(grad)._values().sqrt_().add_(group["eps"])
        param.add_(sparse(values / root), alpha=-rate)
