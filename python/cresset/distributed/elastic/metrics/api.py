"""Streams of measurements, by groups; a handler for each group, and one for all others."""
import abc
import time
from dataclasses import dataclass, field
from functools import wraps


@dataclass
class MetricData:
    """A measurement."""

    timestamp: float
    group_name: str
    name: str
    value: int


@dataclass
class MetricsConfig:
    """Options of handlers."""

    params: dict = field(default_factory=dict)


class MetricHandler(abc.ABC):
    """Gets measurements."""

    @abc.abstractmethod
    def emit(self, metric_data):
        """Takes a measurement."""


class ConsoleMetricHandler(MetricHandler):
    """Prints measurements."""

    def emit(self, metric_data):
        print(f"[{metric_data.timestamp}][{metric_data.group_name}]: {metric_data.name}={metric_data.value}")


class NullMetricHandler(MetricHandler):
    """Drops measurements."""

    def emit(self, metric_data):
        pass


class MetricStream:
    """The measurements of a group."""

    def __init__(self, group_name, handler):
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name, metric_value):
        """Adds a measurement of now."""
        self.handler.emit(MetricData(time.time(), self.group_name, metric_name, metric_value))


_handlers = {}  # by group
_default = [NullMetricHandler()]


def configure(handler, group=None):
    """Gives a group a handler; without a group, those that have none."""
    if group is None:
        _default[0] = handler
    else:
        _handlers[group] = handler


def getStream(group):
    """Returns the stream of a group."""
    return MetricStream(group, _handlers.get(group, _default[0]))


def put_metric(metric_name, metric_value, metric_group="torchelastic"):
    """Adds a measurement to a group's stream."""
    getStream(metric_group).add_value(metric_name, metric_value)


def _get_metric_name(fn):
    """Returns CLASS.METHOD, or MODULE.FUNCTION."""
    name = fn.__qualname__.rsplit(".", 2)
    return ".".join(name[-2:]) if len(name) > 1 else f"{fn.__module__.rsplit('.', 1)[-1]}.{name[-1]}"


def prof(fn=None, group="torchelastic"):
    """Makes a function's calls measurements: NAME.success, NAME.failure, NAME.duration.ms."""
    def decorate(f):
        name = _get_metric_name(f)

        @wraps(f)
        def wrapper(*args, **kwargs):
            start = time.monotonic()
            outcome = "failure"
            try:
                result = f(*args, **kwargs)
                outcome = "success"
                return result
            finally:
                put_metric(f"{name}.{outcome}", 1, group)
                put_metric(f"{name}.duration.ms", int((time.monotonic() - start) * 1000), group)
        return wrapper
    return decorate(fn) if fn else decorate


def initialize_metrics(cfg=None):
    """Launchers call it with a MetricsConfig of LaunchConfig.metrics_cfg.  A program that wants handlers for them puts a
    function of its own in its place; this one leaves all handlers as they are."""
