"""The backend static: every host knows its number and the first one's address."""
from ._store_rendezvous import StoreRendezvous as StaticTCPRendezvous
from ._store_rendezvous import create_handler as create_rdzv_handler

__all__ = ["StaticTCPRendezvous", "create_rdzv_handler"]
