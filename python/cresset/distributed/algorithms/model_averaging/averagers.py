"""Averages of parameters every few steps."""
from abc import ABC, abstractmethod

from ... import distributed_c10d as dist
from . import utils

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Averages parameters over a group."""

    def __init__(self, process_group=None):
        self.process_group = dist._group_or_default_group(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params):
        """Counts a step, and averages when it is time."""


class PeriodicModelAverager(ModelAverager):
    """Averages every `period` steps, after `warmup_steps`."""

    def __init__(self, period, warmup_steps=0, process_group=None):
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params):
        """Counts a step, and averages when it is time."""
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            utils.average_parameters_or_parameter_groups(params, self.process_group)
        self.step += 1
