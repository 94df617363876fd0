"""Graphs of CUDA devices."""
from . import CUDAGraph, graph, is_current_stream_capturing

__all__ = ["is_current_stream_capturing", "CUDAGraph", "graph"]
