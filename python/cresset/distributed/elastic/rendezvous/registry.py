"""The backends that are known without a program's help."""
import logging
from importlib.metadata import entry_points

from ._store_rendezvous import create_handler
from .api import rendezvous_handler_registry

__all__ = ["get_rendezvous_handler"]


def _register_default_handlers():
    for name in ("static", "c10d"):
        rendezvous_handler_registry.register(name, create_handler)


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
