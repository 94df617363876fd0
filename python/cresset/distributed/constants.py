"""Time limits of groups of processes."""
from datetime import timedelta
from typing import Optional

__all__ = ["default_pg_timeout", "default_pg_nccl_timeout"]

default_pg_timeout: timedelta = timedelta(minutes=30)
default_pg_nccl_timeout: Optional[timedelta] = timedelta(minutes=10)
