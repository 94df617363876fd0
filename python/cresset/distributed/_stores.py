"""Stores: tables of keys and values that several processes share (src/comm/store.h)."""
from datetime import timedelta

from .. import _C

_VERBS = {name: i for i, name in enumerate(_C._comm_verbs)}
_MODULE = "torch.distributed.distributed_c10d"


def milliseconds(timeout):
    """Returns a timedelta, or a number of seconds, in milliseconds."""
    if not isinstance(timeout, timedelta):
        timeout = timedelta(seconds=timeout)
    return int(timeout.total_seconds() * 1000)


def _key(key):
    if isinstance(key, bytes):
        return key
    if not isinstance(key, str):
        raise TypeError(f"a store's key must be str, not {type(key).__name__}")
    return key.encode()


def _value(value):
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"a store's value must be str or bytes, not {type(value).__name__}")
    return value.encode() if isinstance(value, str) else value


class Store:
    """A table of keys and values.  Programs may derive stores; groups then call their methods."""

    __module__ = _MODULE
    _handle = None  # a _CommStore, or None for a program's store

    def __init__(self):
        self._handle = _C._comm_program(self._answer)

    def _ask(self, verb, keys=(), values=(), number=0, timeout=-1):
        del verb, keys, values, number, timeout  # a program's class has no method for the request
        raise NotImplementedError("Not implemented.")

    def set(self, key, value):
        """Stores a value under the key, in place of an earlier one."""
        self._ask("SET", [key], [value])

    def get(self, key):
        """Waits for the key, at most the store's timeout, and returns its value as bytes."""
        return self._ask("GET", [key])[1][0]

    def add(self, key, amount):
        """Adds to the number under the key, 0 where there is none, and returns the sum."""
        if not isinstance(amount, int):
            raise TypeError(f"add(): incompatible function arguments: the amount must be int, not {type(amount).__name__}")
        return self._ask("ADD", [key], number=amount)[0]

    def compare_set(self, key, expected_value, desired_value):
        """Stores the desired value if the key has the expected one (a new key: the empty one).  Returns the value
        afterwards."""
        return self._ask("COMPARE_SET", [key], [expected_value, desired_value])[1][0]

    def wait(self, keys, timeout=None):
        """Waits until all keys exist; a DistStoreError after the timeout."""
        self._ask("WAIT", keys, timeout=-1 if timeout is None else milliseconds(timeout))

    def check(self, keys):
        """Returns whether all keys exist."""
        return bool(self._ask("CHECK", keys)[0])

    def delete_key(self, key):
        """Removes a key; returns whether it existed."""
        return bool(self._ask("DELETE", [key])[0])

    def num_keys(self):
        """Returns the number of keys."""
        return self._ask("COUNT")[0]

    def list_keys(self):
        """Returns the keys, in no order."""
        return [key.decode() for key in self._ask("LIST")[1]]

    def append(self, key, value):
        """Appends to the value under the key: by compare_set, which does not tell an equal value from the new one."""
        seen, wished = b"", _value(value)
        while (now := _value(self.compare_set(key, seen, wished))) != wished:
            seen, wished = now, now + _value(value)

    def multi_get(self, keys):
        """Waits for all keys and returns their values."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys, values):
        """Stores several values at once."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, _value(value))

    def queue_push(self, key, value):
        """Appends a value to the queue of the key."""
        self._ask("PUSH", [key], [value])

    def queue_pop(self, key, block=True):
        """Takes the first value of the key's queue; waits for one if `block`, else a QueueEmptyError."""
        return self._ask("POP", [key], number=int(block))[1][0]

    def queue_len(self, key):
        """Returns the length of the key's queue."""
        return self._ask("LENGTH", [key])[0]

    def barrier(self, key, world_size, timeout=None):
        """Waits until `world_size` processes have called it with this key."""
        if self.add(f"{key}/arrived", 1) == world_size:
            self.set(f"{key}/all", b"1")
        self.wait([f"{key}/all"], *() if timeout is None else (timeout,))

    def has_extended_api(self):
        """Returns whether append, multi_get and multi_set are single requests."""
        return False

    def set_timeout(self, timeout):
        """Sets the limit of calls that wait."""
        self._handle.timeout_ms = milliseconds(timeout)

    @property
    def timeout(self):
        """The limit of calls that wait."""
        return timedelta(milliseconds=self._handle.timeout_ms)

    def clone(self):
        """Returns a store that may be used in another thread: the same one."""
        return self

    def _answer(self, verb, keys, values, number, timeout):
        """Answers a request of a group by the methods of a program's class."""
        names = [key.decode() for key in keys]
        name = next(n for n, v in _VERBS.items() if v == verb)
        if name == "APPEND":
            self.append(names[0], values[0])
            return 0, ()
        if name == "SET":
            self.set(names[0], values[0]) if len(names) == 1 else self.multi_set(names, values)
            return 0, ()
        if name == "GET":
            return 0, tuple(map(_value, [self.get(names[0])] if len(names) == 1 else self.multi_get(names)))
        if name == "WAIT":
            self.wait(names, *() if timeout < 0 else (timedelta(milliseconds=timeout),))
            return 0, ()
        if name == "COMPARE_SET":
            return 0, (_value(self.compare_set(names[0], *values)),)
        single = {"ADD": lambda: self.add(names[0], number), "DELETE": lambda: self.delete_key(names[0]),
                  "CHECK": lambda: self.check(names), "COUNT": self.num_keys}
        if name not in single:
            raise NotImplementedError("Not implemented.")
        return int(single[name]()), ()


