"""Calls of objects in which each rank learns whether another rank failed."""
from dataclasses import dataclass
from typing import Any

from . import distributed_c10d as dist

__all__ = ["SyncPayload", "broadcast", "all_gather", "all_gather_object_enforce_type"]


@dataclass
class SyncPayload:
    """A rank's part: its value, or the exception that its function raised."""

    stage_name: str | None
    success: bool
    payload: Any
    exception: Exception | None = None


def _part(data_or_fn, stage_name, success=True):
    if not callable(data_or_fn):
        return SyncPayload(stage_name, success, data_or_fn)
    try:
        return SyncPayload(stage_name, success, data_or_fn())
    except Exception as error:
        return SyncPayload(stage_name, False, None, error)


def broadcast(data_or_fn, *, success=True, stage_name=None, rank=0, pg=None):
    """Returns a value of one rank, or of a function that this rank calls, at all ranks; a RuntimeError at all ranks
    if the function raises or `success` is False.  Without a group it is the call of a single process."""
    if not success and data_or_fn is not None:
        raise AssertionError("Data or Function is expected to be None if not successful")
    here = rank == (0 if pg is None else pg.rank())
    part = [_part(data_or_fn, stage_name, success) if here else SyncPayload(stage_name, success, None)]
    if pg is not None:
        dist.broadcast_object_list(part, src=dist.get_global_rank(pg, rank), group=pg)
    if not part[0].success:
        stage = "" if stage_name is None else f": stage {part[0].stage_name}"
        cause = "" if part[0].exception is None else f": exception {part[0].exception}"
        raise RuntimeError(f"Rank {rank} failed{stage}{cause}") from part[0].exception
    return part[0].payload


def all_gather(data_or_fn, stage_name=None, pg=None):
    """Returns the values of all ranks, or of the functions that they call, in their order.  If a function raises, or
    ranks are at other stages, all ranks raise a RuntimeError."""
    part = _part(data_or_fn, stage_name)
    if pg is None:
        if part.exception is not None:
            raise RuntimeError(f"all_gather failed with exception {part.exception}") from part.exception
        return [part.payload]
    parts = [None] * dist.get_world_size(pg)
    all_gather_object_enforce_type(pg, parts, part)
    others = [f"Unexpected stage name received from rank {i}: {p.stage_name} "
              for i, p in enumerate(parts) if p.stage_name != parts[0].stage_name]
    failed = [(i, p.exception) for i, p in enumerate(parts) if p.exception is not None]
    if others or failed:
        raise RuntimeError("".join(others), failed) from (failed[0][1] if failed else None)
    return [p.payload for p in parts]


def all_gather_object_enforce_type(pg, object_list, obj, type_checker=lambda x, y: type(x) is type(y)):
    """all_gather_object(), and a TypeError at all ranks if an object does not fit the first one."""
    dist.all_gather_object(object_list, obj, group=pg)
    for i, other in enumerate(object_list):
        if not type_checker(object_list[0], other):
            raise TypeError(f"Object type at index {i} is {type(other)}, while first object type is "
                            f"{type(object_list[0])}")
