"""torch._C._functorch: batches of vmap, as libraries with containers of tensors make and take them apart."""
from cresset._functorch.vmap import (_add_batch_dim, _Batched, _loops, _remove_batch_dim,  # noqa: F401
                                     _vmap_decrement_nesting, _vmap_increment_nesting)


def _is_vmap_fallback_enabled():
    """Whether operators without a rule are called for one example after the other; else they raise."""
    return not _loops["refuse"]


def _set_vmap_fallback_enabled(enabled):
    _loops["refuse"] = not enabled


def is_batchedtensor(tensor):
    """Whether a tensor is one example of a batch."""
    return isinstance(tensor, _Batched)


def maybe_get_level(tensor):
    """The level of an example's vmap; -1 for another tensor."""
    return tensor.level if is_batchedtensor(tensor) else -1


def maybe_get_bdim(tensor):
    """The dim of the batch that an example wraps; -1 for another tensor."""
    return 0 if is_batchedtensor(tensor) else -1


def get_unwrapped(tensor):
    """The batch that an example wraps."""
    if not is_batchedtensor(tensor):
        raise RuntimeError("No wrappers present!")
    return tensor.inner


def reshape_dim_into(src, dst, x):
    """Joins dim `src` with dim `dst` of the dims that remain, in front of it."""
    src, dst = src % x.dim(), dst % (x.dim() - 1)
    return x.movedim(src, dst).flatten(dst, dst + 1)


def reshape_dim_outof(src, size1, x):
    """Splits a dim into `size1` parts."""
    src = src % x.dim()
    n = x.shape[src]
    if n % size1:
        raise RuntimeError(f"Expected the dim of size {n} to be a multiple of {size1}")
    return x.reshape(*x.shape[:src], size1, n // size1, *x.shape[src + 1:])
