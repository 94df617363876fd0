"""Modules for quantization."""
from . import quantized
