"""Traces in the format of chrome://tracing and Perfetto."""
import gzip
import json
import os
import socket
import threading
import time


def _metadata(pid, tid):
    def entry(kind, **args):
        return {"ph": "M", "name": kind, "ts": 0, "pid": pid, "tid": tid, "args": args}
    return [entry("process_name", name="python"), entry("process_labels", labels="CPU"),
            entry("process_sort_index", sort_index=pid),
            entry("thread_name", name=f"thread {tid} (python)"), entry("thread_sort_index", sort_index=tid)]


def _details(event, index):
    details = {"External id": event.id, "Ev Idx": index}
    if event.sequence_nr >= 0:
        details["Sequence number"] = event.sequence_nr
    if event.input_shapes:
        details["Input Dims"] = event.input_shapes
    if event.cpu_memory_usage:
        details["Bytes"] = event.cpu_memory_usage
    if event.flops:
        details["Flops"] = event.flops
    return details


def _entry(event, index, origin, pid, tid):
    kind = "user_annotation" if event.is_user_annotation else "cpu_op"
    return {"ph": "X", "cat": kind, "name": event.name, "pid": pid, "tid": tid,
            "ts": origin + event.time_range.start, "dur": event.time_range.elapsed_us(),
            "args": _details(event, index)}


def document(events, extra=None):
    """Returns the trace of a list of events as data."""
    from ..autograd.profiler_util import MEMORY_EVENT_NAME
    pid, tid, origin = os.getpid(), threading.get_native_id(), getattr(events, "_trace_start", 0)
    rows = [_entry(event, i, origin, pid, tid) for i, event in enumerate(events)
            if event.name != MEMORY_EVENT_NAME]
    return {"schemaVersion": 1, "deviceProperties": [], "host_name": socket.gethostname(),
            "displayTimeUnit": "ms", "baseTimeNanoseconds": time.time_ns() - time.monotonic_ns(),
            **(extra or {}), "traceEvents": _metadata(pid, tid) + rows}


def write(path, events, extra=None):
    """Writes a trace; a name that ends with .gz is compressed."""
    path = os.fspath(path)
    opened = gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w")
    with opened as file:
        json.dump({**document(events, extra), "traceName": path}, file)
