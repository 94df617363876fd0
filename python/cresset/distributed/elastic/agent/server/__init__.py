"""Agents: processes that start and watch the workers of a host."""
from .api import (ElasticAgent, RunResult, SimpleElasticAgent, Worker, WorkerGroup, WorkerSpec, WorkerState)
from .local_elastic_agent import TORCHELASTIC_ENABLE_FILE_TIMER, TORCHELASTIC_TIMER_FILE, LocalElasticAgent

__all__ = ["ElasticAgent", "LocalElasticAgent", "RunResult", "SimpleElasticAgent", "TORCHELASTIC_ENABLE_FILE_TIMER",
           "TORCHELASTIC_TIMER_FILE", "Worker", "WorkerGroup", "WorkerSpec", "WorkerState"]
