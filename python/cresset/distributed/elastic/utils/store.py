"""Ranks that exchange bytes and wait for each other through a store."""
from contextlib import contextmanager
from datetime import timedelta

__all__ = ["barrier", "get_all", "store_timeout", "synchronize"]

_LAST = "/last_member"


@contextmanager
def store_timeout(store, timeout):
    """A limit, in seconds, of the requests inside."""
    before = store.timeout
    store.set_timeout(timedelta(seconds=timeout))
    try:
        yield
    finally:
        store.set_timeout(before)


def _is_last(store, prefix, count):
    """Counts the ranks that are done; the last one says so."""
    if store.add(prefix + "/num_members", 1) != count:
        return False
    store.set(prefix + _LAST, "<val_ignored>")
    return True


def get_all(store, rank, prefix, world_size):
    """Returns all ranks' bytes of a prefix.  Rank 0, whose process may serve the store, waits until all have read them."""
    data = store.multi_get([f"{prefix}{i}" for i in range(world_size)])
    _is_last(store, prefix, world_size)
    if rank == 0:
        store.get(prefix + _LAST)
    return data


def synchronize(store, data, rank, world_size, key_prefix, timeout=300):
    """Gives this rank's bytes to all ranks.  Returns all ranks' bytes, within a number of seconds."""
    with store_timeout(store, timeout):
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)


def barrier(store, world_size, key_prefix, barrier_timeout=300, rank=None, rank_tracing_decoder=None, trace_timeout=10):
    """Waits until all ranks are here.  Where ranks state their numbers, an error names those that did not come."""
    seen = f"{key_prefix}/rank/"
    if rank is not None:
        store.set(f"{seen}{rank}", "<val_ignored>")
    _is_last(store, key_prefix, world_size)
    try:
        with store_timeout(store, barrier_timeout):
            store.get(key_prefix + _LAST)
    except RuntimeError as error:
        if rank is None:
            raise
        missing = [i for i in range(world_size) if not store.check([f"{seen}{i}"])]
        names = [str(rank_tracing_decoder(i)) if rank_tracing_decoder else str(i) for i in missing]
        raise type(error)(f"Timed out waiting on barrier on rank {rank}, for key prefix: {key_prefix} (world_size={world_size}, "
                          f"missing_ranks=[{', '.join(names)}], timeout={barrier_timeout})") from None
