"""Meetings of hosts that come, leave and die while a run goes on.

All hosts change one state, which a backend keeps: a host reads it, decides on one action, and writes the new state if no other
host has written in between.  A round is complete when `max_nodes` hosts have joined, or when `min_nodes` have joined and the
last call has ended.  Hosts that come later wait in the wait list for the next round, or, while a round has `max_nodes` hosts,
in the redundancy list.
Every host writes heartbeats; a host whose last heartbeat is too old is removed from the state.
"""
import io
import ipaddress
import logging
import os
import pickle
import socket
import threading
import time
import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any

from .... import distributed as dist
from .. import events
from ..events import NodeState
from .api import (RendezvousClosedError, RendezvousError, RendezvousHandler, RendezvousInfo, RendezvousStateError,
                  RendezvousStoreInfo, RendezvousTimeoutError)
from .utils import _delay, _PeriodicTimer

__all__ = ["DynamicRendezvousHandler", "RendezvousBackend", "RendezvousSettings", "RendezvousTimeout", "create_handler"]

log = logging.getLogger(__name__)
Token = Any  # says which version of a state a host has read


class RendezvousBackend(ABC):
    """Keeps the state of a run's meetings."""

    @property
    @abstractmethod
    def name(self):
        """The backend's name."""

    @abstractmethod
    def get_state(self):
        """Returns (state, token), or None where no state was written."""

    @abstractmethod
    def set_state(self, state, token=None):
        """Writes a state if the token is that of the last one.  Returns (state, token, whether it was written), or None where
        the backend does not know: the host then reads the state after a while."""


class RendezvousTimeout:
    """Time limits of a meeting: of joining, of the last call after `min_nodes` hosts have joined, of closing, of a heartbeat."""

    def __init__(self, join=None, last_call=None, close=None, heartbeat=None):
        for name, limit, preset in (("join", join, 600), ("last_call", last_call, 30), ("close", close, 30),
                                    ("heartbeat", heartbeat, 5)):
            limit = timedelta(seconds=preset) if limit is None else limit
            if limit <= timedelta(0):
                raise ValueError(f"The {name} timeout ({limit}) must be positive.")
            setattr(self, name, limit)


@dataclass(repr=False, eq=False, frozen=True)
class RendezvousSettings:
    """The numbers of hosts and the limits of a run's meetings."""

    run_id: str
    min_nodes: int
    max_nodes: int
    timeout: RendezvousTimeout
    keep_alive_interval: timedelta
    keep_alive_max_attempt: int


# --- the state -----------------------------------------------------------------------------------------------------

@dataclass(eq=True, order=True, frozen=True, repr=False)
class _NodeDesc:
    """A handler of a host: several handlers of one process have different numbers."""

    addr: str
    pid: int
    local_id: int

    def __repr__(self):
        return f"{self.addr}_{self.pid}_{self.local_id}"


class _NodeDescGenerator:
    """Numbers the handlers of this process."""

    def __init__(self):
        self._lock, self._next = threading.Lock(), 0

    def generate(self, local_addr=None):
        """Returns the description of a new handler."""
        with self._lock:
            number, self._next = self._next, self._next + 1
        return _NodeDesc(local_addr or socket.getfqdn(), os.getpid(), number)


class _RendezvousState:
    """The shared state: the round, its participants with their ranks, hosts that wait, and the last heartbeats."""

    def __init__(self):
        self.round, self.complete, self.deadline, self.closed = 0, False, None, False
        self.participants, self.wait_list, self.redundancy_list, self.last_heartbeats = {}, set(), set(), {}

    def forget(self, node, settings):
        """Takes a host out of all lists.  A complete round without hosts is over; one with too few has no last call."""
        self.last_heartbeats.pop(node, None)
        self.wait_list.discard(node)
        self.redundancy_list.discard(node)
        if self.participants.pop(node, None) is None:
            return
        if self.complete and not self.participants:
            self.complete, self.round = False, self.round + 1
        elif not self.complete and len(self.participants) < settings.min_nodes:
            self.deadline = None


