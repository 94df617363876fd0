"""Helpers of torch.export, under torch's names."""
from . import utils

__all__ = ["utils"]
