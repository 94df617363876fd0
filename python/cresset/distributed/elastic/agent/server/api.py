"""An agent starts the workers of its host, watches them, and restarts all after a failure.

Agents of several hosts meet by a handler of rendezvous.  A round is one start of all workers.  When a worker fails, its agent
joins the next round; the other agents see that a host waits, and join it too.  A class that derives from SimpleElasticAgent
implements how workers are started and watched.
"""
import inspect
import json
import logging
import os
import signal
import socket
import threading
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ... import events
from ...events import EventSource
from ...metrics import prof, put_metric
from ...multiprocessing import SignalException
from ...rendezvous import RendezvousGracefulExitError, RendezvousStoreInfo
from ...utils import store as store_util

__all__ = ["ElasticAgent", "RunResult", "SimpleElasticAgent", "Worker", "WorkerGroup", "WorkerSpec", "WorkerState"]

log = logging.getLogger(__name__)
_KEY = "torchelastic/"  # prefix of the agents' keys in a round's store
_SECONDS_TO_SEE = 5  # the other agents' time to see a failure, before the agent with the store ends
_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"


def _handled_signals():
    """Returns the signals that end a run: of the environment, or the usual ones.  Unknown names are warned of."""
    names = [name.strip() for name in os.environ.get("TORCHELASTIC_SIGNALS_TO_HANDLE", _SIGNALS).split(",")]
    for name in names:
        if not name.startswith("SIG") or not hasattr(signal, name):
            log.warning("signals to handle: there is no signal %s", name)
    return [getattr(signal, name) for name in names if name.startswith("SIG") and hasattr(signal, name)]



def _get_fq_hostname():
    return socket.getfqdn(socket.gethostname())


# --- workers -------------------------------------------------------------------------------------------------------

@dataclass
class WorkerSpec:
    """The program, its processes on this host, and how hosts meet."""

    role: str
    local_world_size: int
    rdzv_handler: Any
    fn: Any = None  # the former name of entrypoint
    entrypoint: Any = None  # a function or a command
    args: tuple = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    duplicate_stdout_filters: list | None = None  # texts of lines that are written to filtered_stdout.log
    duplicate_stderr_filters: list | None = None
    virtual_local_rank: bool = False

    def __post_init__(self):
        if self.fn:
            warnings.warn("WorkerSpec.fn will be deprecated, please use WorkerSpec.entrypoint instead", FutureWarning, stacklevel=3)
            self.entrypoint = self.fn
        if not self.entrypoint or self.local_world_size <= 0 or self.monitor_interval <= 0:
            raise AssertionError("WorkerSpec: an entrypoint, a local_world_size above 0 and a monitor_interval above 0 are needed")

    def get_entrypoint_name(self):
        """Returns the name of the function, or the command."""
        return self.entrypoint if isinstance(self.entrypoint, str) else getattr(self.entrypoint, "__qualname__", str(self.entrypoint))


class Worker:
    """A worker process: its number on the host, in all, and among those of its role."""

    def __init__(self, local_rank, global_rank=-1, role_rank=-1, world_size=-1, role_world_size=-1):
        self.id, self.local_rank, self.global_rank, self.role_rank = None, local_rank, global_rank, role_rank
        self.world_size, self.role_world_size = world_size, role_world_size

    def __repr__(self):
        return (f"Worker(local_rank={self.local_rank}, global_rank={self.global_rank}, role_rank={self.role_rank}, "
                f"world_size={self.world_size}, role_world_size={self.role_world_size}, id={self.id})")


