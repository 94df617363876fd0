"""Adam for sparse gradients: moments and parameters change only where a gradient has values."""
from .. import sparse_coo_tensor
from .optimizer import ElementwiseOptimizer, _check_lr, _to_scalar, _zeros_like

__all__ = ["SparseAdam"]


class SparseAdam(ElementwiseOptimizer):
    """Adam that updates the moments lazily, for gradients of nn.Embedding(sparse=True).

    Example::

        >>> table = nn.Embedding(4, 2, sparse=True)
        >>> optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
        >>> table(torch.tensor([1])).sum().backward()
        >>> optimizer.step()
        >>> table.weight.grad.is_sparse
        True
    """

    _late_options = {"maximize": False}
    _scalars = ()

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        if not 0.0 < _to_scalar(lr):
            raise ValueError(f"Invalid learning rate: {lr}")
        _check_lr(lr)
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse = [[g, p] for g, group in enumerate(self.param_groups)
                  for p, param in enumerate(group["params"]) if param.is_sparse]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense "
                             "parameter tensors")

    def _step_group(self, group):
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                continue
            if not grad.is_sparse:
                raise RuntimeError("SparseAdam does not support dense gradients, please consider "
                                   "Adam instead")
            state = self.state[param]
            if not state:
                state.update(step=0, exp_avg=_zeros_like(param), exp_avg_sq=_zeros_like(param))
            state["step"] += 1
            grad = grad.coalesce()
            if grad._nnz():
                self._update(param, -grad if group["maximize"] else grad, state, group)

    @staticmethod
    def _update(param, grad, state, group):
        (beta1, beta2), step = group["betas"], state["step"]
        values = grad._values()
        sparse = lambda v: sparse_coo_tensor(grad._indices(), v, grad.shape, is_coalesced=True)
        first, second = state["exp_avg"], state["exp_avg_sq"]
        old_first = first.sparse_mask(grad)._values()
        change = values.sub(old_first).mul_(1 - beta1)
        first.add_(sparse(change))
        new_first = change.clone().add_(old_first)
        old_second = second.sparse_mask(grad)._values()
        change = values.pow(2).sub_(old_second).mul_(1 - beta2)
        second.add_(sparse(change))
        root = change.add_(old_second).sqrt_().add_(group["eps"])
        rate = _to_scalar(group["lr"]) * (1 - beta2 ** step) ** 0.5 / (1 - beta1 ** step)
        param.add_(sparse(-rate * new_first.div_(root)))
