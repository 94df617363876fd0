"""The class of __version__, under torch's name."""
from .version import TorchVersion, __version__

__all__ = ["TorchVersion"]
