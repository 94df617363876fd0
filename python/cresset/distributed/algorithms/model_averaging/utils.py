"""Averages of parameters."""
import itertools

import cresset

from ... import distributed_c10d as dist

__all__ = ["average_parameters", "get_params_to_average", "average_parameters_or_parameter_groups"]


def average_parameters(params, process_group):
    """Makes parameters the ranks' averages, as one call."""
    group = dist._group_or_default_group(process_group)
    if dist._rank_not_in_group(group):
        return
    params = list(params)
    with cresset.no_grad():
        flat = cresset.cat([p.data.reshape(-1) for p in params])
        flat /= dist.get_world_size(group)
        dist.all_reduce(flat, group=group)
        for p, part in zip(params, flat.split([p.numel() for p in params])):
            p.data.copy_(part.view_as(p))


def get_params_to_average(params):
    """Returns the parameters, of a list of parameters or of groups, that have gradients."""
    found = []
    for param in params:
        for p in param["params"] if isinstance(param, dict) else [param]:
            if p.grad is not None:
                found.append(p)
    return found


def average_parameters_or_parameter_groups(params, process_group):
    """Averages the parameters that have gradients."""
    average_parameters(get_params_to_average(itertools.chain(params)), process_group)
