"""References to values of other processes.

The owner of a value keeps it while a fork exists: a reference of another process, numbered by the process that made it.

- remote() makes the first fork; its message registers it at the owner.
- The owner registers a fork before it sends it.
- Another process that sends a reference keeps its own until the receiver has registered the new fork at the owner (FORK), and
  has told so (ACCEPT).
- A fork that is collected is deleted at the owner (DELETE), not before it is registered.
"""
import contextlib
import itertools
import threading
import weakref
from typing import Generic, NamedTuple, TypeVar

from ... import Tensor
from ...futures import Future
from . import constants, internal

T = TypeVar("T")


class _Number(NamedTuple):
    """The number of a value or of a fork: the process that made it, and its count there."""
    created_on: int
    local_id: int

    def __repr__(self):
        return f"GloballyUniqueId(created_on={self.created_on}, local_id={self.local_id})"


class _Owner:
    """A value in the process that owns it.  Its future has a RemoteException where the function that makes it failed."""

    def __init__(self, number):
        self.number, self.future, self.forks = number, Future(), set()

    def set(self, value):
        self.future._complete(value)


def root_of(value):
    """Returns a value from which backward can start."""
    if not isinstance(value, Tensor):
        raise RuntimeError("RRef should contain a tensor for .backward()")
    return value


class _Context:
    """The references of this process."""

    def __init__(self):
        self.lock = threading.RLock()  # a reference may be collected while a thread holds it
        self.collected = threading.local()
        self.reset()

    def reset(self):
        self.counter = itertools.count()
        self.owners = {}    # number -> _Owner with forks, or whose value is being made
        self.users = {}     # fork -> weak reference to a confirmed PyRRef
        self.pending = {}   # fork -> PyRRef that the owner has not confirmed
        self.children = {}  # fork of another process, not accepted yet -> PyRRef that it came from

    def number(self):
        from . import api
        return _Number(api._get_current_rpc_agent().get_worker_info().id, next(self.counter))

    # --- of the owner ---
    def owned(self, number):
        with self.lock:
            number = _Number(*number)
            return self.owners.setdefault(number, _Owner(number)) if number not in self.owners else self.owners[number]

    def add_fork(self, owner, fork):
        with self.lock:
            self.owners.setdefault(owner.number, owner)
            owner.forks.add(fork)

    def delete_fork(self, number, fork):
        with self.lock:
            owner = self.owners.get(_Number(*number))
            if owner is not None:
                owner.forks.discard(fork)
                if not owner.forks:
                    del self.owners[owner.number]

    # --- of users ---
    @contextlib.contextmanager
    def collecting(self):
        """Gives a list of the unconfirmed references that the thread receives meanwhile."""
        before, found = getattr(self.collected, "found", None), []
        self.collected.found = found
        try:
            yield found
        finally:
            self.collected.found = before

    def wait_for_owner(self, reference, future, then=None):
        """Keeps a new fork until the request that registers it at the owner has its reply."""
        with self.lock:
            self.pending[reference._fork_number] = reference
        if getattr(self.collected, "found", None) is not None:
            self.collected.found.append(reference)
        number = reference._fork_number

        def confirmed():
            held = self.pending.get(number)
            if held is not None:
                held._confirm(future._error)
                with self.lock:
                    self.users[number] = weakref.ref(held)
                    self.pending.pop(number, None)
            if then is not None:
                then()
        future._when_completed(confirmed)

    def child_accepted(self, fork):
        with self.lock:
            self.children.pop(fork, None)

    def delete_users(self, agent, timeout):
        """Deletes the forks that this process has, and the values of its own without forks."""
        deleted = threading.Event()
        agent._gone.put(deleted.set)  # after those that were collected
        deleted.wait(timeout or None)
        with self.lock:
            waiting = [reference._confirmation for reference in self.pending.values()]
        for confirmation in waiting:
            confirmation.wait()
        with self.lock:
            users, self.users = list(self.users.values()), {}
        answers = [answer for reference in users if (user := reference()) is not None
                   if (answer := user._delete(agent)) is not None]
        for answer in answers:
            try:
                answer.wait()
            except RuntimeError:
                pass  # the owner is gone, and its value with it
        with self.lock:
            for number in [n for n, owner in self.owners.items() if not owner.forks]:
                del self.owners[number]

    def destroy(self, ignore_leak):
        with self.lock:
            owners = list(self.owners.values())
            for reference in [*(r() for r in self.users.values()), *self.pending.values()]:
                if reference is not None:
                    reference._deleted = True
            self.reset()
        if owners and not ignore_leak:
            leaks = "".join(f"Leaking RRef {o.number} with fork Id {', '.join(map(repr, o.forks))}\n" for o in owners)
            raise RuntimeError(f"{leaks}\nReferences of this process's values still exist in other processes.")

    def debug_info(self):
        with self.lock:
            return {"num_owner_rrefs": str(len(self.owners)), "num_pending_futures": "0",
                    "num_pending_users": str(len(self.pending)),
                    "num_forks": str(sum(len(owner.forks) for owner in self.owners.values()))}


