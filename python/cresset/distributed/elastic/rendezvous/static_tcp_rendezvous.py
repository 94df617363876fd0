"""The backend static: every host is given its rank and the address of host 0, which runs a TCP store.

A host adds itself to the counter of a round, so that the others see it wait.  Workers use the same store.
"""
from datetime import timedelta

from ... import PrefixStore, TCPStore
from .api import RendezvousHandler, RendezvousInfo, RendezvousStoreInfo
from .utils import parse_rendezvous_endpoint

__all__ = ["StaticTCPRendezvous", "create_rdzv_handler"]


class StaticTCPRendezvous(RendezvousHandler):
    """Meetings of hosts whose numbers are given."""

    def __init__(self, master_addr, master_port, rank, world_size, run_id, timeout):
        self.master_addr, self.master_port, self.rank, self.world_size = master_addr, master_port, rank, world_size
        self.run_id, self.timeout, self._store, self._round = run_id, timedelta(seconds=timeout), None, -1

    def get_backend(self):
        return "static"

    @property
    def use_agent_store(self):
        return True

    def get_run_id(self):
        return self.run_id

    def _joined(self, number, more):
        return self._store.add(f"{self.run_id}/{number}/joined", more)

    def next_rendezvous(self):
        if self._store is None:
            self._store = TCPStore(self.master_addr, self.master_port, self.world_size, self.rank == 0, self.timeout, False)
            self.master_port = self._store.port
        self._round += 1
        self._joined(self._round, 1)
        return RendezvousInfo(PrefixStore(f"{self.run_id}/{self._round}", self._store), self.rank, self.world_size,
                              RendezvousStoreInfo(self.master_addr, self.master_port))

    def is_closed(self):
        return False

    def set_closed(self):
        pass

    def num_nodes_waiting(self):
        return self._joined(self._round + 1, 0) if self._store is not None and self.world_size > 1 else 0

    def shutdown(self):
        self._store = None
        return True


def create_rdzv_handler(params):
    """Returns the handler that parameters describe: an endpoint HOST:PORT and the option rank."""
    if "rank" not in params.config:
        raise ValueError("rank is absent in RendezvousParameters.Try add --node-rank to the cmd request")
    endpoint = params.endpoint.strip()
    if not endpoint:
        raise ValueError("endpoint is absent in RendezvousParametersTry add --master-port and --master-addr to the cmd request")
    host, port = parse_rendezvous_endpoint(endpoint, -1)
    if port == -1:
        raise ValueError(f"Port is absent in endpoint: {endpoint}. Try launching with --master-port")
    return StaticTCPRendezvous(host, port, params.get_as_int("rank"), params.max_nodes, params.run_id,
                               float(params.get("timeout") or 600))