class _Own(Store):
    """A store of the library."""

    def _adopt(self, handle):
        self._handle = handle

    def _ask(self, verb, keys=(), values=(), number=0, timeout=-1):
        return self._handle.call(_VERBS[verb], tuple(map(_key, keys)), tuple(map(_value, values)), number, timeout)

    def append(self, key, value):
        """Appends to the value under the key."""
        self._ask("APPEND", [key], [value])

    def multi_get(self, keys):
        """Waits for all keys and returns their values."""
        return self._ask("GET", keys)[1]

    def multi_set(self, keys, values):
        """Stores several values at once."""
        if len(keys) != len(values):
            raise ValueError(f"multi_set: {len(keys)} keys, but {len(values)} values")
        if keys:
            self._ask("SET", keys, values)

    def has_extended_api(self):
        """Returns whether append, multi_get and multi_set are single requests."""
        return True


class HashStore(_Own):
    """A store of one process."""

    __module__ = _MODULE

    def __init__(self):
        self._adopt(_C._comm_hash())


class FileStore(_Own):
    """A store in a file.  With a world size, the file is removed when so many stores have ended."""

    __module__ = _MODULE

    def __init__(self, file_name, world_size=-1):
        self.path = file_name
        self._adopt(_C._comm_file(file_name, world_size))


class TCPStore(_Own):
    """A store in a server, which the master's process runs."""

    __module__ = _MODULE

    def __init__(self, host_name, port, world_size=None, is_master=False, timeout=timedelta(seconds=300),
                 wait_for_workers=True, multi_tenant=False, master_listen_fd=None, use_libuv=True):
        if world_size == 0:
            raise ValueError("TCPStore world size cannot be 0")
        self.libuvBackend = bool(use_libuv)  # as asked: there is one kind of server
        self._master = bool(is_master)
        self._adopt(_C._comm_tcp(host_name, port, -1 if world_size is None else world_size, is_master,
                                 wait_for_workers, multi_tenant, -1 if master_listen_fd is None else master_listen_fd,
                                 milliseconds(timeout)))

    @property
    def host(self):
        """The server's host."""
        return self._handle.host

    @property
    def port(self):
        """The server's port."""
        return self._handle.port

    def __repr__(self):
        server = f"TCPServer(port={self.port})" if self._master else "<nullptr>"
        return f"TCPStore(client=TCPClient(remote=[{self.host}]:{self.port}), server={server})"


class PrefixStore(_Own):
    """Another store, where each key has a prefix."""

    __module__ = _MODULE

    def __init__(self, prefix, store):
        if store is None:
            raise ValueError("store argument cannot be None")
        if not isinstance(store, Store):
            raise TypeError(f"PrefixStore needs a store, not {type(store).__name__}")
        self.underlying_store = store
        self.prefix = prefix
        self._adopt(_C._comm_prefix(prefix, store._handle))

    def has_extended_api(self):
        """Returns whether the other store has it."""
        return self.underlying_store.has_extended_api()

    @property
    def _underlying_non_prefix_store(self):
        store = self
        while isinstance(store, PrefixStore):
            store = store.underlying_store
        return store
