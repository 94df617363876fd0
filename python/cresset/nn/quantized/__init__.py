"""Modules of ao.nn.quantized, under their earlier name."""
from ...ao.nn.quantized import FloatFunctional

__all__ = ["FloatFunctional"]
