"""Requests travel by a queue of multiprocessing."""
import os
import signal
import time
from queue import Empty

from .api import RequestQueue, TimerClient, TimerRequest, TimerServer

__all__ = ["LocalTimerClient", "LocalTimerServer", "MultiprocessingRequestQueue"]


class LocalTimerClient(TimerClient):
    """Writes requests of this process to a queue."""

    def __init__(self, mp_queue):
        super().__init__()
        self._mp_queue = mp_queue

    def acquire(self, scope_id, expiration_time):
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id):
        self._mp_queue.put(TimerRequest(os.getpid(), scope_id, -1))


class MultiprocessingRequestQueue(RequestQueue):
    """Reads requests from a queue."""

    def __init__(self, mp_queue):
        super().__init__()
        self._mp_queue = mp_queue

    def size(self):
        return self._mp_queue.qsize()

    def wake(self):
        self._mp_queue.put(None)

    def get(self, size, timeout):
        requests, end = [], time.monotonic() + timeout
        while len(requests) < size and time.monotonic() <= end:
            try:
                request = self._mp_queue.get(block=True, timeout=max(0.0, end - time.monotonic()))
            except Empty:
                break
            if request is None:
                break
            requests.append(request)
        return requests


class _Timers:
    """A server's requests, by worker and scope, and how it ends a process."""

    def register_timers(self, timer_requests):
        for request in timer_requests:
            key = (getattr(request, self._WORKER), request.scope_id)
            if request.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = request

    def clear_timers(self, worker_ids):
        for key in [key for key in self._timers if key[0] in worker_ids]:
            del self._timers[key]

    def get_expired_timers(self, deadline):
        late = {}
        for (worker, _), request in self._timers.items():
            if request.expiration_time <= deadline:
                late.setdefault(worker, []).append(request)
        return late


class LocalTimerServer(_Timers, TimerServer):
    """Kills processes of this host that are late."""

    _WORKER = "worker_id"

    def __init__(self, mp_queue, max_interval=60, daemon=True):
        super().__init__(MultiprocessingRequestQueue(mp_queue), max_interval, daemon)
        self._timers = {}

    def _reap_worker(self, worker_id):
        try:
            os.kill(worker_id, signal.SIGKILL)
            return True
        except ProcessLookupError:
            return True
