"""Measuring statements: Timer makes Measurements, Compare makes tables of them."""
import math

from ... import torch
from .callgrind import CallgrindStats, CopyIfCallgrind, FunctionCount, FunctionCounts
from .compare import Colorize, Compare
from .fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias
from .measurement import (Measurement, TaskSpec, ordered_unique, select_unit, set_torch_threads, trim_sigfig,
                          unit_to_english)
from .sparse_fuzzer import FuzzedSparseTensor
from . import measurement as utils
from .timer import Language, Timer, timer