context = _Context()


def _received_reference(owner_name, owner_id, number, fork, parent, kind):
    """Makes the reference of a message."""
    from . import api
    from ._agent import WorkerInfo
    agent = api._get_current_rpc_agent()
    me, owner = agent.get_worker_info(), WorkerInfo(owner_name, owner_id)
    number, fork = _Number(*number), _Number(*fork)

    def accept():
        agent.request(agent.get_worker_info(parent), "ACCEPT", (fork,))

    if owner == me:
        made = _bare(kind, me, number, state=context.owned(number))
        if parent == me.id:
            context.delete_fork(number, fork)
        else:
            accept()
        return made
    made = _bare(kind, owner, number, fork)
    if parent == owner.id:
        made._confirm(None)
        with context.lock:
            context.users[fork] = weakref.ref(made)
    else:
        context.wait_for_owner(made, agent.request(owner, "FORK", (number, fork)), accept)
    return made


def _bare(kind, owner, number, fork=None, state=None):
    made = kind.__new__(kind)
    made._start(owner, number, fork, state)
    return made


class PyRRef:
    """A reference to a value that a process owns."""

    def __init__(self, value, type_hint=None):
        from . import api
        if not api._is_current_rpc_agent_set():
            raise RuntimeError("Current RPC agent is not set! Did you initialize the RPC framework (e.g. by calling "
                               "`rpc.init_rpc`)?")
        number = context.number()
        self._start(api._get_current_rpc_agent().get_worker_info(), number, None, _Owner(number))
        self._state.set(value)

    def _start(self, owner, number, fork, state):
        self._owner_info, self._number, self._fork_number, self._state = owner, number, fork, state
        self._creation, self._confirmation = Future(), Future()
        self._deleted = False
        if state is not None:
            self._confirm(None)

    def _confirm(self, error):
        if not self._creation.done():
            self._creation._complete(None, error)
        self._confirmation._complete(None)

    # --- torch's methods ---
    def is_owner(self):
        """Returns whether this process has the value."""
        return self._state is not None

    def confirmed_by_owner(self):
        """Returns whether the owner knows this reference."""
        return self._confirmation.done()

    def owner(self):
        """Returns the WorkerInfo of the process that has the value."""
        return self._owner_info

    def owner_name(self):
        """Returns the name of the process that has the value."""
        return self._owner_info.name

    def _value(self):
        value = self._state.future.value()
        internal._handle_exception(value)
        return value

    def to_here(self, timeout=constants.UNSET_RPC_TIMEOUT):
        """Returns the value, or a copy of that of the owner; waits until it is made."""
        from . import api
        if self._state is not None:
            return self.local_value()
        if self._deleted:
            raise RuntimeError(f"{self} has been deleted. Cannot call to_here() on it after deletion.")
        failed = self._creation._error if self._creation.done() else None
        if failed is not None:
            if "RPC ran for more than set timeout" in str(failed):
                raise RuntimeError("RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner node "
                                   "does not exist.")
            raise failed
        return api._request(self._owner_info, "FETCH", (self._number,), timeout=timeout).wait()

    def local_value(self):
        """Returns the value, at its owner."""
        if self._state is None:
            from . import api
            raise RuntimeError(f"For UserRRef(rref_id={self._number!r}, fork_id={self._fork_number!r}), can't call localValue() "
                               f"on user {api.get_worker_info()}. Call it on owner {self._owner_info}")
        self._state.future.wait()
        return self._value()

    def rpc_sync(self, timeout=constants.UNSET_RPC_TIMEOUT):
        """Returns a proxy whose methods are those of the value, called by rpc_sync."""
        from . import api
        from .rref_proxy import RRefProxy
        return RRefProxy(self, api.rpc_sync, timeout)

    def rpc_async(self, timeout=constants.UNSET_RPC_TIMEOUT):
        """Returns a proxy whose methods return futures."""
        from . import api
        from .rref_proxy import RRefProxy
        return RRefProxy(self, api.rpc_async, timeout)

    def remote(self, timeout=constants.UNSET_RPC_TIMEOUT):
        """Returns a proxy whose methods return references."""
        from . import api
        from .rref_proxy import RRefProxy
        return RRefProxy(self, api.remote, timeout)

    def backward(self, dist_autograd_ctx_id=-1, retain_graph=False):
        """Computes gradients of the value, a tensor of one element: into .grad at the owner without a context of
        torch.distributed.autograd, else into the context."""
        from .. import autograd
        from . import api
        if self._state is None:
            if dist_autograd_ctx_id == -1:
                raise RuntimeError("User RRefs require 'dist_autograd_ctx_id' to be specified")
            fields = (self._number, dist_autograd_ctx_id, retain_graph)
            api._request(self._owner_info, "BACKWARD", fields).wait()
            return
        root = root_of(self.local_value())
        if dist_autograd_ctx_id == -1:
            root.backward(retain_graph=retain_graph)
        else:
            autograd.backward(dist_autograd_ctx_id, [root], retain_graph)

    def _get_future(self):
        """Returns a future that completes when the value was made, or could not be."""
        return self._creation

    def _get_type(self, timeout=constants.UNSET_RPC_TIMEOUT, blocking=True):
        from . import api
        if self._state is not None:
            done = Future()
            self._state.future._when_completed(lambda: _complete_by(done, lambda: type(self._value())))
        else:
            done = api._request(self._owner_info, "TYPE", (self._number,), timeout=timeout)
        return done.wait() if blocking else done

    def _get_profiling_future(self, acquire_lock=True):
        """Returns the future that profilers wait for."""
        return self._creation

    def _set_profiling_future(self, future):
        self._creation = future

    # --- forks ---
    def _fork(self):
        """Returns what pickle calls to make a fork in another process."""
        from . import api
        if self._deleted:
            raise RuntimeError(f"{self} Cannot call fork an UserRRef after deletion.")
        fork = context.number()
        if self._state is not None:
            context.add_fork(self._state, fork)
        else:
            with context.lock:
                context.children[fork] = self
        return _received_reference, (*_named(self._owner_info), tuple(self._number), tuple(fork), api.get_worker_info().id,
                                     type(self))

    def _delete(self, agent):
        """Tells the owner that this fork is deleted; returns the Future of its answer."""
        if self._deleted or self._state is not None:
            return None
        self._deleted = True
        return agent.request(self._owner_info, "DELETE", (self._number, self._fork_number))

    def __del__(self):
        if getattr(self, "_state", self) is not None or self._deleted:
            return
        from . import api
        agent = api._current_agent
        if agent is not None:
            owner, fields = self._owner_info, (self._number, self._fork_number)
            context.users.pop(self._fork_number, None)
            agent._gone.put(lambda: agent.request(owner, "DELETE", fields))

    def __reduce_ex__(self, protocol):
        raise RuntimeError("Can not pickle rref in python pickler, rref can only be pickled when using RPC")

    def __repr__(self):
        if self._state is not None:
            return f"OwnerRRef({self._number!r})"
        return f"UserRRef(RRefId = {self._number!r}, ForkId = {self._fork_number!r})"


class RRef(PyRRef, Generic[T]):
    """A reference to a value of this process, or of another one that remote() asked to make it."""


def _named(info):
    return info.name, info.id


def _complete_by(future, make):
    try:
        value = make()
    except Exception as error:
        future._complete(None, error)
    else:
        future._complete(value)
