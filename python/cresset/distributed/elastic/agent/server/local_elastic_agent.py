"""An agent whose workers are processes of its host.  A worker dies with its agent, also when the agent is killed."""
import json
import logging
import os
import signal
import time
import uuid
from string import Template

from ... import timer
from ... import events
from ...events import EventSource
from ...metrics import prof
from ...multiprocessing import start_processes
from ...utils import macros
from .health_check_server import create_healthcheck_server
from .api import RunResult, SimpleElasticAgent, WorkerState

__all__ = ["LocalElasticAgent", "TORCHELASTIC_ENABLE_FILE_TIMER", "TORCHELASTIC_TIMER_FILE", "TORCHELASTIC_HEALTH_CHECK_PORT"]

logger = logging.getLogger(__name__)

TORCHELASTIC_ENABLE_FILE_TIMER = "TORCHELASTIC_ENABLE_FILE_TIMER"
TORCHELASTIC_TIMER_FILE = "TORCHELASTIC_TIMER_FILE"
TORCHELASTIC_HEALTH_CHECK_PORT = "TORCHELASTIC_HEALTH_CHECK_PORT"


class LocalElasticAgent(SimpleElasticAgent):
    """Runs a function, or a command, in processes.  `env` is added to their environments."""

    def __init__(self, spec, logs_specs, start_method="spawn", exit_barrier_timeout=300, log_line_prefix_template=None,
                 shutdown_timeout=30, env=None, health_check_server=None):
        super().__init__(spec, exit_barrier_timeout, shutdown_timeout)
        self._logs_specs, self._start_method, self._prefix, self._env = logs_specs, start_method, log_line_prefix_template, env or {}
        self._pcontext = self._worker_watchdog = None
        self._health_check_server = health_check_server

    # --- the watchdog ends workers that exceed a time limit which they have set ---
    def _setup_local_watchdog(self, envs):
        if os.environ.get(TORCHELASTIC_ENABLE_FILE_TIMER) != "1":
            return
        path = os.environ.get(TORCHELASTIC_TIMER_FILE) or f"/tmp/watchdog_timer_{uuid.uuid4()}"
        if self._worker_watchdog is None:
            self._worker_watchdog = timer.FileTimerServer(path, self._worker_group.spec.rdzv_handler.get_run_id(), daemon=True,
                                                          log_event=self._log_watchdog_event)
            self._worker_watchdog.start()
        for env in envs.values():
            env[TORCHELASTIC_TIMER_FILE] = self._worker_watchdog._file_path

    def _log_watchdog_event(self, name, request):
        spec = self._worker_group.spec
        about = {} if request is None else {"pid": request.worker_pid, "scope": request.scope_id, "expiration": request.expiration_time}
        events.record(events.Event(name, EventSource.AGENT, metadata={"run_id": spec.rdzv_handler.get_run_id(), "role": spec.role,
                                                                      "watchdog": json.dumps(about)}), spec.event_log_handler)

    def _setup_healthcheck(self):
        port = os.environ.get(TORCHELASTIC_HEALTH_CHECK_PORT)
        if port is None or self._health_check_server is not None:
            return
        if not port.isdecimal():
            logger.info("Invalid healthcheck port value: '%s', expecting integer. Not starting healthcheck server.", port)
            return
        self._health_check_server = create_healthcheck_server(self._last_seen, int(port), 60)
        self._health_check_server.start()

    def _last_seen(self):
        """Returns when the watchdog made progress, in seconds since the epoch; without one, now."""
        return int(time.time()) if self._worker_watchdog is None else self._worker_watchdog.get_last_progress_time()

    # --- workers ---
    def _environment(self, group, worker):
        spec = group.spec
        env = {**self._env, "LOCAL_RANK": 0 if spec.virtual_local_rank else worker.local_rank, "RANK": worker.global_rank,
               "GROUP_RANK": group.group_rank, "ROLE_RANK": worker.role_rank, "ROLE_NAME": spec.role,
               "LOCAL_WORLD_SIZE": spec.local_world_size, "WORLD_SIZE": worker.world_size,
               "GROUP_WORLD_SIZE": group.group_world_size, "ROLE_WORLD_SIZE": worker.role_world_size,
               "MASTER_ADDR": group.master_addr, "MASTER_PORT": group.master_port,
               "TORCHELASTIC_RESTART_COUNT": self._restart_count, "TORCHELASTIC_MAX_RESTARTS": spec.max_restarts,
               "TORCHELASTIC_RUN_ID": spec.rdzv_handler.get_run_id(),
               "TORCHELASTIC_USE_AGENT_STORE": spec.rdzv_handler.use_agent_store,
               "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", 1)}
        return {name: str(value) for name, value in env.items()}

    def _prefix_of(self, group, worker):
        """Returns the prefix of a worker's printed lines."""
        return Template(self._prefix or "[${role_name}${rank}]:").safe_substitute(
            role_name=group.spec.role, rank=worker.global_rank, local_rank=worker.local_rank)

    @prof
    def _start_workers(self, worker_group):
        spec, workers = worker_group.spec, worker_group.workers
        envs = {w.local_rank: self._environment(worker_group, w) for w in workers}
        self._setup_local_watchdog(envs)
        self._setup_healthcheck()
        self._pcontext = start_processes(
            spec.role, spec.entrypoint, {w.local_rank: tuple(macros.substitute(spec.args, str(w.local_rank))) for w in workers}, envs,
            self._logs_specs, {w.local_rank: self._prefix_of(worker_group, w) for w in workers}, self._start_method,
            spec.numa_options, spec.duplicate_stdout_filters, spec.duplicate_stderr_filters)
        return self._pcontext.pids()

    @prof
    def _stop_workers(self, worker_group, is_restart=False):
        self._close_workers(timeout=self._shutdown_timeout)

    def _close_workers(self, death_sig=signal.SIGTERM, timeout=30):
        if self._pcontext is not None:
            self._pcontext.close(death_sig, timeout)
            self._pcontext = None

    @prof
    def _monitor_workers(self, worker_group):
        pids = self._pcontext.pids()
        if {w.id for w in worker_group.workers} != set(pids.values()):
            return RunResult(WorkerState.UNKNOWN)
        result = self._pcontext.wait(0)
        if result is None:
            return RunResult(WorkerState.HEALTHY)
        ranks = {w.local_rank: w.global_rank for w in worker_group.workers}
        if result.is_failed():
            return RunResult(WorkerState.FAILED, failures={ranks[r]: failure for r, failure in result.failures.items()})
        return RunResult(WorkerState.SUCCEEDED, {ranks[r]: value for r, value in result.return_values.items()})

    def _shutdown(self, death_sig=signal.SIGTERM, timeout=30):
        try:
            self._close_workers(death_sig, timeout)  # first: workers that save at their end may set limits
        finally:
            if self._worker_watchdog is not None:
                self._worker_watchdog.stop()
                self._worker_watchdog = None
            if self._health_check_server is not None:
                self._health_check_server.stop()
                self._health_check_server = None
