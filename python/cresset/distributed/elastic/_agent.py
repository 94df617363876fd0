"""The launcher's agent of one host: starts workers, watches them, restarts all after a failure.

Agents of several hosts meet at a store, which the first of them runs.  A round is one start of all workers; an agent
whose worker fails asks all agents for the next round.  A worker dies with its agent, also when the agent is killed.
"""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta

from .._stores import TCPStore
from .multiprocessing.errors import ChildFailedError, ProcessFailure

_KILL_AFTER = 15.0
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class SignalException(Exception):
    """The agent got a signal."""

    def __init__(self, message, sigval):
        super().__init__(message)
        self.sigval = sigval


@dataclass
class Settings:
    """What torchrun's arguments say."""

    command: list
    nproc: int
    min_nodes: int = 1
    max_nodes: int = 1
    node_rank: int = 0
    run_id: str = "none"
    role: str = "default"
    host: str = "127.0.0.1"
    port: int = 0
    runs_store: bool = True
    master_addr: str = "127.0.0.1"
    max_restarts: int = 0
    monitor_interval: float = 0.1
    join_timeout: float = 600.0
    last_call: float = 30.0
    log_dir: str | None = None
    redirects: dict = field(default_factory=dict)  # local rank: 1 stdout, 2 stderr, 3 both go to files
    tee: dict = field(default_factory=dict)
    shown: set | None = None  # local ranks whose output is printed; None: all
    name: str = "script"
    env: dict = field(default_factory=dict)
    virtual_local_rank: bool = False


def _die_with_parent():
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class _Worker:
    """A process of the run."""

    def __init__(self, local_rank, rank, command, env, files, tee):
        self.local_rank, self.rank, self.error_file = local_rank, rank, env["TORCHELASTIC_ERROR_FILE"]
        opened = {name: open(path, "ab") for name, path in files.items()}
        self.copiers = []
        targets = {name: subprocess.PIPE if name in tee else opened.get(name) for name in ("stdout", "stderr")}
        self.process = subprocess.Popen(command, env=env, stdout=targets["stdout"], stderr=targets["stderr"],
                                        preexec_fn=_die_with_parent, start_new_session=True)
        for name, prefix in tee.items():
            copier = threading.Thread(target=self._copy, args=(getattr(self.process, name), opened.get(name), name, prefix),
                                      daemon=True)
            copier.start()
            self.copiers.append(copier)
        for name, file in opened.items():
            if name not in tee:
                file.close()

    @staticmethod
    def _copy(pipe, file, name, prefix):
        out = getattr(sys, name)
        for line in pipe:
            if file is not None:
                file.write(line)
                file.flush()
            out.write(prefix + line.decode(errors="replace"))
            out.flush()
        if file is not None:
            file.close()

    def signal(self, number):
        """Sends a signal to the worker and to the processes that it started."""
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


