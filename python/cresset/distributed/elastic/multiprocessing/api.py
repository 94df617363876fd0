"""Processes by local rank: started together, watched, and ended together, with the processes that they started."""
import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import IntFlag

from ....multiprocessing import get_context
from ....numa import binding
from .errors import ProcessFailure, record
from .redirects import redirect
from .tail_log import TailLog

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "MultiprocessContext", "PContext", "RunProcsResult", "SignalException",
           "Std", "SubprocessContext", "start_processes", "to_map"]

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1


class SignalException(Exception):
    """This process got a signal."""

    def __init__(self, msg, sigval):
        super().__init__(msg)
        self.sigval = sigval


class Std(IntFlag):
    """Streams of a process."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = OUT | ERR

    @classmethod
    def from_str(cls, vm):
        """Reads "0" to "3", or RANK:N,..."""
        if re.fullmatch(r"[0-3]", vm):
            return cls(int(vm))
        if re.fullmatch(r"\d+:[0-3](,\d+:[0-3])*", vm):
            return {int(rank): cls(int(n)) for rank, n in (pair.split(":") for pair in vm.split(","))}
        raise ValueError(f"{vm} does not match: <^\\d:[0123],)*\\d:[0123]$> or <^[0123]$>")


def to_map(val_or_map, local_world_size):
    """Returns a Std for each local rank; NONE where a dict has none."""
    if isinstance(val_or_map, Std):
        return dict.fromkeys(range(local_world_size), val_or_map)
    return {i: val_or_map.get(i, Std.NONE) for i in range(local_world_size)}


# --- files ---------------------------------------------------------------------------------------------------------

@dataclass
class LogsDest:
    """Files by local rank: of output, of output that is printed as well, of errors.  "" is no file."""

    stdouts: dict = field(default_factory=dict)
    stderrs: dict = field(default_factory=dict)
    tee_stdouts: dict = field(default_factory=dict)
    tee_stderrs: dict = field(default_factory=dict)
    error_files: dict = field(default_factory=dict)
    filtered_stdout: str = ""  # files of all ranks' lines that match a filter
    filtered_stderr: str = ""


class LogsSpecs(ABC):
    """Says which files the processes of a run have."""

    def __init__(self, log_dir=None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        self._root_log_dir, self._redirects, self._tee, self._local_ranks_filter = log_dir, redirects, tee, local_ranks_filter

    @property
    @abstractmethod
    def root_log_dir(self):
        """The folder of all files."""

    @abstractmethod
    def reify(self, envs):
        """Returns the LogsDest of processes with these environments."""


class DefaultLogsSpecs(LogsSpecs):
    """Files LOG_DIR/RUN_x/attempt_N/LOCAL_RANK/stdout.log, stderr.log, error.json, and beside these folders filtered_stdout.log
    and filtered_stderr.log, where x is new for each object.  Without a LOG_DIR they are temporary; with /dev/null there are
    none."""

    def __init__(self, log_dir=None, redirects=Std.NONE, tee=Std.NONE, local_ranks_filter=None):
        if log_dir and log_dir != os.devnull and os.path.exists(log_dir) and not os.path.isdir(log_dir):
            raise NotADirectoryError(f"log_dir: {log_dir} is a file")
        super().__init__(log_dir or tempfile.mkdtemp(prefix="torchelastic_"), redirects, tee, local_ranks_filter)
        self._temporary, self._run_folder = not log_dir, ""

    @property
    def root_log_dir(self):
        return self._root_log_dir

    def remove(self):
        """Removes temporary files."""
        if self._temporary:
            shutil.rmtree(self._root_log_dir, ignore_errors=True)

    def _attempt(self, env):
        """Returns the empty folder of a run's attempt."""
        if not self._run_folder:
            os.makedirs(self._root_log_dir, exist_ok=True)
            self._run_folder = tempfile.mkdtemp(prefix=f"{env.get('TORCHELASTIC_RUN_ID', 'test_run_id')}_", dir=self._root_log_dir)
        folder = os.path.join(self._run_folder, f"attempt_{env.get('TORCHELASTIC_RESTART_COUNT', '0')}")
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        return folder

    def reify(self, envs):
        dest, n = LogsDest(), len(envs)
        if self._root_log_dir == os.devnull:
            nothing = dict.fromkeys(range(n), os.devnull)
            for env in envs.values():
                env["TORCHELASTIC_ERROR_FILE"] = ""
            return LogsDest(dict.fromkeys(range(n), ""), dict.fromkeys(range(n), ""), nothing, dict(nothing), dict(nothing),
                            os.devnull, os.devnull)
        redirects, tee, shown = to_map(self._redirects, n), to_map(self._tee, n), self._local_ranks_filter
        attempt = self._attempt(next(iter(envs.values()), {}))
        for rank in envs:
            folder = os.path.join(attempt, str(rank))
            os.mkdir(folder)
            hidden = shown is not None and rank not in shown
            for bit, files, tees, name in ((Std.OUT, dest.stdouts, dest.tee_stdouts, "stdout.log"),
                                           (Std.ERR, dest.stderrs, dest.tee_stderrs, "stderr.log")):
                path = os.path.join(folder, name)
                files[rank] = path if hidden or (redirects[rank] | tee[rank]) & bit else ""
                if tee[rank] & bit and not hidden:
                    tees[rank] = path
            dest.error_files[rank] = os.path.join(folder, "error.json")
        dest.filtered_stdout, dest.filtered_stderr = (os.path.join(attempt, f"filtered_{name}.log") for name in ("stdout", "stderr"))
        return dest


