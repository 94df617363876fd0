"""Gradients of each sample of a batch, as backward() leaves them in `grad_sample` of the parameters."""
import cresset
from cresset._subclasses import FakeTensorMode
from cresset.func import functional_call, vmap
from cresset.utils._pytree import tree_flatten, tree_map, tree_unflatten

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


def _plain_sizes(module, args, kwargs):
    """The sizes of the results of a plain call, which is made with tensors without elements."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(x):
        return mode.from_tensor(x.detach()) if isinstance(x, cresset.Tensor) else x

    state = {name: fake(x) for name, x in (*module.named_parameters(), *module.named_buffers())}
    inputs = tree_map(fake, (args, kwargs))
    with mode, cresset.no_grad():
        out = functional_call(module, state, *inputs)
    return [x.shape for x in tree_flatten(out)[0] if x is not None]


def _dims_of_samples(results, dim, count, plain_sizes):
    """The dim of each result that is the samples'.

    results: stacked for the samples; their dim of the samples has size 1.  Where other dims have size 1 too, the sizes of a plain
    call say which it is.
    """
    def grown(size, whole):
        changed = [d for d in range(len(size)) if size[d] != whole[d]] if len(size) == len(whole) else []
        return changed if [(size[d], whole[d]) for d in changed] == [(1, count)] else []

    sizes = [y.shape[1:] for y in results]
    dims = [[d for d, n in enumerate(size) if n == 1] for size in sizes]
    if any(found and found != [dim] for found in dims):
        dims = [grown(size, whole) for size, whole in zip(sizes, plain_sizes(), strict=True)]
    for size, found in zip(sizes, dims):
        if len(found) != 1:
            raise RuntimeError(f"call_for_per_sample_grads: a result, whose sizes for one sample are {list(size)}, has no dim of the "
                               "samples; the module has to return results of each sample, as a loss with reduction='none'")
    return [found[0] for found in dims]


def call_for_per_sample_grads(module, *, batch_size=None, loss_reduction="sum", batch_first=True):
    """Returns a function that calls `module`; backward() then leaves one gradient for each sample.

    The gradients are in `grad_sample` of the parameters, with the samples along the first dim;
    `grad` stays as it is.  With `loss_reduction="mean"` the loss is a mean over the samples, whose
    gradients are multiplied by the batch size.  The samples of a module must not depend on each
    other, and each result has a dim of the samples, which may be another one than the inputs'.

    Each tensor argument whose size at the inputs' dim is the batch size is split into samples,
    also a table of 4 rows with a batch of 4; a buffer of the module is not.

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
        form, there = None, []  # of the results, of which some may be None

        def one(parameters, args, kwargs):
            nonlocal form, there
            leaves, form = tree_flatten(functional_call(module, parameters, args, kwargs))
            there = [y is not None for y in leaves]
            return [y for y in leaves if y is not None]

        def is_batch(x):
            return isinstance(x, cresset.Tensor) and x.dim() > dim and x.size(dim) == count

        inputs = tree_map(lambda x: x.unsqueeze(dim + 1) if is_batch(x) else x, (args, kwargs))
        axes = tree_map(lambda x: dim if is_batch(x) else None, (args, kwargs))
        out = vmap(one, (0, *axes), randomness="different")(repeated, *inputs)
        if count == 1:
            out = iter([y[0] for y in out])
        else:
            dims = _dims_of_samples(out, dim, count, lambda: _plain_sizes(module, args, kwargs))
            out = iter([y.squeeze(d + 1).movedim(0, d) for y, d in zip(out, dims)])
        return tree_unflatten([next(out) if is_there else None for is_there in there], form)
    return call
