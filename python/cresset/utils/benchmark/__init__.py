"""Measuring statements: Timer makes Measurements, Compare makes tables of them."""
from .compare import Colorize, Compare
from .fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias
from .measurement import (Measurement, TaskSpec, ordered_unique, select_unit, set_torch_threads, trim_sigfig,
                          unit_to_english)
from .sparse_fuzzer import FuzzedSparseTensor
from .timer import Language, Timer, timer
