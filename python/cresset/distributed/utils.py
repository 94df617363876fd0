"""Small functions over modules and groups."""
import cresset

from . import distributed_c10d as dist

__all__ = []


def _verify_param_shape_across_processes(process_group, tensors, logger=None):
    """Raises an error when the ranks' parameters differ in number, sizes or dtype."""
    from ._reducer import _verify_params_across_processes
    _verify_params_across_processes(process_group, tensors, logger)


def _sync_module_states(module, process_group, broadcast_bucket_size, src, params_and_buffers_to_ignore=(),
                        broadcast_buffers=True):
    """Copies rank src's parameters and buffers to all ranks."""
    tensors = [p for n, p in module.named_parameters() if n not in params_and_buffers_to_ignore]
    if broadcast_buffers:
        tensors += [b for n, b in module.named_buffers() if n not in params_and_buffers_to_ignore]
    with cresset.no_grad(), dist._coalescing_manager(process_group):
        for tensor in tensors:
            dist.broadcast(tensor.detach(), group=process_group, group_src=src)
