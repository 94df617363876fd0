"""Parts that several ranks have are written by one of them."""
from .default_planner import _dedup_save_plans as dedup_save_plans  # noqa: F401
