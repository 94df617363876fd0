"""The backends that are known without a program's help."""
import logging
from importlib.metadata import entry_points

from .api import rendezvous_handler_registry

__all__ = ["get_rendezvous_handler"]


def _create_static_handler(params):
    from . import static_tcp_rendezvous
    return static_tcp_rendezvous.create_rdzv_handler(params)


def _create_c10d_handler(params):
    """Hosts that meet at an address of the loopback device have it, too."""
    from .c10d_rendezvous_backend import create_backend
    from .dynamic_rendezvous import create_handler
    backend, store = create_backend(params)
    if params.local_addr is None and getattr(store, "host", None) in ("localhost", "127.0.0.1", "::1"):
        params.local_addr = store.host
    return create_handler(store, backend, params)


def _register_default_handlers():
    rendezvous_handler_registry.register("static", _create_static_handler)
    rendezvous_handler_registry.register("c10d", _create_c10d_handler)


def _register_out_of_tree_handlers():
    """Registers the backends that installed packages state as entry points `torchrun.handlers`."""
    for point in entry_points(group="torchrun.handlers"):
        try:
            rendezvous_handler_registry.register(point.name, point.load()())
        except Exception:
            logging.getLogger(__name__).warning("the rendezvous backend '%s' cannot be loaded", point.name, exc_info=True)


def get_rendezvous_handler(params):
    """Returns the handler of the backend that the parameters name."""
    return rendezvous_handler_registry.create_handler(params)
