"""Small functions over modules and groups."""
import cresset

from . import distributed_c10d as dist

__all__ = []


def _verify_param_shape_across_processes(process_group, tensors, logger=None):
    """Raises an error when the ranks' parameters differ in number, sizes or dtype."""
    own = [(tuple(t.shape), str(t.dtype)) for t in tensors]
    every = [None] * process_group.size()
    dist.all_gather_object(every, own, process_group)
    for rank, theirs in enumerate(every):
        if theirs != own:
            raise RuntimeError(f"[{process_group.rank()}]: the parameters of this process do not match those of process {rank}")


def _sync_module_states(module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore=(),
                        broadcast_buffers=True):
    """Copies rank src's parameters and buffers to all ranks."""
    tensors = [p for n, p in module.named_parameters() if n not in params_and_buffers_to_ignore]
    if broadcast_buffers:
        tensors += [b for n, b in module.named_buffers() if n not in params_and_buffers_to_ignore]
    with cresset.no_grad(), dist._coalescing_manager(process_group):
        for tensor in tensors:
            dist.broadcast(tensor.detach(), group=process_group, group_src=src)
