"""What the groups' flight recorders have, in the form that torch's tools read (torch.distributed.flight_recorder).

A group keeps its last 4,096 calls.  It knows the elements of a call's tensors and not their shapes, so sizes are lists of
one number, and the program's line, which is the only frame."""
import json
import pickle
import threading
import time

from . import distributed_c10d as dist

VERSION = "2.10"
_DTYPES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int8": "Char", "uint8": "Byte",
           "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool", "complex64": "ComplexFloat",
           "complex128": "ComplexDouble"}


def _frames(line):
    name, _, number = line.rpartition(":")
    return [{"name": "", "filename": name, "line": int(number)}] if number.isdigit() else []


def _entry(call, group, pg_id, stacks, clock):
    """A call as torch records it.  clock: the date at which the clock of calls began."""
    start, seconds = float(call["start"]), float(call["seconds"])
    created = clock + int(1e9 * start)
    ended = call["state"] != "started"
    tensors = call["op"] != "barrier"
    dtype = [_DTYPES.get(call["dtype"], call["dtype"])] if tensors else []
    entry = {"frames": _frames(call["line"])} if stacks else {}
    entry.update({
        "pg_id": pg_id, "process_group": (dist._world.pg_names.get(group, ""), group.group_desc),
        "thread_name": threading.current_thread().name, "thread_id": str(threading.get_ident()),
        "collective_seq_id": int(call["seq"]), "p2p_seq_id": 0, "op_id": int(call["seq"]), "is_p2p": False,
        "profiling_name": f"{group.name()}:{call['op']}", "time_created_ns": created,
        "input_sizes": [[int(call["elements"])]] if tensors else [], "input_dtypes": dtype,
        "output_sizes": [[int(call["results"])]] if tensors else [], "output_dtypes": dtype,
        "state": "completed" if ended else "started", "time_discovered_started_ns": created,
        "time_discovered_completed_ns": created + int(1e9 * seconds) if ended else None, "retired": ended,
        "timeout_ms": group._need().timeout_ms})
    return entry


def _trace(collectives, stacks, active):
    groups = [group for group in dist._world.pg_map if getattr(group, "_handle", None) is not None]
    trace = {"version": VERSION, "comm_lib_version": "", "pg_config": {}, "pg_status": {}}
    entries, clock = [], time.time_ns() - time.monotonic_ns()
    for pg_id, group in enumerate(groups):
        calls = dist._flight_recorder(group)
        ended = [int(call["seq"]) for call in calls if call["state"] != "started"]
        name = dist._world.pg_names[group]
        trace["pg_config"][name] = {"name": name, "desc": group.group_desc, "ranks": str(dist.get_process_group_ranks(group))}
        trace["pg_status"][str(pg_id)] = {
            "last_enqueued_collective": str(calls[-1]["seq"] if calls else -1),
            "last_started_collective": str(calls[-1]["seq"] if calls else -1),
            "last_completed_collective": str(max(ended, default=-1))}
        entries += [_entry(call, group, pg_id, stacks, clock) for call in calls if not active or call["state"] == "started"]
    if collectives:
        entries.sort(key=lambda entry: entry["time_created_ns"])
        trace["entries"] = [{"record_id": i, **entry} for i, entry in enumerate(entries)]
    return trace


def _dump_fr_trace(includeCollectives=True, includeStackTraces=True, onlyActive=False):
    """Returns the last calls of all groups, pickled.  onlyActive: those in progress."""
    return pickle.dumps(_trace(includeCollectives is not False, includeStackTraces is not False, bool(onlyActive)))


def _dump_fr_trace_json(includeCollectives=True, onlyActive=False):
    """Returns the same without lines of the program, as JSON."""
    trace = _trace(includeCollectives is not False, False, bool(onlyActive))
    for entry in trace.get("entries", ()):
        entry["time_discovered_completed_ns"] = entry["time_discovered_completed_ns"] or 0
    return json.dumps(trace).encode()
