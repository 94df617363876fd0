"""How processes meet: a store, a rank and a world size from an address."""
import os
import sys
from datetime import timedelta
from urllib.parse import parse_qs, urlparse

from .constants import default_pg_timeout
from ._stores import FileStore, PrefixStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

_handlers = {}


def register_rendezvous_handler(scheme, handler):
    """Makes addresses `scheme://...` known.  handler(url) yields (store, rank, world size)."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def _error(scheme, text):
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {text}")


def _query(url):
    return {name: values[0] for name, values in parse_qs(urlparse(url).query).items()}


def rendezvous(url, rank=-1, world_size=-1, **kwargs):
    """Returns an iterator over (store, rank, world size) for an address."""
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    for name, value in (("rank", rank), ("world_size", world_size)):
        if not isinstance(value, int):
            raise RuntimeError(f"`{name}` must be an integer. {value}")
    parts = urlparse(url)
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    given = [(name, value) for name, value in (("rank", rank), ("world_size", world_size)) if value != -1]
    if given:
        if {"rank", "world_size"} & set(_query(url)):
            raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
        query = "&".join([*filter(None, [parts.query]), *(f"{name}={value}" for name, value in given)])
        url = parts._replace(query=query).geturl()
    return _handlers[parts.scheme](url, **kwargs)


def _rendezvous_of_group(url, rank, world_size, timeout):
    """The same for ranks that meet in the store afterwards: the store's process does not wait for the others before."""
    known = isinstance(url, str) and _handlers.get(urlparse(url).scheme) in (_tcp, _env)
    return rendezvous(url, rank, world_size, timeout=timeout, **({"wait_for_workers": False} if known else {}))


def _file(url, **kwargs):
    parts, query = urlparse(url), _query(url)
    path = parts.path
    if not path:
        raise _error("file", "path missing")
    for name, text in (("rank", "rank parameter missing"), ("world_size", "world size parameter missing")):
        if name not in query:
            raise _error("file", text)
    yield FileStore(path, int(query["world_size"])), int(query["rank"]), int(query["world_size"])
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


def _has_agent():
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)


def _asks_for_libuv(query):
    """Whether a url, or else USE_LIBUV, asks for torch's newer server.  Stores only repeat the answer."""
    return query.get("use_libuv", os.environ.get("USE_LIBUV", "1")) == "1"


def _tcp_store(host, port, rank, world_size, timeout, wait_for_workers, use_libuv=True):
    """Returns the store at an address; under torchrun's agent, a part of the agent's store."""
    if rank < 0 or 0 < world_size <= rank:
        raise ValueError(f"rank {rank} is not in a run of {world_size} ranks")
    if not 0 <= port < 2 ** 16:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    if _has_agent():
        store = TCPStore(host, port, world_size, False, timeout, use_libuv=use_libuv)
        return PrefixStore(f"/worker/attempt_{os.environ['TORCHELASTIC_RESTART_COUNT']}", store)
    return TCPStore(host, port, world_size, rank == 0, timeout, wait_for_workers, multi_tenant=True, use_libuv=use_libuv)


def _tcp(url, timeout=default_pg_timeout, wait_for_workers=True, **kwargs):
    parts, query = urlparse(url), _query(url)
    if parts.port is None:
        raise _error("tcp", "port number missing")
    for name, text in (("rank", "rank parameter missing"), ("world_size", "world size parameter missing")):
        if name not in query:
            raise _error("tcp", text)
    rank, size = int(query["rank"]), int(query["world_size"])
    yield _tcp_store(parts.hostname, parts.port, rank, size, timeout, wait_for_workers, _asks_for_libuv(query)), rank, size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _env(url, timeout=default_pg_timeout, wait_for_workers=True, **kwargs):
    query = _query(url)

    def value(name, variable):
        text = query.get(name) if name else None
        text = os.environ.get(variable) if text is None else text
        if text is None:
            raise _error("env", f"environment variable {variable} expected, but not set")
        return text
    rank, size = int(value("rank", "RANK")), int(value("world_size", "WORLD_SIZE"))
    host, port = value(None, "MASTER_ADDR"), int(value(None, "MASTER_PORT"))
    yield _tcp_store(host, port, rank, size, timeout, wait_for_workers, _asks_for_libuv(query)), rank, size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


register_rendezvous_handler("tcp", _tcp)
register_rendezvous_handler("env", _env)
register_rendezvous_handler("file", _file)
