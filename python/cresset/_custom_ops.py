"""torch.library's names under an earlier one."""
from .library import get_ctx

__all__ = ["get_ctx"]
