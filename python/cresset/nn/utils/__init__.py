"""Functions of parameters, gradients and sequences."""
from . import rnn
from .clip_grad import (clip_grad_norm, clip_grad_norm_, clip_grad_value_,
                        clip_grads_with_norm_, get_total_norm)
from .convert_parameters import parameters_to_vector, vector_to_parameters
from .spectral_norm import remove_spectral_norm, spectral_norm
from .weight_norm import remove_weight_norm, weight_norm

# The modules of seldom used functions, imported on first use.
_LATER = {
    "skip_init": "init",
    "fuse_conv_bn_eval": "fusion", "fuse_conv_bn_weights": "fusion",
    "fuse_linear_bn_eval": "fusion", "fuse_linear_bn_weights": "fusion",
    "convert_conv2d_weight_memory_format": "memory_format",
    "convert_conv3d_weight_memory_format": "memory_format"}
_MODULES = ("parametrizations", "parametrize", "stateless", "fusion", "memory_format", "init", "prune")

__all__ = [*(name for name in globals() if name[0] != "_"), *_LATER, "parametrizations", "stateless"]


def __getattr__(name):
    from importlib import import_module
    if name in _LATER:
        value = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        return value
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
