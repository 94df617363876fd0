"""torch._C._functorch: batches of vmap, as libraries with containers of tensors make and take them apart."""
from cresset._functorch.vmap import (_add_batch_dim, _Batched, _remove_batch_dim,  # noqa: F401
                                     _vmap_decrement_nesting, _vmap_increment_nesting)


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
