"""Small functions over modules and groups."""
import traceback

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


def _pack_kwargs(*args, **kwargs):
    """Returns all arguments as one tuple, and the names of the last ones."""
    return (*args, *kwargs.values()), tuple(kwargs)


def _unpack_kwargs(flat_args, kwarg_keys):
    """Returns what _pack_kwargs got, as a tuple and a dict."""
    if len(kwarg_keys) > len(flat_args):
        raise AssertionError(f"too many keys {len(kwarg_keys)} vs. {len(flat_args)}")
    n = len(flat_args) - len(kwarg_keys)
    return flat_args[:n], dict(zip(kwarg_keys, flat_args[n:]))


def _p_assert(cond, s, raise_assertion_error=True):
    """Prints a message and the stack where a condition does not hold, and raises: backward may hide an error's text."""
    if not cond:
        print(s)
        traceback.print_stack()
        if raise_assertion_error:
            raise AssertionError(s)


def _replace_by_prefix(state_dict, old_prefix, new_prefix):
    """Gives the keys that begin with a prefix another one."""
    if old_prefix == new_prefix:
        raise ValueError("old_prefix and new_prefix must be distinct")
    for key in [key for key in state_dict if key.startswith(old_prefix)]:
        state_dict[new_prefix + key[len(old_prefix):]] = state_dict.pop(key)
