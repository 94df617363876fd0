"""Meetings at a TCP store that the first host runs: the handlers of the backends static and c10d.

A meeting is a round.  Hosts that come count themselves; the first one waits until enough are here, then says how many take
part.  Workers use the same store.
"""
import time
from datetime import timedelta

from ..._stores import TCPStore
from .api import RendezvousClosedError, RendezvousHandler, RendezvousInfo, RendezvousStoreInfo, RendezvousTimeoutError
from .utils import parse_rendezvous_endpoint

_CLOSED = "closed"


class StoreRendezvous(RendezvousHandler):
    """Meetings of a run's hosts; `is_host` None: the host that gets the port runs the store."""

    def __init__(self, backend, host, port, run_id, min_nodes, max_nodes, is_host=None, join_timeout=600.0, last_call=30.0):
        self.backend, self.host, self.port, self.run_id = backend, host, port, run_id
        self.min_nodes, self.max_nodes, self.is_host = min_nodes, max_nodes, is_host
        self.join_timeout, self.last_call = join_timeout, last_call
        self.store, self.round = None, -1

    def get_backend(self):
        return self.backend

    @property
    def use_agent_store(self):
        return True

    def get_run_id(self):
        return self.run_id

    def _connect(self):
        limit = timedelta(seconds=self.join_timeout)
        if self.is_host in (None, True):
            try:
                self.store = TCPStore(self.host, self.port, None, True, limit, False)
            except RuntimeError:
                if self.is_host or self.max_nodes == 1:
                    raise
        self.is_host = self.store is not None
        if self.store is None:  # another agent of this host has the port
            self.store = TCPStore(self.host, self.port, None, False, limit, False)
        self.port = self.store.port

    def _key(self, name, number=None):
        return f"run/{self.run_id}/{self.round if number is None else number}/{name}"

    def _count(self):
        """The first host's part of a meeting: waits for the others.  Returns how many take part."""
        start, enough = time.monotonic(), None
        while True:
            joined, now = self.store.add(self._key("joined"), 0), time.monotonic()
            enough = now if joined >= self.min_nodes and enough is None else enough
            if joined >= self.max_nodes or (enough is not None and now - enough > self.last_call):
                return min(joined, self.max_nodes)
            if now - start > self.join_timeout:
                raise RendezvousTimeoutError(f"{joined} of {self.min_nodes} nodes have joined after {self.join_timeout:.0f} s")
            time.sleep(0.02)

    def next_rendezvous(self):
        if self.store is None:
            self._connect()
        if self.is_closed():
            raise RendezvousClosedError(f"the run {self.run_id} has ended")
        self.round += 1
        number = self.store.add(self._key("joined"), 1) - 1
        if number == 0:
            self.store.set(self._key("nodes"), str(self._count()))
        self.store.wait([self._key("nodes")], timedelta(seconds=self.join_timeout))
        nodes = int(self.store.get(self._key("nodes")))
        if number >= nodes:
            raise RendezvousClosedError(f"the run {self.run_id} has {nodes} nodes already")
        return RendezvousInfo(self.store, number, nodes, RendezvousStoreInfo(self.host, self.port))

    def is_closed(self):
        return self.store is not None and self.store.check([self._key(_CLOSED, "all")])

    def set_closed(self):
        if self.store is not None:
            self.store.set(self._key(_CLOSED, "all"), b"1")

    def num_nodes_waiting(self):
        return self.store.add(self._key("joined", self.round + 1), 0) if self.store is not None else 0

    def shutdown(self):
        try:
            self.set_closed()
        except RuntimeError:  # the host with the store is gone
            return False
        self.store = None
        return True


def create_handler(params):
    """Returns the handler of static or c10d.  A static run's rank 0 is the first host."""
    host, port = parse_rendezvous_endpoint(params.endpoint, 29400 if params.backend == "c10d" else -1)
    if port == -1:
        raise ValueError(f"the backend {params.backend} needs an endpoint HOST:PORT, not '{params.endpoint}'")
    static = params.backend == "static"
    if static and params.get_as_int("rank") is None:
        raise ValueError("rank is absent in RendezvousParameters; the backend static needs it")
    is_host = params.get_as_int("rank") == 0 if static else params.get_as_bool("is_host")
    timeout = float(params.get("join_timeout") or params.get("timeout") or 600)
    return StoreRendezvous(params.backend, host, port, params.run_id, params.min_nodes, params.max_nodes, is_host, timeout,
                           0.0 if static else float(params.get("last_call_timeout") or 30))
