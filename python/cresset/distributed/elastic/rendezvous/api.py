"""Handlers of meetings, their parameters, and the registry of backends."""
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Callable

from ..utils.distributed import get_free_port

__all__ = ["RendezvousClosedError", "RendezvousConnectionError", "RendezvousError", "RendezvousGracefulExitError",
           "RendezvousHandler", "RendezvousHandlerCreator", "RendezvousHandlerRegistry", "RendezvousInfo",
           "RendezvousParameters", "RendezvousStateError", "RendezvousStoreInfo", "RendezvousTimeoutError",
           "rendezvous_handler_registry"]


class RendezvousError(Exception):
    """A meeting failed."""


class RendezvousClosedError(RendezvousError):
    """The run has ended."""


class RendezvousTimeoutError(RendezvousError):
    """Not enough hosts came in time."""


class RendezvousConnectionError(RendezvousError):
    """The store cannot be reached."""


class RendezvousStateError(RendezvousError):
    """The store's contents make no sense."""


class RendezvousGracefulExitError(RendezvousError):
    """This host is not needed."""


@dataclass
class RendezvousStoreInfo:
    """The address at which workers meet."""

    MASTER_ADDR_KEY = "MASTER_ADDR"
    MASTER_PORT_KEY = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(rank, store, local_addr=None, server_port=None):
        """Takes rank 0's address from the store, where rank 0 writes it."""
        if rank == 0:
            store.set(RendezvousStoreInfo.MASTER_ADDR_KEY, (local_addr or socket.getfqdn()).encode())
            store.set(RendezvousStoreInfo.MASTER_PORT_KEY, str(server_port or get_free_port()).encode())
        return RendezvousStoreInfo(store.get(RendezvousStoreInfo.MASTER_ADDR_KEY).decode(),
                                   int(store.get(RendezvousStoreInfo.MASTER_PORT_KEY)))


class RendezvousInfo:
    """The result of a meeting: the store, this host's number, the number of hosts, and the workers' address."""

    def __init__(self, store, rank, world_size, bootstrap_store_info=None):
        self.store, self.rank, self.world_size, self.bootstrap_store_info = store, rank, world_size, bootstrap_store_info


class RendezvousHandler(ABC):
    """Lets the hosts of a run meet, again after each failure."""

    @abstractmethod
    def get_backend(self):
        """Returns the backend's name."""

    @property
    def use_agent_store(self):
        """Whether the workers' store is the one of next_rendezvous()."""
        return False

    @abstractmethod
    def next_rendezvous(self):
        """Meets the other hosts.  Returns a RendezvousInfo."""

    @abstractmethod
    def is_closed(self):
        """Returns whether the run has ended."""

    @abstractmethod
    def set_closed(self):
        """Ends the run: nobody meets again."""

    @abstractmethod
    def num_nodes_waiting(self):
        """Returns how many hosts wait to take part from the next meeting on."""

    @abstractmethod
    def get_run_id(self):
        """Returns the run's name."""

    @abstractmethod
    def shutdown(self):
        """Closes what the handler has opened.  Returns whether that went well."""


class RendezvousParameters:
    """How a run's hosts meet; `kwargs` are options of the backend."""

    def __init__(self, backend, endpoint, run_id, min_nodes, max_nodes, local_addr=None, **kwargs):
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(f"The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the "
                             f"minimum number of rendezvous nodes ({min_nodes}).")
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes, self.local_addr, self.config = min_nodes, max_nodes, local_addr, kwargs

    def get(self, key, default=None):
        """Returns an option."""
        return self.config.get(key, default)

    def get_as_bool(self, key, default=None):
        """Returns an option that says yes or no."""
        value = self.get(key, default)
        text = value.lower() if isinstance(value, str) else value
        if text is None or isinstance(text, bool):
            return text
        if text in ("1", "true", "t", "yes", "y", 1):
            return True
        if text in ("0", "false", "f", "no", "n", 0):
            return False
        raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid boolean value.")

    def get_as_int(self, key, default=None):
        """Returns an option that is a whole number."""
        value = self.get(key, default)
        try:
            return value if value is None else int(value)
        except ValueError as error:
            raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid integer value.") from error


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Functions that make handlers, by the names of backends."""

    def __init__(self):
        self._registry = {}

    def register(self, backend, creator):
        """Makes a backend known."""
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        known = self._registry.setdefault(backend, creator)
        if known != creator:
            raise ValueError(f"The rendezvous backend '{backend}' cannot be registered with '{creator}' as it is already "
                             f"registered with '{known}'.")

    def create_handler(self, params):
        """Returns a new handler of the backend that the parameters name."""
        if params.backend not in self._registry:
            raise ValueError(f"The rendezvous backend '{params.backend}' is not registered. Did you forget to call `register`?")
        handler = self._registry[params.backend](params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(f"The rendezvous backend '{handler.get_backend()}' does not match the requested backend "
                               f"'{params.backend}'.")
        return handler


rendezvous_handler_registry = RendezvousHandlerRegistry()
