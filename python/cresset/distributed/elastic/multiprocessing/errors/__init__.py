"""Error files: a worker writes its exception where TORCHELASTIC_ERROR_FILE says, and the launcher shows it."""
import json
import os
import signal
import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps

from .error_handler import ErrorHandler
from .handlers import get_error_handler

__all__ = ["ProcessFailure", "ChildFailedError", "record", "ErrorHandler", "get_error_handler"]


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
        if not os.path.isfile(self.error_file):
            self._without_file()
            return
        with open(self.error_file) as file:
            self.error_file_data = json.load(file)
        message = self.error_file_data["message"]
        extra = message["extraInfo"] if isinstance(message, dict) else self.error_file_data
        self.message = message if isinstance(message, str) else extra.get("py_callstack", message["message"])
        self.timestamp = int(extra.get("timestamp", self.timestamp))

    def _without_file(self):
        self.error_file, self.error_file_data = "<N/A>", {"message": "<NONE>"}
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
            if error.code == 0:  # a script that ends itself well has returned
                return None
            if error.code:
                handler.record_exception(error)
            raise
        except ChildFailedError as error:  # the failure of a launcher is its worker's
            failure = error.get_first_failure()[1]
            if failure.error_file != "<N/A>":
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise
    return wrapper
