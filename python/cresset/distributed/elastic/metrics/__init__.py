"""Measurements of programs: streams of numbers that handlers print or keep."""
from .api import (ConsoleMetricHandler, MetricData, MetricHandler, MetricsConfig, MetricStream, NullMetricHandler, configure,
                  getStream, initialize_metrics, prof, put_metric)

__all__ = ["ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricsConfig", "MetricStream", "NullMetricHandler",
           "configure", "getStream", "initialize_metrics", "prof", "put_metric"]
