"""How the hosts of a run meet: handlers by the names of backends.  torchrun's are static and c10d; programs may add others."""
from .api import (RendezvousClosedError, RendezvousConnectionError, RendezvousError, RendezvousGracefulExitError,
                  RendezvousHandler, RendezvousHandlerCreator, RendezvousHandlerRegistry, RendezvousInfo, RendezvousParameters,
                  RendezvousStateError, RendezvousStoreInfo, RendezvousTimeoutError, rendezvous_handler_registry)
from .registry import _register_default_handlers, _register_out_of_tree_handlers, get_rendezvous_handler

__all__ = ["RendezvousClosedError", "RendezvousConnectionError", "RendezvousError", "RendezvousGracefulExitError",
           "RendezvousHandler", "RendezvousHandlerCreator", "RendezvousHandlerRegistry", "RendezvousInfo",
           "RendezvousParameters", "RendezvousStateError", "RendezvousStoreInfo", "RendezvousTimeoutError",
           "get_rendezvous_handler", "rendezvous_handler_registry"]

_register_default_handlers()
_register_out_of_tree_handlers()
