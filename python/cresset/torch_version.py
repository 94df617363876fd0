"""The class of __version__, by torch's name."""
from .version import TorchVersion, __version__

__all__ = ["TorchVersion"]
