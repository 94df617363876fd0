"""Requests travel by a named pipe: one line of JSON each, which the system writes as a whole."""
import json
import logging
import os
import select
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from .api import TimerClient
from .debug_info_logging import log_debug_info_for_expired_timers
from .local_timer import _Timers

__all__ = ["FileTimerClient", "FileTimerRequest", "FileTimerServer"]

log = logging.getLogger(__name__)


@dataclass
class FileTimerRequest:
    """The time at which a scope of a process expires, and the signal that ends the process; a negative time ends the scope."""

    worker_pid: int
    scope_id: str
    expiration_time: float
    signal: int = 0
    version: int = 1

    def to_json(self):
        """Returns the request as a line's text."""
        return json.dumps({"version": self.version, "pid": self.worker_pid, "scope_id": self.scope_id,
                           "expiration_time": self.expiration_time, "signal": self.signal})


def _request_of(line):
    """Reads a line.  An exception where a request of other types would fail later, with all that are read beside it."""
    members = json.loads(line)
    request = FileTimerRequest(members.pop("pid"), **members)
    hash(request.scope_id)
    # A negative number is a group of processes.  0 and -1 are no one's: to the system they are its own group, and all processes.
    if type(request.worker_pid) is not int or request.worker_pid in (0, -1) or not -1 << 31 < request.worker_pid < 1 << 31:
        raise ValueError(f"{request.worker_pid!r} is no process")
    if type(request.signal) is not int or request.signal not in {0, *signal.valid_signals()}:
        raise ValueError(f"{request.signal!r} is no signal")
    if type(request.expiration_time) not in (int, float):
        raise ValueError(f"{request.expiration_time!r} is no time")
    return request


class FileTimerClient(TimerClient):
    """Writes requests of this process to a pipe.  A late process gets a signal."""

    def __init__(self, file_path, signal=signal.SIGKILL):
        super().__init__()
        self._file_path, self.signal = file_path, signal

    def _send_request(self, request):
        """Writes a request.  BrokenPipeError where no server reads."""
        line = (request.to_json() + "\n").encode()
        if len(line) > select.PIPE_BUF:
            raise RuntimeError(f"a request of {len(line)} bytes is longer than {select.PIPE_BUF}: the scope's name is too long")
        try:
            pipe = os.open(self._file_path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            raise BrokenPipeError("Could not send the FileTimerRequest because FileTimerServer is not available.") from error
        try:
            os.set_blocking(pipe, True)
            os.write(pipe, line)
        finally:
            os.close(pipe)

    def acquire(self, scope_id, expiration_time):
        self._send_request(FileTimerRequest(os.getpid(), scope_id, expiration_time, self.signal))

    def release(self, scope_id):
        self._send_request(FileTimerRequest(os.getpid(), scope_id, -1))


class FileTimerServer(_Timers):
    """Ends late processes of this host by their signals.  `log_event` is called with a name and a request."""

    _WORKER = "worker_pid"

    def __init__(self, file_path, run_id, max_interval=10, daemon=True, log_event=None):
        self._file_path, self._run_id, self._max_interval, self._daemon = file_path, run_id, max_interval, daemon
        self._log_event = log_event or (lambda name, request: None)
        self._timers, self._request_count, self._run_once, self._rest = {}, 0, False, b""
        self._pipe, self._thread, self._stop = None, None, threading.Event()
        self._last_progress_time = int(time.time())
        if os.path.exists(file_path):
            os.remove(file_path)
        os.mkfifo(file_path)

    def start(self):
        """Starts the thread."""
        # also for writing, so that reads never meet an end of file; without blocking, so that _join() passes a full pipe
        self._pipe = os.open(self._file_path, os.O_RDWR | os.O_NONBLOCK)
        self._stop.clear()
        self._thread = threading.Thread(target=self._watchdog_loop, daemon=self._daemon)
        self._thread.start()
        self._log_event("watchdog started", None)

    def stop(self):
        """Ends the thread and removes the pipe."""
        self._stop.set()
        self._join()
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        if os.path.exists(self._file_path):
            os.remove(self._file_path)
        self._log_event("watchdog stopped", None)

    def run_once(self):
        """Handles the waiting requests, then ends the thread."""
        self._run_once = True
        self._join()

    def _join(self):
        """Waits for the thread's end.  The thread may wait for requests: an empty line wakes it."""
        if self._thread is None:
            return
        with suppress(BlockingIOError):  # the pipe is full: the thread does not wait
            os.write(self._pipe, b"\n")
        self._thread.join()
        self._thread = None

    def get_last_progress_time(self):
        """Returns the time at which requests were last handled."""
        return self._last_progress_time

    @staticmethod
    def is_process_running(pid):
        """Returns whether a process, or a group of processes, exists."""
        if pid > 0:
            return os.path.exists(f"/proc/{pid}")
        try:
            os.killpg(-pid, 0)
        except OSError as error:
            return isinstance(error, PermissionError)
        return True

    def _watchdog_loop(self):
        while not self._stop.is_set():
            try:
                once = self._run_once
                self._run_watchdog(once)
                if once:
                    return
                self._last_progress_time = int(time.time())
            except Exception:
                log.exception("the timers' server goes on")

    def _requests(self, limit):
        """Returns the requests that come within a limit, or are here."""
        if not select.select([self._pipe], [], [], limit)[0]:
            return []
        self._stop.wait(min(limit, 0.05))  # what a worker sends one after the other is handled together
        while select.select([self._pipe], [], [], 0)[0]:
            self._rest += os.read(self._pipe, 1 << 16)
        *lines, self._rest = self._rest.split(b"\n")
        return [request for line in lines if line and (request := self._request(line))]

    @staticmethod
    def _request(line):
        """Returns a line's request.  None for a bad line: the others must not be lost with it."""
        try:
            return _request_of(line)
        except Exception as error:
            log.warning("a line that is no request is dropped: %r: %s", line[:200], error)
            return None

    def _run_watchdog(self, once=False):
        requests = self._requests(0 if once else self._max_interval)
        self._request_count += len(requests)
        self.register_timers(requests)
        ended, late = set(), self.get_expired_timers(time.time())
        log_debug_info_for_expired_timers(self._run_id, {pid: [r.scope_id for r in rs] for pid, rs in late.items()})
        for pid, expired in late.items():
            first = min(expired, key=lambda r: r.expiration_time)
            if self._reap_worker(pid, first.signal):
                self._log_event("kill worker process", first)
                ended.add(pid)
        self.clear_timers(ended | {pid for pid, _ in self._timers if pid not in ended and not self.is_process_running(pid)})

    def _reap_worker(self, worker_pid, signal):
        try:
            os.kill(worker_pid, signal)
            return True
        except ProcessLookupError:
            return True
        except OSError:
            log.exception("the late process %s cannot be ended", worker_pid)
            return False
