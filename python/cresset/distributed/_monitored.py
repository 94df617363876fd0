"""A barrier that names the ranks which do not come, by the group's store."""
import time
from datetime import timedelta


def _arrives(store, key, end):
    left = max(end - time.monotonic(), 0.001)
    try:
        store.wait([key], timedelta(seconds=left))
    except RuntimeError:
        return False
    return True


def monitored_barrier(group, timeout, wait_all_ranks):
    """Waits for all ranks of a group.  Rank 0 raises an error that names missing ranks."""
    ms = group._handle.timeout_ms
    limit = timedelta(milliseconds=ms) if timeout is None else timeout
    count = group._barriers = getattr(group, "_barriers", 0) + 1
    store, key, end = group._store, f"monitored/{count}", time.monotonic() + limit.total_seconds()
    shown = int(limit.total_seconds() * 1000)
    if group.rank():
        store.set(f"{key}/{group.rank()}", b"1")
        if not _arrives(store, f"{key}/all", end):
            raise RuntimeError(f"Rank {group.rank()} successfully reached monitoredBarrier, but received errors while "
                               f"waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank. "
                               f"(after {shown} ms)")
        return
    missing = []
    for rank in range(1, group.size()):
        if time.monotonic() >= end and not missing:
            raise RuntimeError(f"Rank 0 timed out in monitoredBarrier after {shown} ms; ranks 1 to {rank - 1} had come"
                               if rank > 1 else f"Rank 0 timed out in monitoredBarrier after {shown} ms")
        if not _arrives(store, f"{key}/{rank}", end):
            missing.append(rank)
            if not wait_all_ranks:
                break
    if missing:
        names = ", ".join(map(str, missing))
        raise RuntimeError(f"Rank{'s' if wait_all_ranks else ''} {names} failed to pass monitoredBarrier in {shown} ms")
    store.set(f"{key}/all", b"1")
