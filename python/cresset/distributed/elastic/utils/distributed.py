"""Stores and ports of runs."""
import datetime
import os

from ..._stores import TCPStore
from .api import get_socket_with_port

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]


def create_c10d_store(is_server, server_addr, server_port=-1, world_size=1, timeout=60 * 10, wait_for_workers=True, retries=3,
                      use_libuv=None):
    """Returns a TCP store, whose server runs here or elsewhere.  DistStoreError or DistNetworkError when processes do not come."""
    if server_port == -1 and world_size > 1:
        raise ValueError(f"server_port must be specified when world_size > 1, got server_port={server_port}, "
                         f"world_size={world_size}")
    limit = datetime.timedelta(seconds=timeout)
    for tries_left in range(retries if server_port == -1 else 1, 0, -1):
        port = server_port if server_port != -1 else get_free_port()
        try:
            store = TCPStore(server_addr, port, world_size, is_server, limit, wait_for_workers,
                             use_libuv=os.environ.get("USE_LIBUV", "1") == "1")
        except RuntimeError as error:
            if "in use" in str(error) and tries_left > 1:
                continue
            if "in use" in str(error):
                raise RuntimeError(f"on {server_addr}, port: {port} already in use") from error
            raise
        return store
    raise AssertionError("retries must be positive")


def get_free_port():
    """Returns a port of this host that is free now."""
    with get_socket_with_port() as s:
        return s.getsockname()[1]