class Agent:
    """Runs the workers of this host until they end, or fail too often."""

    def __init__(self, settings):
        self.s, self.workers, self.round = settings, [], 0
        self.store = None
        self.logs = settings.log_dir or tempfile.mkdtemp(prefix="torchelastic_")
        self.remove_logs = settings.log_dir is None

    # --- meeting ---
    def _connect(self):
        s = self.s
        limit = timedelta(seconds=s.join_timeout)
        if s.runs_store:
            try:
                self.store = TCPStore(s.host, s.port, None, True, limit, False)
            except RuntimeError:
                if s.max_nodes == 1:
                    raise
                s.runs_store = False
        if self.store is None:  # another agent of this host has the port
            self.store = TCPStore(s.host, s.port, None, False, limit, False)
        s.port = self.store.port

    def _join(self):
        """Joins the round.  Returns (this agent's number, the number of agents, processes before, in all)."""
        s, key = self.s, f"run/{self.s.run_id}/{self.round}"
        number = self.store.add(f"{key}/joined", 1) - 1
        self.store.set(f"{key}/nproc/{number}", str(s.nproc))
        if number == 0:
            end = time.monotonic() + s.join_timeout
            enough = None
            while True:
                joined = self.store.add(f"{key}/joined", 0)
                now = time.monotonic()
                if joined >= s.min_nodes and enough is None:
                    enough = now
                if joined >= s.max_nodes or (enough is not None and now - enough > s.last_call):
                    break
                if now > end:
                    raise RuntimeError(f"{joined} of {s.min_nodes} nodes have joined after {s.join_timeout:.0f} s")
                time.sleep(0.02)
            self.store.set(f"{key}/nodes", str(min(joined, s.max_nodes)))
        self.store.wait([f"{key}/nodes"], timedelta(seconds=s.join_timeout))
        nodes = int(self.store.get(f"{key}/nodes"))
        if number >= nodes:
            raise RuntimeError(f"the run {s.run_id} has {nodes} nodes already")
        counts = [int(n) for n in self.store.multi_get([f"{key}/nproc/{i}" for i in range(nodes)])]
        return number, nodes, sum(counts[:number]), sum(counts)

    # --- workers ---
    def _environment(self, local_rank, node, nodes, before, size, error_file):
        s = self.s
        rank = before + local_rank
        env = {**os.environ, **s.env, "LOCAL_RANK": local_rank, "RANK": rank, "GROUP_RANK": node, "ROLE_RANK": rank,
               "ROLE_NAME": s.role, "LOCAL_WORLD_SIZE": s.nproc, "WORLD_SIZE": size, "GROUP_WORLD_SIZE": nodes,
               "ROLE_WORLD_SIZE": size, "MASTER_ADDR": s.master_addr, "MASTER_PORT": s.port,
               "TORCHELASTIC_RESTART_COUNT": self.round, "TORCHELASTIC_MAX_RESTARTS": s.max_restarts,
               "TORCHELASTIC_RUN_ID": s.run_id, "TORCHELASTIC_USE_AGENT_STORE": "True",
               "TORCHELASTIC_ERROR_FILE": error_file}
        env.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
        return {name: str(value) for name, value in env.items()}

    def _start(self):
        node, nodes, before, size = self._join()
        s = self.s
        for local_rank in range(s.nproc):
            folder = os.path.join(self.logs, s.run_id, f"attempt_{self.round}", str(local_rank))
            os.makedirs(folder, exist_ok=True)
            env = self._environment(local_rank, node, nodes, before, size, os.path.join(folder, "error.json"))
            if s.virtual_local_rank:
                env["LOCAL_RANK"] = "0"
            kept = s.redirects.get(local_rank, 0) | s.tee.get(local_rank, 0)
            if s.shown is not None and local_rank not in s.shown:
                kept = 3
            names = [(1, "stdout"), (2, "stderr")]
            files = {name: os.path.join(folder, f"{name}.log") for bit, name in names if kept & bit}
            tee = {name: f"[{s.role}{before + local_rank}]:" for bit, name in names if s.tee.get(local_rank, 0) & bit
                   and (s.shown is None or local_rank in s.shown)}
            command = [part.replace("${local_rank}", str(local_rank)) for part in s.command]
            self.workers.append(_Worker(local_rank, before + local_rank, command, env, files, tee))

    def stop(self, number=signal.SIGTERM):
        """Ends all workers: by a signal, then by force.  Workers that are stopped are continued."""
        for worker in self.workers:
            worker.signal(number)
            worker.signal(signal.SIGCONT)
        end = time.monotonic() + _KILL_AFTER
        for worker in self.workers:
            try:
                worker.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                pass
            worker.signal(signal.SIGKILL)
            worker.process.wait()
            for copier in worker.copiers:
                copier.join(1.0)

    def _watch(self):
        """Returns the failures of the round ({} at its good end), or None when another agent asks for the next."""
        next_round = f"run/{self.s.run_id}/{self.round}/failed"
        last_look = time.monotonic()
        while True:
            codes = [worker.process.poll() for worker in self.workers]
            failed = [w for w, code in zip(self.workers, codes) if code]
            if failed:
                self.store.set(next_round, b"1")
                return {w.rank: ProcessFailure(w.local_rank, w.process.pid, w.process.returncode, w.error_file)
                        for w in failed}
            if all(code == 0 for code in codes):
                for worker in self.workers:
                    for copier in worker.copiers:
                        copier.join(5.0)
                return {}
            if self.s.max_nodes > 1 and time.monotonic() - last_look > 1.0:
                last_look = time.monotonic()
                if self.store.check([next_round]):
                    return None
            time.sleep(self.s.monitor_interval)

    def _leave(self):
        """Waits for the other agents at the run's end: one of them runs the store."""
        if self.s.max_nodes == 1:
            return
        key = f"run/{self.s.run_id}/{self.round}"
        nodes = int(self.store.get(f"{key}/nodes"))
        self.store.add(f"{key}/left", 1)
        end = time.monotonic() + 300
        while self.s.runs_store and self.store.add(f"{key}/left", 0) < nodes and time.monotonic() < end:
            if self.store.check([f"{key}/failed"]):
                break
            time.sleep(0.1)

    def run(self):
        """Runs the workers.  Raises a ChildFailedError when they fail more often than allowed."""
        def got_signal(number, frame):
            raise SignalException(f"Process {os.getpid()} got signal: {number}", signal.Signals(number))
        before = {n: signal.signal(n, got_signal) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)}
        try:
            self._connect()
            while True:
                self._start()
                failures = self._watch()
                if failures == {}:
                    self._leave()
                    return
                self.stop()
                self.workers = []
                if self.round >= self.s.max_restarts:
                    raise ChildFailedError(self.s.name, failures) if failures else RuntimeError(
                        "workers of another node failed")
                self.round += 1
        except SignalException as error:
            self.stop(error.sigval)
            raise
        finally:
            self.stop(signal.SIGKILL) if any(w.process.poll() is None for w in self.workers) else None
            for number, handler in before.items():
                signal.signal(number, handler)
            if self.remove_logs:
                shutil.rmtree(self.logs, ignore_errors=True)


def free_port():
    """Returns a port of the loopback device that is free now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
