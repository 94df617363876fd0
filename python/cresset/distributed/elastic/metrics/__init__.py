"""Measurements of programs: streams of numbers that handlers print or keep."""
from .api import (ConsoleMetricHandler, MetricData, MetricHandler, MetricsConfig, MetricStream, NullMetricHandler, configure,
                  getStream, prof, put_metric)

__all__ = ["ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricsConfig", "MetricStream", "NullMetricHandler",
           "configure", "getStream", "prof", "put_metric"]
