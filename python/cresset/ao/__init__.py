"""Parts for quantization.  Models can be made and run in floats; no operator is quantized."""
from importlib import import_module


def __getattr__(name):
    if name in ("nn", "quantization"):
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
