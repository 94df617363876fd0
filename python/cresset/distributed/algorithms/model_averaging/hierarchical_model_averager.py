"""Averages over small groups often and over large groups seldom."""
import warnings

from ... import distributed_c10d as dist
from . import averagers, utils

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(averagers.ModelAverager):
    """Averages after each period over groups of the size that the dict gives for the period.  Where several periods
    end, the longest one counts.  The last size is the size of the whole group."""

    def __init__(self, period_group_size_dict=None, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        self._check(period_group_size_dict, warmup_steps)
        self._periods = list(period_group_size_dict)
        self.warmup_steps = warmup_steps
        self.period_process_group_dict = {period: self._groups_of(size)
                                          for period, size in period_group_size_dict.items()}

    def _check(self, sizes, warmup_steps):
        if not sizes:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        periods, ranks = list(sizes), dist.get_world_size(self.process_group)
        if periods[0] <= 0:
            raise ValueError("The minimum period in arg ``period_group_size_dict`` must be a positive value.")
        if periods[-1] == 1:
            warnings.warn("the longest period is 1: averages of parameters then cost as much as those of gradients, "
                          "so DistributedDataParallel alone is better", stacklevel=3)
        if sizes[periods[-1]] != ranks:
            raise ValueError(f"The last value in arg ``period_group_size_dict`` {sizes[periods[-1]]} must be equal to "
                             f"the size of arg ``process_group`` {ranks}.")
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")

    def _groups_of(self, size):
        if size == dist.get_world_size(self.process_group):
            return self.process_group
        return dist.new_subgroups(group_size=size, group=self.process_group)[0]

    def _find_process_group(self):
        return next((self.period_process_group_dict[period] for period in reversed(self._periods)
                     if self.step % period == 0), None)

    def average_parameters(self, params):
        """Counts a step, and averages when a period ends."""
        group = self._find_process_group() if self.step >= self.warmup_steps else None
        if group is not None:
            utils.average_parameters_or_parameter_groups(params, group)
        self.step += 1