class _StateUnpickler(pickle.Unpickler):
    """Reads a state; a state has objects of no other classes."""

    _CLASSES = {c.__name__: c for c in (_RendezvousState, _NodeDesc, datetime, timedelta, timezone)}

    def find_class(self, module, name):
        if name not in self._CLASSES:
            raise pickle.UnpicklingError(f"a rendezvous state has no {module}.{name}")
        return self._CLASSES[name]


class _RendezvousStateHolder(ABC):
    """This host's copy of the state."""

    @property
    @abstractmethod
    def state(self):
        """The copy."""

    @abstractmethod
    def sync(self):
        """Writes a changed copy, else reads the state.  Returns whether it was written; None if there was no change."""

    @abstractmethod
    def mark_dirty(self):
        """Says that the copy was changed."""


class _BackendRendezvousStateHolder(_RendezvousStateHolder):
    """This host's copy of the state that a backend keeps; it is read again after `cache_duration` seconds."""

    def __init__(self, backend, settings, cache_duration=1):
        self._backend, self._settings, self._cache_duration = backend, settings, cache_duration
        self._state, self._token, self._dirty, self._last_sync_time = _RendezvousState(), None, False, -1

    @property
    def state(self):
        return self._state

    def mark_dirty(self):
        self._dirty = True

    def _read(self, bits):
        if bits is None:
            return _RendezvousState()
        try:
            return _StateUnpickler(io.BytesIO(bits)).load()
        except (pickle.PickleError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            raise RendezvousStateError("The rendezvous state is corrupt. See inner exception for details.") from error

    def sync(self):
        has_set = None
        if self._dirty:
            own = pickle.dumps(self._state)
            bits, self._token, has_set = self._backend.set_state(own, self._token) or (own, None, False)
        elif self._cache_duration > 0 and self._last_sync_time >= max(time.monotonic() - self._cache_duration, 0):
            return None
        else:
            bits, self._token = self._backend.get_state() or (None, None)
        self._state, self._dirty, self._last_sync_time = self._read(bits), False, time.monotonic()
        self._sanitize()
        return has_set

    def _sanitize(self):
        """Removes hosts whose last heartbeat is too old."""
        s = self._settings
        oldest = datetime.now(timezone.utc) - s.keep_alive_interval * s.keep_alive_max_attempt
        for node, last in list(self._state.last_heartbeats.items()):
            if last < oldest:
                self._state.forget(node, s)


# --- actions -------------------------------------------------------------------------------------------------------

class _Action(Enum):
    """The next action of a host."""

    KEEP_ALIVE = 1
    ADD_TO_PARTICIPANTS = 2
    ADD_TO_WAIT_LIST = 3
    ADD_TO_REDUNDANCY_LIST = 4
    REMOVE_FROM_PARTICIPANTS = 5
    REMOVE_FROM_WAIT_LIST = 6
    REMOVE_FROM_REDUNDANCY_LIST = 7
    MARK_RENDEZVOUS_COMPLETE = 8
    MARK_RENDEZVOUS_CLOSED = 9
    SYNC = 10
    ERROR_CLOSED = 11
    ERROR_TIMEOUT = 12
    FINISH = 13


@dataclass
class _RendezvousContext:
    """The input of an operation."""

    node: _NodeDesc
    state: _RendezvousState
    settings: RendezvousSettings


class _RendezvousOpExecutor(ABC):
    """Runs operations: functions of a context and a limit that return the next action."""

    @abstractmethod
    def run(self, state_handler, deadline, update_deadline=None):
        """Runs an operation to its end."""


class _DistributedRendezvousOpExecutor(_RendezvousOpExecutor):
    """Runs operations on a state that all hosts change."""

    def __init__(self, node, state_holder, settings):
        self._node, self._holder, self._settings = node, state_holder, settings

    def run(self, state_handler, deadline, update_deadline=None):
        """Runs an operation to its end.  A host that was redundant gets the time to join again (`update_deadline`)."""
        while True:
            self._holder.sync()
            context = _RendezvousContext(self._node, self._holder.state, self._settings)
            action = state_handler(context, deadline)
            if action == _Action.FINISH:
                return
            if action == _Action.ERROR_CLOSED:
                raise RendezvousClosedError(f"the run {self._settings.run_id} has ended")
            if action == _Action.ERROR_TIMEOUT:
                raise RendezvousTimeoutError(f"{len(context.state.participants)} of {self._settings.min_nodes} nodes have joined the "
                                             f"run {self._settings.run_id} in time")
            if action == _Action.SYNC:
                _delay(seconds=1)
                continue
            _ACT[action](context)
            self._holder.mark_dirty()
            if action == _Action.REMOVE_FROM_REDUNDANCY_LIST and update_deadline:
                deadline = update_deadline(self._settings.timeout.join)


def _keep_alive(c):
    c.state.last_heartbeats[c.node] = datetime.now(timezone.utc)


def _join_participants(c):
    c.state.wait_list.discard(c.node)
    c.state.participants[c.node] = 0
    _keep_alive(c)
    if len(c.state.participants) == c.settings.min_nodes:
        c.state.deadline = datetime.now(timezone.utc) + c.settings.timeout.last_call
    if len(c.state.participants) == c.settings.max_nodes:
        _complete(c)


def _join_wait_list(c):
    c.state.redundancy_list.discard(c.node)
    c.state.wait_list.add(c.node)
    _keep_alive(c)


def _join_redundancy_list(c):
    c.state.redundancy_list.add(c.node)
    _keep_alive(c)


def _leave_lists(c):
    c.state.forget(c.node, c.settings)


def _complete(c):
    c.state.complete, c.state.deadline = True, None
    c.state.participants = {node: rank for rank, node in enumerate(sorted(c.state.participants))}


def _close(c):
    c.state.closed = True


_ACT = {_Action.KEEP_ALIVE: _keep_alive, _Action.ADD_TO_PARTICIPANTS: _join_participants,
        _Action.ADD_TO_WAIT_LIST: _join_wait_list, _Action.ADD_TO_REDUNDANCY_LIST: _join_redundancy_list,
        _Action.REMOVE_FROM_PARTICIPANTS: _leave_lists, _Action.REMOVE_FROM_WAIT_LIST: _leave_lists,
        _Action.REMOVE_FROM_REDUNDANCY_LIST: _leave_lists, _Action.MARK_RENDEZVOUS_COMPLETE: _complete,
        _Action.MARK_RENDEZVOUS_CLOSED: _close}


# --- operations ----------------------------------------------------------------------------------------------------

def _needs_heartbeat(context):
    """Returns whether it is time for this host's next heartbeat."""
    last = context.state.last_heartbeats.get(context.node)
    return last is not None and last <= datetime.now(timezone.utc) - context.settings.keep_alive_interval


class _RendezvousExitOp:
    """This host leaves the round."""

    def __call__(self, context, deadline):
        if context.node not in context.state.participants:
            return _Action.FINISH
        return _Action.ERROR_TIMEOUT if time.monotonic() > deadline else _Action.REMOVE_FROM_PARTICIPANTS


class _RendezvousJoinOp:
    """This host joins a round, and waits until it is complete."""

    ROLLBACK = 5  # seconds after the limit in which a host takes itself out

    def __call__(self, context, deadline):
        state, node, most = context.state, context.node, context.settings.max_nodes
        wait = _Action.KEEP_ALIVE if _needs_heartbeat(context) else _Action.SYNC
        if state.closed:
            return _Action.ERROR_CLOSED
        if node in state.redundancy_list:
            return wait if len(state.participants) >= most else _Action.REMOVE_FROM_REDUNDANCY_LIST
        if state.complete and node in state.participants:
            return _Action.FINISH
        if time.monotonic() > deadline:
            return self._late(context, deadline)
        if state.complete and node not in state.wait_list:
            return _Action.ADD_TO_WAIT_LIST if len(state.participants) < most else _Action.ADD_TO_REDUNDANCY_LIST
        if not state.complete and node not in state.participants:
            return _Action.ADD_TO_PARTICIPANTS
        if not state.complete and self._last_call_has_ended(context):
            return _Action.MARK_RENDEZVOUS_COMPLETE
        return wait

    def _late(self, context, deadline):
        if time.monotonic() <= deadline + self.ROLLBACK:
            if context.node in context.state.participants:
                return _Action.REMOVE_FROM_PARTICIPANTS
            if context.node in context.state.wait_list:
                return _Action.REMOVE_FROM_WAIT_LIST
        return _Action.ERROR_TIMEOUT

    def _last_call_has_ended(self, context):
        end = context.state.deadline
        return len(context.state.participants) >= context.settings.min_nodes and end is not None and end < datetime.now(timezone.utc)


class _RendezvousCloseOp:
    """The run ends."""

    def __call__(self, context, deadline):
        if context.state.closed:
            return _Action.FINISH
        return _Action.ERROR_TIMEOUT if time.monotonic() > deadline else _Action.MARK_RENDEZVOUS_CLOSED


class _RendezvousKeepAliveOp:
    """This host writes its heartbeat, if it is time."""

    def __call__(self, context, deadline):
        if not _needs_heartbeat(context):
            return _Action.FINISH
        return _Action.ERROR_TIMEOUT if time.monotonic() > deadline else _Action.KEEP_ALIVE


# --- the handler ---------------------------------------------------------------------------------------------------

def _listening_address(host):
    """Returns where a server of this host listens.  Some systems give their own name an address of the loopback device, but other
    hosts do not: the server listens at all addresses then."""
    try:
        found = socket.getaddrinfo(host, None)[0][4][0]
        here = host not in ("localhost", found) and ipaddress.ip_address(found).is_loopback
    except (OSError, ValueError):
        return host
    return "0.0.0.0" if here else host


def _beat(handler):
    """The timer's function.  Its reference is weak, so the timer does not keep a handler that the program has dropped."""
    found = handler()
    if found is not None:
        found._keep_alive()


class DynamicRendezvousHandler(RendezvousHandler):
    """Lets the hosts of a run meet, by a state that a backend keeps."""

    _node_desc_generator = _NodeDescGenerator()

    @classmethod
    def from_backend(cls, run_id, store, backend, min_nodes, max_nodes, local_addr=None, timeout=None, keep_alive_interval=5,
                     keep_alive_max_attempt=3):
        """Returns a handler of a new host."""
        if min_nodes < 1:
            raise ValueError(f"The minimum number of nodes ({min_nodes}) must be greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(f"The maximum number of nodes ({max_nodes}) must be greater than or equal to the minimum number of "
                             f"nodes ({min_nodes}).")
        if not isinstance(keep_alive_interval, timedelta):
            keep_alive_interval = timedelta(seconds=keep_alive_interval)
        settings = RendezvousSettings(run_id, min_nodes, max_nodes, timeout or RendezvousTimeout(), keep_alive_interval,
                                      keep_alive_max_attempt)
        return cls(cls._node_desc_generator.generate(local_addr), settings, backend.name, store,
                   _BackendRendezvousStateHolder(backend, settings))

    def __init__(self, node, settings, backend_name, store, state_holder):
        if not settings.run_id:
            raise ValueError("The run id must be a non-empty string.")
        self._this_node, self._settings, self._backend_name, self._store = node, settings, backend_name, store
        self._state_holder, self._op_executor = state_holder, _DistributedRendezvousOpExecutor(node, state_holder, settings)
        self._heartbeat_lock, self._keep_alive_timer = threading.Lock(), None
        self._shared_tcp_store_server = None

    @property
    def settings(self):
        """The numbers of hosts and the limits."""
        return self._settings

    @property
    def use_agent_store(self):
        return os.environ.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "0") != "1"

    def get_backend(self):
        return self._backend_name

    def get_run_id(self):
        return self._settings.run_id

    def _recorded(self, name, call):
        """Calls a function; an exception becomes an event."""
        try:
            return call()
        except Exception as error:
            events.construct_and_record_rdzv_event(self._settings.run_id, f"{type(error).__name__}: {error}", NodeState.FAILED,
                                                   f"{type(self).__name__}.{name}", pid=self._this_node.pid,
                                                   hostname=self._this_node.addr, local_id=self._this_node.local_id)
            raise

    def next_rendezvous(self):
        return self._recorded("next_rendezvous", self._meet)

    def _meet(self):
        self._stop_heartbeats()
        if self._state_holder.state.round == 0:  # hosts that start at one time write one after another
            _delay(seconds=(0, 0.3))
        deadline = self._get_deadline(self._settings.timeout.join)
        self._op_executor.run(_RendezvousExitOp(), deadline)
        self._op_executor.run(_RendezvousJoinOp(), deadline, self._get_deadline)
        self._start_heartbeats()
        state = self._state_holder.state
        rank, size = state.participants[self._this_node], len(state.participants)
        store = dist.PrefixStore(f"torch.rendezvous.{self._settings.run_id}.{state.round}", self._store)
        return RendezvousInfo(store, rank, size, self._address(rank, store))

    def _address(self, rank, store):
        """Returns where workers meet: at a store of rank 0's agent, a new one in each round."""
        port = None
        if self.use_agent_store and rank == 0:
            self._shared_tcp_store_server = self._create_tcp_store_server(self._this_node.addr)
            port = self._shared_tcp_store_server.port
        return RendezvousStoreInfo.build(rank, store, local_addr=self._this_node.addr, server_port=port)

    def _create_tcp_store_server(self, master_addr, server_port=0):
        return dist.TCPStore(_listening_address(master_addr), server_port, is_master=True, wait_for_workers=False)

    def _get_deadline(self, timeout):
        return time.monotonic() + timeout.total_seconds()

    def _synced(self):
        with self._heartbeat_lock:
            self._state_holder.sync()
            return self._state_holder.state

    def is_closed(self):
        return self._recorded("is_closed", self._synced).closed

    def num_nodes_waiting(self):
        return len(self._recorded("num_nodes_waiting", self._synced).wait_list)

    def set_closed(self):
        self._recorded("set_closed", self._locked_close)

    def _locked_close(self):
        with self._heartbeat_lock:
            self._close()

    def _close(self):
        self._op_executor.run(_RendezvousCloseOp(), self._get_deadline(self._settings.timeout.close))

    def shutdown(self):
        self._stop_heartbeats()
        try:
            self._recorded("shutdown", self._close)
            return True
        except RendezvousError as error:  # the host with the state may have left
            log.info("the run %s cannot be closed: %s", self._settings.run_id, error)
            return False

    def _keep_alive(self):
        with self._heartbeat_lock:
            try:
                self._op_executor.run(_RendezvousKeepAliveOp(), self._get_deadline(self._settings.timeout.heartbeat))
            except RendezvousError as error:
                log.warning("the heartbeat of %r failed: %s %s", self._this_node, type(error).__name__, error)

    def _start_heartbeats(self):
        self._keep_alive_timer = _PeriodicTimer(self._settings.keep_alive_interval, _beat, weakref.ref(self))
        self._keep_alive_timer.set_name(f"RendezvousKeepAliveTimer_{self._this_node.local_id}")
        self._keep_alive_timer.start()

    def _stop_heartbeats(self):
        if self._keep_alive_timer is not None:
            self._keep_alive_timer.cancel()
            self._keep_alive_timer = None


def create_handler(store, backend, params):
    """Returns the handler that parameters describe; limits are options in seconds."""
    def limit(name):
        seconds = params.get_as_int(f"{name}_timeout")
        return None if seconds is None else timedelta(seconds=seconds)
    timeout = RendezvousTimeout(limit("join"), limit("last_call"), limit("close"), limit("heartbeat"))
    return DynamicRendezvousHandler.from_backend(
        params.run_id, store, backend, params.min_nodes, params.max_nodes, params.local_addr, timeout,
        params.get("keep_alive_interval", 5), params.get_as_int("keep_alive_max_attempt", 3))
