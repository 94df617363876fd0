"""Calls between processes that share a store and form no group."""
from datetime import timedelta

from ._errors import DistStoreError

_LIMIT = timedelta(seconds=300)


class _ControlCollectives:
    """The calls; each has a key that no other call has."""

    def barrier(self, key, timeout=_LIMIT, blocking=True):
        raise NotImplementedError

    def broadcast_send(self, key, data, timeout=_LIMIT):
        raise NotImplementedError

    def broadcast_recv(self, key, timeout=_LIMIT):
        raise NotImplementedError

    def gather_send(self, key, data, timeout=_LIMIT):
        raise NotImplementedError

    def gather_recv(self, key, data, timeout=_LIMIT):
        raise NotImplementedError

    def scatter_send(self, key, data, timeout=_LIMIT):
        raise NotImplementedError

    def scatter_recv(self, key, timeout=_LIMIT):
        raise NotImplementedError

    def all_gather(self, key, data, timeout=_LIMIT):
        raise NotImplementedError

    def all_sum(self, key, data, timeout=_LIMIT):
        raise NotImplementedError


class _StoreCollectives(_ControlCollectives):
    """The calls by a store.  A rank's part of a call is the value under the call's key and the rank's number."""

    def __init__(self, store, rank, world_size):
        self._store, self._rank, self._size = store, rank, world_size
        self._seen = set()

    def _begin(self, key):
        if key in self._seen:
            raise ValueError(f"Key {key} has already been used.")
        self._seen.add(key)

    def _missing(self, call, keys, error):
        late = ", ".join(str(rank) for rank, key in enumerate(keys) if not self._store.check([key]))
        return DistStoreError(f"{call} failed -- missing ranks: {late}: {error}")

    def _collect(self, call, keys, timeout):
        try:
            self._store.wait(keys, timeout)
        except DistStoreError as error:
            raise self._missing(call, keys, error) from error
        return self._store.multi_get(keys)

    def _one(self, key, timeout):
        try:
            self._store.wait([key], timeout)
        except DistStoreError as error:
            raise DistStoreError(f"Wait timeout: {error}") from error
        return self._store.get(key)

    def _keys(self, key):
        return [f"{key}/{rank}" for rank in range(self._size)]

    def barrier(self, key, timeout=_LIMIT, blocking=True):
        """Says that this rank is here, and waits for the others if `blocking`."""
        self._begin(key)
        self._store.set(f"{key}/{self._rank}", b"1")
        if blocking:
            self._collect("barrier", self._keys(key), timeout)

    def broadcast_send(self, key, data, timeout=_LIMIT):
        """Gives a value to all ranks."""
        self._begin(key)
        self._store.set(key, data)

    def broadcast_recv(self, key, timeout=_LIMIT):
        """Returns the value of the rank that sends."""
        self._begin(key)
        return self._one(key, timeout)

    def gather_send(self, key, data, timeout=_LIMIT):
        """Gives a value to the rank that collects."""
        self._begin(key)
        self._store.set(f"{key}/{self._rank}", data)

    def gather_recv(self, key, data, timeout=_LIMIT):
        """Returns the values of all ranks; `data` is this rank's."""
        self.gather_send(key, data)
        return self._collect("gather", self._keys(key), timeout)

    def scatter_send(self, key, data, timeout=_LIMIT):
        """Gives each rank a value of the list, and returns this rank's."""
        self._begin(key)
        if len(data) != self._size:
            raise ValueError(f"scatter: {len(data)} values for {self._size} ranks")
        self._store.multi_set(self._keys(key), data)
        return self._store.get(f"{key}/{self._rank}")

    def scatter_recv(self, key, timeout=_LIMIT):
        """Returns this rank's value."""
        self._begin(key)
        return self._one(f"{key}/{self._rank}", timeout)

    def all_gather(self, key, data, timeout=_LIMIT):
        """Returns the values of all ranks."""
        self._begin(key)
        self._store.set(f"{key}/{self._rank}", data)
        return self._collect("all_gather", self._keys(key), timeout)

    def all_sum(self, key, data, timeout=_LIMIT):
        """Returns the sum of the ranks' numbers."""
        self._begin(key)
        self._store.add(f"{key}/sum", data)
        self._store.set(f"{key}/{self._rank}", b"1")
        self._collect("barrier", self._keys(key), timeout)
        return self._store.add(f"{key}/sum", 0)