# --- processes -----------------------------------------------------------------------------------------------------

@dataclass
class RunProcsResult:
    """What processes returned, or how they failed; and their files."""

    return_values: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)
    stdouts: dict = field(default_factory=dict)
    stderrs: dict = field(default_factory=dict)

    def is_failed(self):
        """Returns whether a process failed."""
        return bool(self.failures)


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class PContext(ABC):
    """Processes that run one function, or one command, with arguments and environments by local rank."""

    def __init__(self, name, entrypoint, args, envs, logs_specs, log_line_prefixes=None, duplicate_stdout_filters=None,
                 duplicate_stderr_filters=None):
        self.name, self.entrypoint, self.args, self.nprocs = name, entrypoint, args, len(args)
        _validate_full_rank(args, self.nprocs, "args")
        _validate_full_rank(envs, self.nprocs, "envs")
        self.dest = logs_specs.reify(envs)
        self.stdouts, self.stderrs, self.error_files = self.dest.stdouts, self.dest.stderrs, self.dest.error_files
        self._processes, self._closed = {}, False
        files = {rank: "" if path == os.devnull else path for rank, path in self.error_files.items()}
        self.envs = {rank: {**env, "TORCHELASTIC_ERROR_FILE": files[rank]} for rank, env in envs.items()}
        self._filtered = ExitStack()
        self._tails = [TailLog(name, self.dest.tee_stdouts, sys.stdout, log_line_prefixes),
                       TailLog(name, self.dest.tee_stderrs, sys.stderr, log_line_prefixes)]
        for filters, sources, path in ((duplicate_stdout_filters, self.dest.tee_stdouts, self.dest.filtered_stdout),
                                       (duplicate_stderr_filters, self.dest.tee_stderrs, self.dest.filtered_stderr)):
            if filters:
                file = self._filtered.enter_context(open(path, "w", errors="replace", buffering=1))
                self._tails.append(TailLog(name, sources, file, log_line_prefixes,
                                           log_line_filter=lambda line, filters=filters: any(text in line for text in filters)))

    def start(self):
        """Starts the processes."""
        for tail in self._tails:
            tail.start()
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _start(self):
        """Starts the processes."""

    @abstractmethod
    def _exitcodes(self):
        """Returns exit codes by local rank; None for a process that runs."""

    @abstractmethod
    def pids(self):
        """Returns process numbers by local rank."""

    @abstractmethod
    def _reap(self, rank, limit):
        """Waits for a process, for some seconds."""

    def _return_values(self):
        return dict.fromkeys(range(self.nprocs))

    def _poll(self):
        """Returns the result when all processes have ended well or one has failed."""
        codes, pids = self._exitcodes(), self.pids()
        failures = {rank: ProcessFailure(rank, pids[rank], code, self.dest.error_files[rank]) for rank, code in codes.items() if code}
        if not failures and any(code is None for code in codes.values()):
            return None
        result = RunProcsResult({}, failures, self.dest.stdouts, self.dest.stderrs)
        if not failures:
            result.return_values = self._return_values()
        self.close()
        return result

    def wait(self, timeout=-1, period=1):
        """Waits until all processes have ended well or one has failed, which ends the others.  None after `timeout` seconds."""
        end = time.monotonic() + timeout if timeout >= 0 else float("inf")
        while True:
            result = self._poll()
            if result is not None or time.monotonic() > end:
                return result
            time.sleep(min(period, max(0.0, end - time.monotonic())))

    def _signal(self, number):
        for pid in self.pids().values():
            try:
                os.killpg(pid, number)
            except ProcessLookupError:
                pass

    def close(self, death_sig=signal.SIGTERM, timeout=15):
        """Ends the processes and those that they started: by a signal, then by force.  Stopped ones are continued.  A second
        call does nothing: other processes may have the numbers by then."""
        if self._closed:
            return
        self._signal(death_sig)
        self._signal(signal.SIGCONT)
        end = time.monotonic() + timeout
        for rank in self.pids():
            self._reap(rank, max(0.0, end - time.monotonic()))
        self._signal(signal.SIGKILL)
        for rank in self.pids():
            self._reap(rank, None)
        self._closed = True
        for tail in self._tails:
            if not tail.stopped():
                tail.stop()
        self._filtered.close()


def _validate_full_rank(d, nprocs, what):
    """RuntimeError unless a dict has the keys 0 to nprocs - 1."""
    if set(d) != set(range(nprocs)):
        raise RuntimeError(f"{what}, local rank mapping mismatch, expected: {set(range(nprocs))}, actual: {set(d)}")


