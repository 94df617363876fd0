"""The records of events."""
import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Optional, Union

EventMetadataValue = Union[str, int, float, bool, None]


class EventSource(str, Enum):
    """The process that an event is about."""

    AGENT = "AGENT"
    WORKER = "WORKER"


class NodeState(str, Enum):
    """How far a host is in a rendezvous."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


class _Record:
    """A record as a line of JSON."""

    def __str__(self):
        return self.serialize()

    def serialize(self):
        """Returns the record as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def deserialize(cls, data):
        """Returns the record of a line; a record is returned as it is."""
        return data if isinstance(data, cls) else cls(**cls._typed(json.loads(data)))


@dataclass
class Event(_Record):
    """Something that happened to an agent or a worker."""

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict = field(default_factory=dict)
    __str__ = _Record.__str__

    @staticmethod
    def _typed(fields):
        return {**fields, "source": EventSource(fields["source"])}


@dataclass
class RdzvEvent(_Record):
    """Something that happened in a rendezvous."""

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: Optional[int] = None
    local_id: Optional[int] = None
    error_trace: str = ""
    __str__ = _Record.__str__

    @staticmethod
    def _typed(fields):
        return {**fields, "node_state": NodeState(fields["node_state"])}
