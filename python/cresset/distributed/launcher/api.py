"""elastic_launch(config, function)(*args) runs a function in processes and returns its values by rank."""
import sys
import uuid
from dataclasses import dataclass, field
from typing import Any, Optional

from ..elastic import metrics
from ..elastic._agent import Agent, Settings
from ..elastic.multiprocessing import DefaultLogsSpecs
from ..elastic.rendezvous import RendezvousParameters, get_rendezvous_handler

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
    virtual_local_rank: bool = False

    def __post_init__(self):
        if self.rdzv_timeout != -1:
            self.rdzv_configs["timeout"] = self.rdzv_timeout
        self.rdzv_configs.setdefault("timeout", 900)
        self.logs_specs = self.logs_specs or DefaultLogsSpecs()
        self.run_id = self.run_id or str(uuid.uuid4().int)


def _settings(config, entrypoint, args, env=None, name=None):
    """Returns an agent's settings."""
    parameters = RendezvousParameters(config.rdzv_backend, config.rdzv_endpoint, config.run_id, config.min_nodes, config.max_nodes,
                                      config.local_addr, **config.rdzv_configs)
    if name is None:
        name = entrypoint if isinstance(entrypoint, str) else getattr(entrypoint, "__qualname__", str(entrypoint))
    return Settings(entrypoint, args, config.nproc_per_node, get_rendezvous_handler(parameters), config.role, config.max_restarts,
                    config.monitor_interval, config.logs_specs, name, env or {}, config.start_method, config.event_log_handler,
                    config.virtual_local_rank, config.log_line_prefix_template)


def launch_agent(config, entrypoint, args, env=None, name=None):
    """Runs a function or a command.  Returns a function's values by rank; raises a ChildFailedError."""
    if not config.rdzv_endpoint and config.max_nodes == 1:
        config.rdzv_endpoint, config.rdzv_configs["is_host"] = "127.0.0.1:0", "1"
    metrics.initialize_metrics(metrics.MetricsConfig(config.metrics_cfg))
    settings = _settings(config, entrypoint, args, env, name)
    try:
        return Agent(settings).run()
    finally:
        settings.rendezvous.shutdown()


class elastic_launch:
    """A function, or a command, that runs in several processes when it is called."""

    def __init__(self, config, entrypoint):
        self._config, self._entrypoint = config, sys.executable if entrypoint is None else entrypoint

    def __call__(self, *args):
        return launch_agent(self._config, self._entrypoint, list(args))