class SubprocessContext(PContext):
    """Processes that run a command."""

    def __init__(self, name, entrypoint, args, envs, logs_specs, log_line_prefixes=None, numa_options=None,
                 duplicate_stdout_filters=None, duplicate_stderr_filters=None):
        super().__init__(name, entrypoint, args, envs, logs_specs, log_line_prefixes, duplicate_stdout_filters,
                         duplicate_stderr_filters)
        self._numa_options = numa_options

    def _start(self):
        with ExitStack() as files:
            for rank in range(self.nprocs):
                out, err = (files.enter_context(open(path, "ab")) if path else None
                            for path in (self.dest.stdouts[rank], self.dest.stderrs[rank]))
                command = [self.entrypoint, *map(str, self.args[rank])]
                with binding.bound(self._numa_options, rank, self.nprocs):
                    self._processes[rank] = subprocess.Popen(command, env={**os.environ, **self.envs[rank]}, stdout=out, stderr=err,
                                                             preexec_fn=_die_with_parent, start_new_session=True)

    def _exitcodes(self):
        return {rank: p.poll() for rank, p in self._processes.items()}

    def pids(self):
        return {rank: p.pid for rank, p in self._processes.items()}

    def _reap(self, rank, limit):
        try:
            self._processes[rank].wait(limit)
        except subprocess.TimeoutExpired:
            pass


def _call(entrypoint, args, env, stdout, stderr):
    """Returns a function's value in an environment; its output goes to files, where they are named."""
    os.environ.update(env)
    with ExitStack() as files:
        for std, path in (("stdout", stdout), ("stderr", stderr)):
            if path:
                files.enter_context(redirect(std, path))
        return record(entrypoint)(*args)


def _wrap(local_rank, fn, args, envs, stdout_redirects, stderr_redirects, ret_vals, queue_finished_reading_event,
          numa_options=None):
    """Calls a local rank's function, puts its value into the rank's queue, and waits until that has been read."""
    if numa_options is not None:
        binding.bind(numa_options, local_rank, len(args))
    ret_vals[local_rank].put(_call(fn, args[local_rank], envs[local_rank], stdout_redirects[local_rank], stderr_redirects[local_rank]))
    queue_finished_reading_event.wait()


def _run_function(entrypoint, args, env, stdout, stderr, results, place):
    """Runs in the new process, on the processors that `place` tells."""
    os.setsid()
    _die_with_parent()
    binding.bind(*place)
    results.send(_call(entrypoint, args, env, stdout, stderr))


class MultiprocessContext(PContext):
    """Processes that run a function."""

    def __init__(self, name, entrypoint, args, envs, start_method, logs_specs, log_line_prefixes=None, numa_options=None,
                 duplicate_stdout_filters=None, duplicate_stderr_filters=None):
        super().__init__(name, entrypoint, args, envs, logs_specs, log_line_prefixes, duplicate_stdout_filters,
                         duplicate_stderr_filters)
        self.start_method, self._pipes, self._values, self._numa_options = start_method, {}, {}, numa_options

    def _start(self):
        context = get_context(self.start_method)
        for rank in range(self.nprocs):
            self._pipes[rank], end = context.Pipe(duplex=False)
            self._processes[rank] = context.Process(target=_run_function, name=f"{self.name}_{rank}", args=(
                self.entrypoint, self.args[rank], self.envs[rank], self.dest.stdouts[rank], self.dest.stderrs[rank], end,
                (self._numa_options, rank, self.nprocs)))
            self._processes[rank].start()
            end.close()

    def _exitcodes(self):
        codes = {rank: p.exitcode for rank, p in self._processes.items()}  # first: a process sends its value before it ends
        for rank, pipe in self._pipes.items():  # a process that returns much ends when it has been read
            try:
                if rank not in self._values and pipe.poll():
                    self._values[rank] = pipe.recv()
            except (EOFError, OSError):  # it ended before its value was complete
                pass
        return codes

    def _return_values(self):
        return dict(self._values)

    def pids(self):
        return {rank: p.pid for rank, p in self._processes.items()}

    def _signal(self, number):
        for p in self._processes.values():  # a process leads a session once it runs its function
            try:
                os.killpg(p.pid, number)
            except ProcessLookupError:
                if p.is_alive():
                    os.kill(p.pid, number)

    def _reap(self, rank, limit):
        self._processes[rank].join(limit)


def start_processes(name, entrypoint, args, envs, logs_specs, log_line_prefixes=None, start_method="spawn", numa_options=None,
                    duplicate_stdout_filters=None, duplicate_stderr_filters=None):
    """Starts a process for each key 0, 1, ... of args and envs: a function, or a command, with its arguments.

    Lines of printed output that have one of the filters' texts are written to a file of all processes as well.
    """
    more = log_line_prefixes, numa_options, duplicate_stdout_filters, duplicate_stderr_filters
    if isinstance(entrypoint, str):
        context = SubprocessContext(name, entrypoint, args, envs, logs_specs, *more)
    else:
        context = MultiprocessContext(name, entrypoint, args, envs, start_method, logs_specs, *more)
    context.start()
    return context
