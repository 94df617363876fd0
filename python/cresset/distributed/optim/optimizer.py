"""An optimizer of parameters that several processes own."""
import threading

from .. import autograd, rpc

__all__ = ["DistributedOptimizer"]


class _LocalOptimizer:
    """The optimizer of the parameters of one process."""

    global_lock = threading.Lock()  # a step borrows .grad of the parameters, which other optimizers may share

    def __init__(self, optim_cls, local_params_rref, *args, **kwargs):
        self._local_params = [rref.local_value() for rref in local_params_rref]
        self.optim = optim_cls(self._local_params, *args, **kwargs)

    def step(self, autograd_ctx_id):
        """Steps with the gradients that a context of torch.distributed.autograd has."""
        gradients = autograd.get_gradients(autograd_ctx_id)
        with _LocalOptimizer.global_lock:
            before = [p.grad for p in self._local_params]
            try:
                for p in self._local_params:
                    p.grad = gradients.get(p)
                self.optim.step()
            finally:
                for p, grad in zip(self._local_params, before):
                    p.grad = grad


def _new_local_optimizer(optim_cls, local_params_rref, *args, **kwargs):
    return rpc.RRef(_LocalOptimizer(optim_cls, local_params_rref, *args, **kwargs))


def _local_optimizer_step(local_optim_rref, autograd_ctx_id):
    local_optim_rref.local_value().step(autograd_ctx_id)


def _wait_for_all(answers):
    """Waits for all futures, and raises the first error afterwards."""
    first, results = None, []
    for answer in answers:
        try:
            results.append(answer.wait())
        except Exception as error:
            first = first or error
    if first is not None:
        raise first
    return results


class DistributedOptimizer:
    """Makes an optimizer in every process that owns parameters: optimizer_class(parameters, *args, **kwargs).

    params_rref: RRefs of the parameters.  Parameters without a gradient in the step's context are left alone.
    """

    def __init__(self, optimizer_class, params_rref, *args, **kwargs):
        owned = {}
        for reference in params_rref:
            owned.setdefault(reference.owner(), []).append(reference)
        self.is_functional_optim = False
        self.remote_optimizers = _wait_for_all([
            rpc.rpc_async(owner, _new_local_optimizer, args=(optimizer_class, references, *args), kwargs=kwargs)
            for owner, references in owned.items()])

    def step(self, context_id):
        """Steps in all processes with the gradients of a context of torch.distributed.autograd, and waits for them."""
        autograd._is_valid_context(context_id)
        _wait_for_all([rpc.rpc_async(optimizer.owner(), _local_optimizer_step, args=(optimizer, context_id))
                       for optimizer in self.remote_optimizers])
