"""Ranks that exchange bytes and wait for each other through a store."""
from contextlib import contextmanager
from datetime import timedelta

from ..._errors import DistStoreError

__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]

_LAST, _TRACE, _GATE = "/last_member", "/TRACE", "/TRACING_GATE"
_MOST_NAMED = 16  # ranks that an error names


@contextmanager
def store_timeout(store, timeout):
    """A limit, in seconds, of the requests inside."""
    before = store.timeout
    store.set_timeout(timedelta(seconds=timeout))
    try:
        yield
    finally:
        store.set_timeout(before)


def _check_in(store, prefix, count):
    """Counts the ranks that are done; the last one says so.  Returns the key that then exists."""
    if store.add(prefix + "/num_members", 1) == count:
        store.set(prefix + _LAST, "<val_ignored>")
    return prefix + _LAST


def get_all(store, rank, prefix, world_size):
    """Returns all ranks' bytes of a prefix.  Rank 0, whose process may serve the store, waits until all have read them."""
    data = store.multi_get([f"{prefix}{i}" for i in range(world_size)])
    last = _check_in(store, prefix + "/finished", world_size)  # a barrier of the same prefix counts on its own
    if rank == 0:
        store.wait([last])
    return data


def synchronize(store, data, rank, world_size, key_prefix, timeout=300):
    """Gives this rank's bytes to all ranks.  Returns all ranks' bytes, within a number of seconds."""
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def _missing(store, count, prefix, name, limit):
    """The names of ranks that do not report that they wait.  Only the first one is waited for."""
    names, limit = [], timedelta(seconds=limit)
    for i in range(1, count):
        try:
            store.wait([f"{prefix}{i}{_TRACE}"], timedelta(milliseconds=1) if names else limit)
        except DistStoreError:
            names.append(name(i))
        if len(names) == _MOST_NAMED:
            break
    return names


def _look_up(store, count, prefix, rank, name, limit):
    """Ranks report that they wait; rank 0 finds the others, and lets the rest go.  None where rank 0 does not come."""
    store.set(f"{prefix}{rank}{_TRACE}", "<val_ignored>")
    if rank == 0:
        names = _missing(store, count, prefix, name, limit)
        store.set(prefix + _GATE, "<val_ignored>")
        return names
    try:
        store.wait([prefix + _GATE])
    except DistStoreError:
        return None
    return [f"[<check rank 0 ({name(0)}) for missing rank info>]"]


def barrier(store, world_size, key_prefix, barrier_timeout=300, rank=None, rank_tracing_decoder=None, trace_timeout=10):
    """Waits until all ranks are here.  Where ranks state their numbers, rank 0's error names those that did not come."""
    if rank is None and rank_tracing_decoder is not None:
        raise AssertionError("Tracing requires rank information")
    with store_timeout(store, barrier_timeout):
        last = _check_in(store, key_prefix, world_size)
        try:
            store.wait([last])
        except DistStoreError as error:
            if rank is None:
                raise
            names = _look_up(store, world_size, key_prefix, rank, rank_tracing_decoder or str, trace_timeout)
            if names is None:
                raise
            raise type(error)(f"Timed out waiting on barrier on rank {rank}, for key prefix: {key_prefix} (world_size={world_size}, "
                              f"missing_ranks=[{', '.join(names)}], timeout={barrier_timeout})") from None
