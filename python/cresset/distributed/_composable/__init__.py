"""Functions that distribute a module in place.  Each is applied to a module at most once."""
from .checkpoint_activation import checkpoint
from .contract import _get_registry, contract
from .replicate import replicate

__all__ = ["checkpoint", "contract", "replicate"]
