"""Measuring statements: Timer makes Measurements, Compare makes tables of them."""
from .compare import Colorize, Compare
from .measurement import (Measurement, TaskSpec, ordered_unique, select_unit, set_torch_threads, trim_sigfig,
                          unit_to_english)
from .timer import Language, Timer, timer
