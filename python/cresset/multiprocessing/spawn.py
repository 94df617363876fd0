"""Starting processes and waiting for them, with their exceptions."""
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"

__all__ = ["ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException",
           "spawn", "SpawnContext", "start_processes"]


class ProcessException(Exception):
    """A process that start_processes started has failed."""

    __slots__ = ["error_index", "error_pid"]

    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.pid = self.error_pid = pid

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The process's function raised an exception."""

    def __init__(self, msg, error_index, error_pid):
        super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """The process ended by a signal or with an exit code."""

    __slots__ = ["exit_code"]

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self):
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _wrap(fn, i, args, error_file):
    """Runs in the new process; writes the traceback of an exception to a file."""
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent was interrupted, too
    except Exception:
        import traceback
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes, error_files):
        self.error_files = error_files
        self.processes = processes
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self):
        return [int(process.pid) for process in self.processes]

    def _stop_others(self, grace_period):
        """Ends the other processes: by SIGTERM, after `grace_period` seconds by SIGKILL."""
        end = time.monotonic() + (grace_period if grace_period is not None else 30)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(max(0, end - time.monotonic()))
        for process in self.processes:
            if process.is_alive():
                warnings.warn("Unable to shutdown process via SIGTERM , force exiting the process via SIGKILL",
                              stacklevel=3)
                process.kill()
            process.join()

    def join(self, timeout=None, grace_period=None):
        """Waits until a process ends.  Returns whether all have ended without an error.

        After an error the other processes are ended, and the error is raised.
        """
        if not self.sentinels:
            return True
        failed = None
        for sentinel in multiprocessing.connection.wait(self.sentinels.keys(), timeout=timeout):
            index = self.sentinels.pop(sentinel)
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                failed = index
                break
        if failed is None:
            return not self.sentinels
        self._stop_others(grace_period)
        raise self._failure(failed)

    def _failure(self, index):
        """Returns the exception of a failed process."""
        process, path = self.processes[index], self.error_files[index]
        if os.access(path, os.R_OK):
            with open(path, "rb") as file:
                original = pickle.load(file)
            os.unlink(path)
            text = f"\n\n-- Process {index} terminated with the following error:\n{original}"
            return ProcessRaisedException(text, index, process.pid)
        code = process.exitcode
        if code < 0:
            try:
                name = signal.Signals(-code).name
            except ValueError:
                name = f"<Unknown signal {-code}>"
            return ProcessExitedException(f"process {index} terminated with signal {name}", index, process.pid,
                                          code, name)
        return ProcessExitedException(f"process {index} terminated with exit code {code}", index, process.pid, code)


class SpawnContext(ProcessContext):
    """Processes that `spawn` started."""


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Runs fn(i, *args) in processes i = 0, 1, ...; waits for them or returns their context.  With the start method forkserver
    and TORCH_MP_PARALLEL_START=1 in the environment they start at one time."""
    context = multiprocessing.get_context(start_method)
    from . import init_reductions  # so that arguments share their memory
    init_reductions()

    def start(i):
        # A name of a file that only a failing process makes.
        handle, path = tempfile.mkstemp(prefix="pytorch-errorfile-", suffix=".pickle")
        os.close(handle)
        os.unlink(path)
        process = context.Process(target=_wrap, args=(fn, i, args, path), daemon=daemon)
        process.start()
        return process, path
    if start_method == "forkserver" and os.environ.get(ENV_VAR_PARALLEL_START, "0") == "1" and nprocs:
        with ThreadPoolExecutor(nprocs) as pool:
            made = list(pool.map(start, range(nprocs)))
    else:
        made = [start(i) for i in range(nprocs)]
    started = ProcessContext([process for process, _ in made], [path for _, path in made])
    if not join:
        return started
    while not started.join():
        pass


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """start_processes with new interpreters."""
    if start_method != "spawn":
        warnings.warn(f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different "
                      "start_method use:\n\t\t torch.multiprocessing.start_processes(...)", FutureWarning,
                      stacklevel=2)
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
