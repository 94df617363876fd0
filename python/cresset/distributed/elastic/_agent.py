"""The launcher's agent of one host: starts workers, watches them, restarts all after a failure.

Agents of several hosts meet by a handler of rendezvous.  A round is one start of all workers; an agent whose worker fails
asks all agents for the next round.  A worker dies with its agent, also when the agent is killed.
"""
import logging
import os
import signal
import socket
import threading
import time
from dataclasses import dataclass, field
from string import Template

from .. import PrefixStore
from . import events
from .multiprocessing import DefaultLogsSpecs, SignalException, start_processes
from .multiprocessing.errors import ChildFailedError
from .utils import macros


@dataclass
class Settings:
    """The program, its processes, and how hosts meet."""

    entrypoint: object  # a command or a function
    args: list
    nproc: int
    rendezvous: object  # a RendezvousHandler
    role: str = "default"
    max_restarts: int = 0
    monitor_interval: float = 0.1
    logs: object = None  # a LogsSpecs
    name: str = "script"
    env: dict = field(default_factory=dict)
    start_method: str = "spawn"
    event_handler: str = "null"
    virtual_local_rank: bool = False
    prefix: str | None = None  # a template of what stands before each printed line


class Agent:
    """Runs the workers of this host until they end, or fail too often."""

    def __init__(self, settings):
        self.s, self.workers, self.round, self.before = settings, None, 0, 0
        self.logs = settings.logs or DefaultLogsSpecs()

    def _key(self, name):
        return f"run/{self.s.rendezvous.get_run_id()}/{self.round}/{name}"

    def _meet(self):
        """Meets the other agents.  Returns (this agent's number, the number of agents, processes in all)."""
        info = self.s.rendezvous.next_rendezvous()
        self.store, self.nodes, self.address = info.store, info.world_size, info.bootstrap_store_info
        self.store.set(self._key(f"nproc/{info.rank}"), str(self.s.nproc))
        counts = [int(self.store.get(self._key(f"nproc/{i}"))) for i in range(self.nodes)]
        self.before = sum(counts[:info.rank])
        if self.address is None:
            from .rendezvous import RendezvousStoreInfo
            self.address = RendezvousStoreInfo.build(info.rank, PrefixStore(self._key("address"), self.store))
        return info.rank, sum(counts)

    # --- workers ---
    def _environment(self, local_rank, node, size):
        s = self.s
        rank = self.before + local_rank
        env = {**s.env, "LOCAL_RANK": 0 if s.virtual_local_rank else local_rank, "RANK": rank, "GROUP_RANK": node,
               "ROLE_RANK": rank, "ROLE_NAME": s.role, "LOCAL_WORLD_SIZE": s.nproc, "WORLD_SIZE": size,
               "GROUP_WORLD_SIZE": self.nodes, "ROLE_WORLD_SIZE": size, "MASTER_ADDR": self.address.master_addr,
               "MASTER_PORT": self.address.master_port, "TORCHELASTIC_RESTART_COUNT": self.round,
               "TORCHELASTIC_MAX_RESTARTS": s.max_restarts, "TORCHELASTIC_RUN_ID": s.rendezvous.get_run_id(),
               "TORCHELASTIC_USE_AGENT_STORE": s.rendezvous.use_agent_store}
        if "TORCH_NCCL_ASYNC_ERROR_HANDLING" not in os.environ:
            env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = 1
        return {name: str(value) for name, value in env.items()}

    def _prefix(self, local_rank):
        """Returns what stands before each printed line of a worker."""
        rank = self.before + local_rank
        return Template(self.s.prefix or "[${role_name}${rank}]:").safe_substitute(
            role_name=self.s.role, rank=rank, local_rank=local_rank)

    def _start(self):
        node, size = self._meet()
        ranks, s = range(self.s.nproc), self.s
        self.workers = start_processes(
            s.name, s.entrypoint, {r: tuple(macros.substitute(s.args, str(r))) for r in ranks},
            {r: self._environment(r, node, size) for r in ranks}, self.logs,
            {r: self._prefix(r) for r in ranks}, s.start_method)

    def _watch(self):
        """Returns the workers' result, or None when another agent asks for the next round."""
        while True:
            result = self.workers.wait(1.0, self.s.monitor_interval)
            if result is not None and result.is_failed():
                self.store.set(self._key("failed"), b"1")
            if result is not None:
                return result
            if self.nodes > 1 and self.store.check([self._key("failed")]):
                return None

    def _leave(self):
        """Waits for the other agents at the run's end: one of them runs the store."""
        end = time.monotonic() + 300
        left = self.store.add(self._key("left"), 1)
        while left < self.nodes and getattr(self.s.rendezvous, "is_host", False) and time.monotonic() < end:
            if self.store.check([self._key("failed")]):
                break
            time.sleep(0.1)
            left = self.store.add(self._key("left"), 0)

    def _tell(self, name, **metadata):
        events.record(events.Event(name, events.EventSource.AGENT, int(time.time()), {
            "run_id": self.s.rendezvous.get_run_id(), "role": self.s.role, "restarts": self.round, **metadata}), self.s.event_handler)

    def _rounds(self):
        """Returns the workers' result of the last round, and the failures by rank."""
        while True:
            self._start()
            self._tell("started")
            result = self._watch()
            if result is not None and not result.is_failed():
                return result, {}
            self.workers.close()
            failures = {self.before + r: f for r, f in result.failures.items()} if result else {}
            self._tell("failed", ranks=" ".join(map(str, failures)))
            if self.round >= self.s.max_restarts:
                return result, failures
            self.round += 1

    def run(self):
        """Runs the workers.  Returns the values of functions by rank.  Raises a ChildFailedError when workers fail more often
        than allowed."""
        def got_signal(number, frame):
            raise SignalException(f"Process {os.getpid()} got signal: {number}", signal.Signals(number))
        before = {}
        if threading.current_thread() is threading.main_thread():
            before = {n: signal.signal(n, got_signal) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)}
        else:
            logging.getLogger(__name__).warning("signals are not passed on to workers: the agent runs outside of the main thread")
        death_signal = signal.SIGTERM
        try:
            result, failures = self._rounds()
            if failures:
                raise ChildFailedError(self.s.name, failures)
            if result is None:
                raise RuntimeError("workers of another node failed")
            self._leave()
            self._tell("succeeded")
            return {self.before + r: value for r, value in result.return_values.items()}
        except SignalException as error:
            death_signal = error.sigval
            raise
        finally:
            if self.workers is not None:
                self.workers.close(death_signal)
            for number, handler in before.items():
                signal.signal(number, handler)
            if hasattr(self.logs, "remove"):
                self.logs.remove()


def free_port():
    """Returns a port of the loopback device that is free now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
