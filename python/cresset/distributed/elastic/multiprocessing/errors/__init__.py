"""Error files: a worker writes its exception where TORCHELASTIC_ERROR_FILE says, and the launcher shows it."""
import json
import os
import signal
import time
import traceback
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps

__all__ = ["ProcessFailure", "ChildFailedError", "record", "ErrorHandler", "get_error_handler"]


class ErrorHandler:
    """Writes an exception to the error file."""

    def initialize(self):
        """Prepares the process: prints Python's frames when it dies by a signal."""
        import faulthandler
        try:
            faulthandler.enable(all_threads=True)
        except Exception:
            pass

    def record_exception(self, error):
        """Writes the exception, if the environment names a file."""
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if not path:
            return
        text = {"message": f"{type(error).__name__}: {error}",
                "extraInfo": {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}}
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path + ".new", "w") as file:
            json.dump({"message": text}, file)
        os.replace(path + ".new", path)


def get_error_handler():
    """Returns the handler of error files."""
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """How a worker failed."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict = field(init=False, default_factory=dict)
    message: str = field(init=False, default="")
    timestamp: int = field(init=False, default=0)

    def __post_init__(self):
        self.timestamp = int(time.time())
        try:
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            message = self.error_file_data["message"]
            self.message = message if isinstance(message, str) else message["extraInfo"].get("py_callstack", message["message"])
            self.timestamp = int(message["extraInfo"]["timestamp"]) if isinstance(message, dict) else self.timestamp
        except (OSError, ValueError, KeyError, TypeError):
            self.message = (f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}" if self.exitcode < 0
                            else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html")

    def signal_name(self):
        """Returns the signal's name, or "<N/A>"."""
        if self.exitcode >= 0:
            return "<N/A>"
        try:
            return signal.Signals(-self.exitcode).name
        except ValueError:
            return "UNKNOWN"

    def timestamp_isoformat(self):
        """Returns the time of the failure as text."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


class ChildFailedError(Exception):
    """Workers failed.  `failures` has them by rank."""

    def __init__(self, name, failures):
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self):
        """Returns (rank, failure) of the worker that failed first."""
        return min(self.failures.items(), key=lambda item: item[1].timestamp)

    def _lines(self, number, rank, f):
        return [f"[{number}]:", f"  time      : {f.timestamp_isoformat()}", f"  rank      : {rank} (local_rank: {f.local_rank})",
                f"  exitcode  : {f.exitcode} (pid: {f.pid})", f"  error_file: {f.error_file}",
                "  traceback : " + f.message.replace("\n", "\n  ")]

    def format_msg(self):
        """Returns the text of all failures, the first one last."""
        first_rank, first = self.get_first_failure()
        others = [(rank, f) for rank, f in self.failures.items() if rank != first_rank]
        lines = ["", "=" * 60, f"{self.name} FAILED", "-" * 60, "Failures:"]
        lines += [line for i, (rank, f) in enumerate(others, 1) for line in self._lines(i, rank, f)] or ["  <NO_OTHER_FAILURES>"]
        return "\n".join(lines + ["-" * 60, "Root Cause (first observed failure):", *self._lines(0, first_rank, first), "=" * 60])


def record(fn, error_handler=None):
    """Makes a program's main function write its exception to the error file."""
    @wraps(fn)
    def wrapper(*args, **kwargs):
        handler = error_handler or get_error_handler()
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as error:
            if error.code:
                handler.record_exception(error)
            raise
        except ChildFailedError:
            raise
        except Exception as error:
            handler.record_exception(error)
            raise
    return wrapper
