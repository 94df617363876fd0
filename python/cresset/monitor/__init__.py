"""Events that programs log, and statistics that are logged as events at intervals."""
import datetime
import enum
import math
import threading
import time
from typing import TYPE_CHECKING

__all__ = ["Aggregation", "Event", "EventHandlerHandle", "Stat", "TensorboardEventHandler",
           "data_value_t", "log_event", "register_event_handler", "unregister_event_handler",
           "VALUE", "MEAN", "COUNT", "SUM", "MAX", "MIN", "STAT_EVENT"]

STAT_EVENT = "torch.monitor.Stat"
data_value_t = str | float | int | bool


class Aggregation(enum.Enum):
    """Numbers that describe the values of an interval."""

    VALUE = 0  # the last one
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6

    @property
    def _label(self):
        return self.name.lower()


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation


class Event:
    """A named record with a time and a dict of values."""

    def __init__(self, name, timestamp, data):
        if not (isinstance(name, str) and isinstance(timestamp, datetime.datetime)
                and all(isinstance(v, (str, int, float)) for v in data.values())):
            raise TypeError("Event(name: str, timestamp: datetime.datetime, data: dict of str, "
                            f"float, int or bool): got {name!r}, {timestamp!r}, {data!r}")
        self.name = name
        self.timestamp = timestamp
        self.data = dict(data)


class EventHandlerHandle:
    """The argument of unregister_event_handler."""

    def __init__(self, callback):
        self._callback = callback


_handlers = []


def register_event_handler(callback):
    """Calls callback(event) for every event from now on.  Returns a handle."""
    handle = EventHandlerHandle(callback)
    _handlers.append(handle)
    return handle


def unregister_event_handler(handler):
    """Ends the calls of a handler."""
    if handler in _handlers:
        _handlers.remove(handler)


def log_event(event):
    """Gives an event to all handlers."""
    for handle in list(_handlers):
        handle._callback(event)


def _aggregate(aggregation, values):
    if aggregation is COUNT:
        return float(len(values))
    if not values:
        return 0.0
    return float({VALUE: lambda: values[-1], MEAN: lambda: math.fsum(values) / len(values),
                  SUM: lambda: math.fsum(values), MAX: lambda: max(values),
                  MIN: lambda: min(values)}[aggregation]())


class Stat:
    """Collects numbers and logs their aggregates once in every time window.

    Windows are multiples of `window_size` of the clock.  After `max_samples` numbers the
    aggregates are logged at once, and the window's further numbers are ignored.
    """

    def __init__(self, name, aggregations, window_size, max_samples=2 ** 63 - 1):
        if not (isinstance(aggregations, (list, tuple)) and isinstance(window_size, datetime.timedelta)
                and all(isinstance(a, Aggregation) for a in aggregations)):
            raise TypeError("Stat(name: str, aggregations: list of Aggregation, window_size: "
                            f"datetime.timedelta, max_samples: int): got {name!r}, {aggregations!r}, "
                            f"{window_size!r}")
        self.name = name
        self._aggregations = list(aggregations)
        self._seconds = window_size.total_seconds()
        self._max_samples = max_samples
        self._values, self._last = [], []
        self._window, self._logged = self._current_window(), None
        self._lock = threading.RLock()

    def _current_window(self):
        return int(time.time() / self._seconds)

    @property
    def count(self):
        """The number of values in the present window."""
        return len(self._values)

    def add(self, v):
        """Adds a number to the present window."""
        with self._lock:
            self._end_window()
            if self._logged != self._current_window():
                self._values.append(float(v))
                self._end_window()

    def get(self):
        """Returns {aggregation: number} of the last window that was logged."""
        with self._lock:
            self._end_window()
            return {a: _aggregate(a, self._last) for a in self._aggregations}

    def _end_window(self):
        """Logs the window's aggregates when it is over or has max_samples values."""
        now = self._current_window()
        if now == self._window and len(self._values) < self._max_samples:
            return
        values, self._values = self._values, []
        full, self._window = now == self._window, now
        self._logged = now if full else None
        if values:
            self._last = values
            data = {f"{self.name}.{a._label}": _aggregate(a, values) for a in self._aggregations}
            log_event(Event(STAT_EVENT, datetime.datetime.now(), data))


class TensorboardEventHandler:
    """A handler that adds the numbers of statistics to a tensorboard SummaryWriter."""

    def __init__(self, writer):
        self._writer = writer

    def __call__(self, event):
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
