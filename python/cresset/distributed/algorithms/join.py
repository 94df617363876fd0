"""Training with different numbers of iterations at the ranks."""
import warnings
from abc import ABC, abstractmethod
from typing import NamedTuple

import cresset

__all__ = ["JoinHook", "Joinable", "Join"]


class JoinHook:
    """What a rank does after its inputs ended."""

    def main_hook(self):
        """Answers the calls of one iteration of the others."""

    def post_hook(self, is_last_joiner):
        """Runs when all ranks have ended."""


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config():
        return _JoinConfig(False, False, False)


class Joinable(ABC):
    """A class whose calls can be answered by ranks that ended."""

    @abstractmethod
    def __init__(self):
        super().__init__()
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs):
        """Returns the JoinHook."""

    @property
    @abstractmethod
    def join_device(self):
        """The device of calls about ended ranks."""

    @property
    @abstractmethod
    def join_process_group(self):
        """The group of calls about ended ranks."""


class Join:
    """A context in which each iteration begins with a call that counts the ranks which still train."""

    def __init__(self, joinables, enable=True, throw_on_early_termination=False, **kwargs):
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._hooks = [j.join_hook(**kwargs) for j in joinables]
        self._enable, self._throw = enable, throw_on_early_termination
        groups = {id(j.join_process_group): j.join_process_group for j in joinables}
        if len(groups) != 1:
            raise ValueError("Using join context manager with multiple process groups")
        self._group = next(iter(groups.values()))
        self._device = joinables[0].join_device

    def __enter__(self):
        for i, joinable in enumerate(self._joinables):
            if i == 0:
                joinable._joining = self if self._enable else None
            joinable._join_config = _JoinConfig(self._enable, self._throw, i == 0)

    def notify(self, joinable):
        """Counts this rank as one that trains; called before each forward.  Returns the number of these ranks."""
        from ... import distributed as dist
        ones = cresset.ones(1)
        dist.all_reduce(ones, group=self._group)
        if self._throw:
            ended = cresset.zeros(1)
            dist.all_reduce(ended, group=self._group)
            if ended.item():
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
        return int(ones)

    def _shadow(self):
        from ... import distributed as dist
        last, warned = True, 0
        while True:
            count = cresset.zeros(1)
            dist.all_reduce(count, group=self._group)
            if count.item() == 0:
                return last
            if self._throw:
                dist.all_reduce(cresset.ones(1), group=self._group)
                raise RuntimeError(f"Rank {dist.get_rank(self._group)} exhausted all inputs.")
            last, warned = False, warned + 1
            if warned == 1000:
                warnings.warn("Detected uneven input skew of greater than 1000. This means that rank "
                              f"{dist.get_rank(self._group)} has at least 1000 fewer inputs than other currently-active "
                              "ranks. This level of skew could lead to performance degradation during training.",
                              stacklevel=3)
            for joinable, hook in zip(self._joinables, self._hooks):
                joinable._active_ranks = int(count)
                hook.main_hook()

    def __exit__(self, kind, value, trace):
        for joinable in self._joinables:
            joinable._joining = None
        if not self._enable or kind is not None:
            return
        last = self._shadow()
        for hook in self._hooks:
            hook.post_hook(last)

    @staticmethod
    def notify_join_context(joinable):
        """Counts this rank, if a context is open."""
        joining = getattr(joinable, "_joining", None)
        if joining is not None:
            joining.notify(joinable)
        return None
