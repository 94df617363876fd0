"""Defaults of remote procedure calls."""
from datetime import timedelta

DEFAULT_RPC_TIMEOUT_SEC = 60.0
DEFAULT_INIT_METHOD = "env://"
DEFAULT_SHUTDOWN_TIMEOUT = 0.0
DEFAULT_NUM_WORKER_THREADS = 16
DEFAULT_PROCESS_GROUP_TIMEOUT = timedelta(milliseconds=2**31 - 1)
UNSET_RPC_TIMEOUT = -1.0
