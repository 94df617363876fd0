"""elastic_launch(config, function)(*args) runs a function in processes and returns its values by rank."""
import os
import sys
import uuid
from dataclasses import dataclass, field
from typing import Any, Optional

from ..elastic import events, metrics
from ..elastic.agent.server import LocalElasticAgent, WorkerSpec
from ..elastic.multiprocessing import DefaultLogsSpecs, SignalException
from ..elastic.multiprocessing.errors import ChildFailedError
from ..elastic.rendezvous import RendezvousParameters, registry

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]


@dataclass
class LaunchConfig:
    """How a run's processes are started and watched."""

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    logs_specs: Any = None
    run_id: str = ""
    role: str = "default_role"
    rdzv_endpoint: str = ""
    rdzv_backend: str = "c10d"
    rdzv_configs: dict = field(default_factory=dict)
    rdzv_timeout: int = -1
    max_restarts: int = 3
    monitor_interval: float = 0.1
    start_method: str = "spawn"
    log_line_prefix_template: Optional[str] = None
    metrics_cfg: dict = field(default_factory=dict)
    local_addr: Optional[str] = None
    event_log_handler: str = "null"
    numa_options: Any = None
    signals_to_handle: str = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
    duplicate_stdout_filters: Optional[list] = None  # texts of lines that are written to filtered_stdout.log
    duplicate_stderr_filters: Optional[list] = None
    virtual_local_rank: bool = False
    shutdown_timeout: Optional[int] = None  # seconds in which workers end themselves

    def __post_init__(self):
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", 900)
        self.logs_specs = self.logs_specs or DefaultLogsSpecs()
        if self.shutdown_timeout is None:
            self.shutdown_timeout = int(os.environ.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "30"))
        if self.shutdown_timeout < 0:
            raise ValueError(f"shutdown_timeout must be non-negative, got {self.shutdown_timeout}")
        self.run_id = self.run_id or str(uuid.uuid4().int)


def _get_entrypoint_name(entrypoint, args):
    """Returns the name of a function, the text of another object that is called, or the script of a command; "" where there is none."""
    if callable(entrypoint):
        return getattr(entrypoint, "__name__", str(entrypoint))
    if entrypoint == sys.executable:
        return next((a for a in map(str, args) if a[:1] != "-"), "")
    return entrypoint or ""


def _spec(config, entrypoint, args):
    """Returns what an agent runs."""
    parameters = RendezvousParameters(config.rdzv_backend, config.rdzv_endpoint, config.run_id, config.min_nodes, config.max_nodes,
                                      config.local_addr, **config.rdzv_configs)
    return WorkerSpec(config.role, config.nproc_per_node, registry.get_rendezvous_handler(parameters), None, entrypoint, tuple(args),
                      config.max_restarts, config.monitor_interval, local_addr=config.local_addr,
                      event_log_handler=config.event_log_handler, numa_options=config.numa_options,
                      duplicate_stdout_filters=config.duplicate_stdout_filters, duplicate_stderr_filters=config.duplicate_stderr_filters,
                      virtual_local_rank=config.virtual_local_rank)


def launch_agent(config, entrypoint, args, env=None, name=None):
    """Runs a function or a command.  Returns a function's values by rank; raises a ChildFailedError.  A signal leaves the run
    open: its other hosts may go on."""
    if not config.rdzv_endpoint and config.max_nodes == 1:
        config.rdzv_endpoint, config.rdzv_configs["is_host"] = "127.0.0.1:0", "1"
    os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = config.signals_to_handle
    metrics.initialize_metrics(metrics.MetricsConfig(config.metrics_cfg))
    spec, ends = _spec(config, entrypoint, args), True
    agent = LocalElasticAgent(spec, config.logs_specs, config.start_method, log_line_prefix_template=config.log_line_prefix_template,
                              shutdown_timeout=config.shutdown_timeout, env=env)
    try:
        result = agent.run()
        if result is None:  # this host was not needed
            return None
        if result.is_failed():
            raise ChildFailedError(name or _get_entrypoint_name(entrypoint, args), result.failures)
        events.record(agent.get_event_succeeded(), config.event_log_handler)
        return result.return_values
    except Exception as error:
        ends = not isinstance(error, SignalException)
        events.record(agent.get_event_failed(), config.event_log_handler)
        raise
    finally:
        if ends:
            spec.rdzv_handler.shutdown()
        if hasattr(config.logs_specs, "remove"):
            config.logs_specs.remove()


class elastic_launch:
    """A function, or a command, that runs in several processes when it is called."""

    def __init__(self, config, entrypoint):
        self._config, self._entrypoint = config, sys.executable if entrypoint is None else entrypoint

    def __call__(self, *args):
        return launch_agent(self._config, self._entrypoint, list(args))
