"""Requests of workers, and a server that checks them periodically."""
import logging
import threading
import time
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import getframeinfo, stack

__all__ = ["RequestQueue", "TimerClient", "TimerRequest", "TimerServer", "configure", "expires"]

log = logging.getLogger(__name__)


@dataclass(eq=True, frozen=True)
class TimerRequest:
    """The time, as of time.time(), at which a scope of a worker expires; a negative time ends the scope."""

    worker_id: object
    scope_id: str
    expiration_time: float


class TimerClient(ABC):
    """Sets and ends limits of this worker."""

    @abstractmethod
    def acquire(self, scope_id, expiration_time):
        """Sets the limit of a scope; it replaces an earlier one."""

    @abstractmethod
    def release(self, scope_id):
        """Ends a scope."""


class RequestQueue(ABC):
    """Brings requests to the server."""

    @abstractmethod
    def size(self):
        """Returns the approximate number of waiting requests."""

    @abstractmethod
    def get(self, size, timeout):
        """Returns up to `size` requests that come within `timeout` seconds."""

    def wake(self):
        """Ends a get() that waits.  Queues that cannot do so let it wait."""


class TimerServer(ABC):
    """Looks for late workers every `max_interval` seconds, in a thread."""

    def __init__(self, request_queue, max_interval, daemon=True):
        self._request_queue, self._max_interval, self._daemon = request_queue, max_interval, daemon
        self._thread, self._stop = None, threading.Event()

    @abstractmethod
    def register_timers(self, timer_requests):
        """Keeps requests."""

    @abstractmethod
    def clear_timers(self, worker_ids):
        """Drops the requests of workers."""

    @abstractmethod
    def get_expired_timers(self, deadline):
        """Returns the requests by worker whose limit is not after a time."""

    @abstractmethod
    def _reap_worker(self, worker_id):
        """Ends a worker.  Returns whether that went well."""

    def _reap(self, worker_id):
        """Ends a worker; one that cannot be found counts as ended."""
        try:
            return self._reap_worker(worker_id)
        except Exception:
            log.exception("worker %s cannot be ended; its limits are dropped", worker_id)
            return True

    def _run_watchdog(self):
        size = max(1, self._request_queue.size())
        self.register_timers(self._request_queue.get(size, self._max_interval))
        ended = set()
        for worker, requests in self.get_expired_timers(time.time()).items():
            log.info("worker %s is late: %s", worker, ", ".join(r.scope_id for r in requests))
            if self._reap(worker):
                ended.add(worker)
        self.clear_timers(ended)

    def _watchdog_loop(self):
        while not self._stop.is_set():
            try:
                self._run_watchdog()
            except Exception:
                log.exception("the timers' server goes on")

    def start(self):
        """Starts the thread."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._watchdog_loop, daemon=self._daemon)
        self._thread.start()

    def stop(self):
        """Ends the thread."""
        self._stop.set()
        if self._thread:
            self._request_queue.wake()
            self._thread.join(self._max_interval + 1)
            self._thread = None


_client = [None]


def configure(timer_client):
    """Sets the client of expires()."""
    _client[0] = timer_client


@contextmanager
def expires(after, scope=None, client=None):
    """Limits a block to `after` seconds.  The default scope is the caller's file and line, so a line replaces its own limit."""
    client = client or _client[0]
    if client is None:
        raise RuntimeError("Configure timer client before using countdown timers.")
    if scope is None:
        caller = getframeinfo(stack()[2][0])
        scope = f"{caller.filename}#{caller.lineno}"
    client.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        client.release(scope)