class WorkerState(str, Enum):
    """The state of all workers of a host."""

    UNKNOWN = "UNKNOWN"
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @staticmethod
    def is_running(state):
        """Returns whether workers with this state run."""
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The workers of a host, with the ranks and addresses of the last round."""

    def __init__(self, spec):
        self.spec, self.workers, self.state = spec, [Worker(i) for i in range(spec.local_world_size)], WorkerState.INIT
        self.store = self.group_rank = self.group_world_size = self.master_addr = self.master_port = None


@dataclass
class _RoleInstanceInfo:
    """A record that an agent publishes: its role, its rank, its number of workers."""

    role: str
    rank: int
    local_world_size: int

    def serialize(self):
        """Returns the record as bytes."""
        return json.dumps(vars(self)).encode()

    @staticmethod
    def deserialize(data):
        """Returns the record of bytes."""
        return _RoleInstanceInfo(**json.loads(data))

    @staticmethod
    def compare(one, other):
        """Orders by role, then number: -1, 0 or 1."""
        a, b = (one.role, one.rank), (other.role, other.rank)
        return (a > b) - (a < b)

    @staticmethod
    def find_role_boundaries(infos, role):
        """Returns the first and the last place of a role in a sorted list; -1 and -2 where it has none."""
        places = [i for i, info in enumerate(infos) if info.role == role]
        return (places[0], places[-1]) if places else (-1, -2)


@dataclass
class RunResult:
    """How a run ended: values and failures by rank."""

    state: WorkerState
    return_values: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)

    def is_failed(self):
        """Returns whether the run failed."""
        return self.state == WorkerState.FAILED


# --- agents --------------------------------------------------------------------------------------------------------

class ElasticAgent(ABC):
    """Runs the workers of a host."""

    @abstractmethod
    def run(self, role="default"):
        """Runs the workers to their end.  Returns a RunResult."""

    @abstractmethod
    def get_worker_group(self, role="default"):
        """Returns the workers."""


@contextmanager
def _signals_raise():
    """Inside, a signal that would end this process raises a SignalException."""
    def got_signal(number, frame):
        raise SignalException(f"Process {os.getpid()} got signal: {number}", signal.Signals(number))
    before = {}
    if threading.current_thread() is threading.main_thread():
        before = {n: signal.signal(n, got_signal) for n in _handled_signals()}
    else:
        log.warning("signals are not passed on to workers: the agent runs outside of the main thread")
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class SimpleElasticAgent(ElasticAgent):
    """Runs workers of one role."""

    def __init__(self, spec, exit_barrier_timeout=300, shutdown_timeout=30):
        self._shutdown_timeout = shutdown_timeout  # seconds of workers between the signal that asks them to end and their end by force
        self._worker_group, self._remaining_restarts = WorkerGroup(spec), spec.max_restarts
        self._store, self._exit_barrier_timeout, self._total_execution_time = None, exit_barrier_timeout, 0
        self._restart_count = 0  # the largest of all agents'; all workers get it
        self._agents = 1  # in the last round

    def get_worker_group(self, role="default"):
        return self._worker_group

    @abstractmethod
    def _start_workers(self, worker_group):
        """Starts the workers.  Returns their identities by local rank."""

    @abstractmethod
    def _stop_workers(self, worker_group, is_restart=False):
        """Ends the workers."""

    @abstractmethod
    def _monitor_workers(self, worker_group):
        """Returns the current RunResult."""

    @abstractmethod
    def _shutdown(self, death_sig=signal.SIGTERM, timeout=30):
        """Ends the workers, by force after `timeout` seconds, and frees the resources of the agent."""

    # --- meetings ---
    @prof
    def _rendezvous(self, worker_group):
        """Joins a round with the other agents, and assigns ranks to the workers."""
        spec = worker_group.spec
        info = spec.rdzv_handler.next_rendezvous()
        self._store = worker_group.store = info.store
        self._agents = info.world_size
        worker_group.group_rank, worker_group.group_world_size = info.rank, info.world_size
        at = info.bootstrap_store_info or RendezvousStoreInfo.build(info.rank, info.store, spec.local_addr)
        worker_group.master_addr, worker_group.master_port = spec.master_addr or at.master_addr, spec.master_port or at.master_port
        worker_group.workers = self._assign_worker_ranks(info.store, info.rank, info.world_size, spec)
        self._agree_on_restarts(info)

    def _agree_on_restarts(self, info):
        self._restart_count = max(self._restart_count, self._worker_group.spec.max_restarts - self._remaining_restarts)
        if info.world_size > 1:
            info.store.set(f"{_KEY}restarts/{info.rank}", str(self._restart_count))
            self._restart_count = max(int(info.store.get(f"{_KEY}restarts/{i}")) for i in range(info.world_size))

    def _infos(self, store, own, size):
        if os.environ.get("TORCH_ELASTIC_WORKER_IDENTICAL", "0") == "1":
            return [_RoleInstanceInfo(own.role, i, own.local_world_size) for i in range(size)]
        store.set(f"{_KEY}role_info/{own.rank}", own.serialize())
        return [_RoleInstanceInfo.deserialize(store.get(f"{_KEY}role_info/{i}")) for i in range(size)]

    @prof
    def _assign_worker_ranks(self, store, group_rank, group_world_size, spec):
        """Returns the workers of this host, numbered by the agents' order."""
        infos = self._infos(store, _RoleInstanceInfo(spec.role, group_rank, spec.local_world_size), group_world_size)
        alike = [info for info in infos if info.role == spec.role]

        def workers_in(agents):
            return sum(info.local_world_size for info in agents)
        first = workers_in(infos[:group_rank])
        first_of_role = workers_in(info for info in alike if info.rank < group_rank)
        return [Worker(i, first + i, first_of_role + i, workers_in(infos), workers_in(alike)) for i in range(spec.local_world_size)]

    @prof
    def _initialize_workers(self, worker_group):
        """Meets the other agents and starts the workers."""
        self._rendezvous(worker_group)
        for local_rank, identity in self._start_workers(worker_group).items():
            worker_group.workers[local_rank].id = identity
        worker_group.state = WorkerState.HEALTHY

    @prof
    def _restart_workers(self, worker_group):
        """Ends the workers and starts new ones."""
        self._stop_workers(worker_group, is_restart=True)
        worker_group.state = WorkerState.STOPPED
        self._initialize_workers(worker_group)

    def _exit_barrier(self):
        """Waits until the workers of all agents have ended: one of the agents runs the store."""
        self._end_together(self._exit_barrier_timeout)

    def _end_together(self, limit):
        try:
            store_util.barrier(self._store, self._agents, _KEY + "ended", limit)
        except SignalException:
            raise
        except Exception as error:
            log.info("the agents have not waited for each other at the end: %s", error)

    def _give_up(self):
        """Tells the other agents that this one's workers fail too often, and gives them time to see it."""
        try:
            self._store.set(_KEY + "failed", b"1")
        except RuntimeError as error:
            log.info("the other agents are not told of a failure: %s", error)
        self._end_together(_SECONDS_TO_SEE)

    def _end_alone(self):
        """Counts this agent as ended, so that the other agents do not wait for it."""
        try:
            store_util._check_in(self._store, _KEY + "ended", self._agents)
        except RuntimeError as error:
            log.info("the other agents are not told of the end: %s", error)

    # --- the run ---
    def _end_workers(self, *death_sig):
        """Calls _shutdown.  Classes written for a torch whose _shutdown had no timeout get none."""
        parameters = inspect.signature(self._shutdown).parameters
        takes = "timeout" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        self._shutdown(*death_sig, **{"timeout": self._shutdown_timeout} if takes else {})

    @prof
    def run(self, role="default"):
        start, was_shut = time.monotonic(), False
        with _signals_raise():
            try:
                result = self._invoke_run(role)
                self._total_execution_time = int(time.monotonic() - start)
                self._record_metrics(result)
                self._record_worker_events(result)
                return result
            except RendezvousGracefulExitError as error:
                log.info("this host is not needed: %s", error)
            except SignalException as error:
                self._end_workers(error.sigval)
                was_shut = True
                raise
            except Exception:
                if self._agents > 1:
                    self._end_alone()
                raise
            finally:
                self._total_execution_time = int(time.monotonic() - start)
                if not was_shut:
                    self._end_workers()

    def _invoke_run(self, role="default"):
        group = self._worker_group
        self._initialize_workers(group)
        while True:
            time.sleep(group.spec.monitor_interval)
            result = self._monitor_workers(group)
            group.state = result.state
            if result.state == WorkerState.SUCCEEDED:
                self._exit_barrier()
                return result
            if result.state in (WorkerState.UNHEALTHY, WorkerState.FAILED):
                if self._remaining_restarts == 0:
                    self._stop_workers(group)
                    group.state = WorkerState.FAILED
                    if self._agents > 1:
                        self._give_up()
                    return result
                self._remaining_restarts -= 1
                self._restart_workers(group)
            elif result.state != WorkerState.HEALTHY:
                raise RuntimeError(f"[{group.spec.role}] Worker group in {result.state.name} state")
            elif group.spec.rdzv_handler.num_nodes_waiting() > 0:
                self._restart_workers(group)
            elif self._agents > 1 and self._store.check([_KEY + "failed"]):
                raise RuntimeError("workers of another node failed")

    # --- measurements and events ---
    def _record_metrics(self, group_results):
        failed = group_results.is_failed()
        again = self._remaining_restarts != self._worker_group.spec.max_restarts
        self._record_flakiness_metric(failed)
        for name, value in (("run_success_with_retries", not failed and again), ("run_success_no_retries", not failed and not again),
                            ("run_failed_with_retries", failed and again), ("run_failed_no_retries", failed and not again)):
            put_metric(f"workers.{self._worker_group.spec.role}.{name}", int(value))

    def _record_flakiness_metric(self, is_failed=False):
        """Records the restarts as a percentage of the allowed starts; 100 if the run failed."""
        most = self._worker_group.spec.max_restarts
        flakiness = 100.0 if is_failed else max(0.0, 100.0 - 100.0 * (self._remaining_restarts + 1) / (most + 1))
        put_metric(f"workers.{self._worker_group.spec.role}.flakiness", int(flakiness))

    def _record_worker_events(self, result):
        for worker in self._worker_group.workers:
            failure = result.failures.get(worker.global_rank)
            state = "FAILED" if failure else "SUCCEEDED" if not result.failures else "TERMINATED"
            error = json.dumps(failure.error_file_data) if failure else None
            events.record(self._construct_event(state, EventSource.WORKER, worker, error), self._worker_group.spec.event_log_handler)

    def get_event_succeeded(self):
        """Returns the event that the run succeeded."""
        return self._construct_event("SUCCEEDED", EventSource.AGENT)

    def get_event_failed(self):
        """Returns the event that the run failed, with the traceback of the exception that is handled."""
        return self._construct_event("FAILED", EventSource.AGENT, raw_error=traceback.format_exc())

    def _construct_event(self, state, source, worker=None, raw_error=None):
        group, spec = self._worker_group, self._worker_group.spec
        more = {"group_world_size": group.group_world_size, "entry_point": spec.get_entrypoint_name()}
        if worker:
            more.update(local_rank=[worker.local_rank], role_rank=[worker.role_rank], role_world_size=[worker.role_world_size])
        return events.Event(f"torchelastic.worker.status.{state}", EventSource(source), int(time.time()), {
            "run_id": spec.rdzv_handler.get_run_id(), "global_rank": worker.global_rank if worker else None,
            "group_rank": group.group_rank, "worker_id": str(worker.id) if worker else None, "role": spec.role,
            "hostname": _get_fq_hostname(), "state": state, "total_run_time": self._total_execution_time,
            "rdzv_backend": spec.rdzv_handler.get_backend(), "raw_error": raw_error, "metadata": json.dumps(more),
            "agent_restarts": spec.max_restarts - self._remaining_restarts})
