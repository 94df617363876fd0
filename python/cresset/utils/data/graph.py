"""The stages that a pipe reads, directly or through others."""
from .datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]


def _sources(value, seen):
    """Returns the pipes among the attributes of an object, also in containers."""
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        return [value]
    if isinstance(value, (list, tuple, set)):
        return [pipe for item in value for pipe in _sources(item, seen)]
    if isinstance(value, dict):
        return [pipe for item in value.values() for pipe in _sources(item, seen)]
    main = getattr(value, "main_datapipe", None)  # the shared source of fork and demux
    return _sources(main, seen) if main is not None else []


def traverse_dps(datapipe):
    """Returns {id: (pipe, graph of its sources)}."""
    return _graph(datapipe, set())


def _graph(datapipe, seen):
    if id(datapipe) in seen:
        return {}
    seen = seen | {id(datapipe)}
    below = {}
    for value in list(vars(datapipe).values()):
        for pipe in _sources(value, seen):
            below.update(_graph(pipe, seen))
    return {id(datapipe): (datapipe, below)}


traverse = traverse_dps
