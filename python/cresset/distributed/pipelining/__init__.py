"""Pipelines: the layers of a model are stages on different ranks, and parts of a batch go through them.

A schedule is data: a list of actions for each rank (_actions.py), checked before it runs.
"""
from ._split import Pipe, SplitPoint, pipe_split, pipeline
from .schedules import (Schedule1F1B, ScheduleDualPipeV, ScheduleGPipe, ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble,
                        ScheduleLoopedBFS, ScheduleZBVZeroBubble)
from .stage import PipelineStage, build_stage

__all__ = ["Pipe", "PipelineStage", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B",
           "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "SplitPoint", "build_stage", "pipe_split",
           "pipeline"]


def __getattr__(name):
    from ..._absent_names import missing
    raise missing(__name__, name)
