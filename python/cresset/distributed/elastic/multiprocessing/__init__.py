"""The processes of a run on one host: functions or commands, with output in files."""
from .api import (DefaultLogsSpecs, LogsDest, LogsSpecs, MultiprocessContext, PContext, RunProcsResult, SignalException, Std,
                  SubprocessContext, start_processes, to_map)
from .errors import ProcessFailure

__all__ = ["DefaultLogsSpecs", "LogsDest", "LogsSpecs", "MultiprocessContext", "PContext", "ProcessFailure", "RunProcsResult",
           "SignalException", "Std", "SubprocessContext", "start_processes", "to_map"]
