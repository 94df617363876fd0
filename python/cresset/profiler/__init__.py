"""Profiles: times and memory by operator, named ranges, traces."""
from .._profiler_kinds import DeviceType, ProfilerActivity, RecordScope
from .profiler import (ProfilerAction, _KinetoProfile, profile, schedule, supported_activities,
                       tensorboard_trace_handler)
from ..autograd.profiler import KinetoStepTracker, record_function
from ._execution_trace import ExecutionTraceObserver
from . import profiler

__all__ = ["DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile",
           "record_function", "schedule", "supported_activities", "tensorboard_trace_handler"]


def kineto_available():
    """Returns whether profiles can be recorded."""
    return True
