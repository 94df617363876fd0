"""Gradients of each sample of a batch, as backward() leaves them in `grad_sample` of the parameters."""
import cresset
from cresset.func import functional_call, vmap
from cresset.utils._pytree import tree_flatten, tree_map

__all__ = ["call_for_per_sample_grads"]


class _ForSamples(cresset.autograd.Function):
    """A parameter repeated for each sample; its gradients go to grad_sample instead of grad."""

    @staticmethod
    def forward(ctx, parameter, batch_size, scale):
        ctx.parameter, ctx.scale = parameter, scale
        return parameter.detach().expand(batch_size, *parameter.shape)

    @staticmethod
    def backward(ctx, grad):
        ctx.parameter.grad_sample = grad * ctx.scale
        return None, None, None


def _batch_size(tensors, dim):
    sizes = {t.size(dim) for t in tensors if t.dim() > dim}
    if not tensors:
        raise RuntimeError("Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so "
                           "ExpandedWeights cannot determine the batch size from the inputs. Please explicitly pass the "
                           "batch size")
    if len(sizes) != 1:
        raise RuntimeError("When computing batch size, found at least one input with batch size "
                           f"{min(sizes, default=0)} and one with batch size {max(sizes, default=0)}. Please specify it "
                           "explicitly using the batch size kwarg in call_for_per_sample_grads")
    return sizes.pop()


def _check(module, batch_size, loss_reduction):
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, cresset.nn.Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for parameter in module.parameters():
        if getattr(parameter, "grad_sample", None) is not None:
            raise RuntimeError("Current Expanded Weights accumulates the gradients, which will be incorrect for multiple "
                               "calls without clearing gradients. Please clear out the grad_sample parameter of "
                               f"{parameter}")


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """Returns a function that calls `module`; backward() then leaves one gradient for each sample.

    The gradients are in `grad_sample` of the parameters, with the samples along the first dim;
    `grad` stays as it is.  With `loss_reduction="mean"` the loss is a mean over the samples, whose
    gradients are multiplied by the batch size.  The samples of a module must not depend on each
    other.

    Shape:
        inputs (N, *), or (*, N, *) along dim 1 with `batch_first=False`; grad_sample (N, *parameter)

    Example::

        >>> net = torch.nn.Linear(2, 1)
        >>> call_for_per_sample_grads(net)(torch.ones(3, 2)).sum().backward()
        >>> net.weight.grad_sample.shape
        torch.Size([3, 1, 2])
    """
    _check(module, batch_size, loss_reduction)
    dim = 0 if batch_first else 1

    def call(*args, **kwargs):
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, cresset.Tensor)]
        count = batch_size or _batch_size(tensors, dim)
        scale = count if loss_reduction == "mean" else 1
        repeated = {name: _ForSamples.apply(p, count, scale) for name, p in module.named_parameters() if p.requires_grad}

        def one(parameters, args, kwargs):
            return functional_call(module, parameters, args, kwargs)

        def is_batch(x):
            return isinstance(x, cresset.Tensor) and x.dim() > dim and x.size(dim) == count

        inputs = tree_map(lambda x: x.unsqueeze(dim + 1) if is_batch(x) else x, (args, kwargs))
        axes = tree_map(lambda x: dim if is_batch(x) else None, (args, kwargs))
        out = vmap(one, (0, *axes), randomness="different")(repeated, *inputs)
        return tree_map(lambda y: y.squeeze(dim + 1).movedim(0, dim) if isinstance(y, cresset.Tensor) else y, out)
    return call
