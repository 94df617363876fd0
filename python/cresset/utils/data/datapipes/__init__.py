"""Data sets that are composed of stages: each stage reads another."""
from . import iter, map
