"""Times of a statement, with their statistics."""
import contextlib
import math
import textwrap
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any, Optional

from ... import _C

__all__ = ["TaskSpec", "Measurement", "select_unit", "unit_to_english", "trim_sigfig", "ordered_unique",
           "set_torch_threads"]

_UNITS = ((1e-9, "ns", "nanosecond"), (1e-6, "us", "microsecond"), (1e-3, "ms", "millisecond"), (1.0, "s", "second"))
_MIN_CONFIDENCE_RATIO = 0.1
_MAX_SIGNIFICANT_FIGURES = 4
_MIN_CONFIDENCE_INTERVAL = 25e-9  # seconds: clocks and loops are not more exact
# Relative width of the middle half at which a measurement is noisy.
_IQR_WARN, _IQR_GROSS_WARN = 0.1, 0.25


def select_unit(t):
    """Returns the unit of a time, and its seconds."""
    seconds, unit, _ = next((row for row in reversed(_UNITS) if t >= row[0]), _UNITS[0])
    return unit, seconds


def unit_to_english(u):
    """Returns the name of a unit."""
    return {unit: name for _, unit, name in _UNITS}[u]


def trim_sigfig(x, n):
    """Rounds to n significant figures."""
    if n != int(n):
        raise AssertionError("n must be an integer")
    digits = int(math.ceil(math.log10(max(abs(x), 1e-300)))) if x else 0
    scale = 10 ** (digits - n)
    return float(round(x / scale) * scale) if x else 0.0


def ordered_unique(elements):
    """Returns the distinct elements in their order."""
    return list(dict.fromkeys(elements))


@contextlib.contextmanager
def set_torch_threads(n):
    """Sets the number of threads inside."""
    before = _C.get_num_threads()
    try:
        _C.set_num_threads(n)
        yield
    finally:
        _C.set_num_threads(before)


def _quantile(ordered, q):
    at = q * (len(ordered) - 1)
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


@dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """What is measured."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: Optional[str] = None
    sub_label: Optional[str] = None
    description: Optional[str] = None
    env: Optional[str] = None
    num_threads: int = 1

    @property
    def title(self):
        """The label, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt + (f": {self.sub_label}" if self.sub_label else "")
        return f"stmt:{f' ({self.sub_label})' if self.sub_label else ''}\n{textwrap.indent(self.stmt, '  ')}"

    def setup_str(self):
        if not self.setup or self.setup == "pass":
            return ""
        if "\n" in self.setup:
            return f"setup:\n{textwrap.indent(self.setup, '  ')}"
        return f"setup: {self.setup}"

    def summarize(self):
        """Returns lines with everything that is given."""
        parts = [self.title, self.description or "", self.setup_str()]
        return "\n".join([f"{p}\n" if "\n" in p else p for p in parts if p])


@dataclass(init=True, repr=False)
class Measurement:
    """Times of `number_per_run` calls each, in seconds."""

    number_per_run: int
    raw_times: list
    task_spec: TaskSpec
    metadata: Optional[dict[Any, Any]] = None
    _sorted: tuple = field(default=(), init=False)

    def __getattr__(self, name):
        if name in TaskSpec.__dataclass_fields__:
            return getattr(self.task_spec, name)
        raise AttributeError(name)

    @property
    def times(self):
        """Seconds of a call, for each run."""
        return [t / self.number_per_run for t in self.raw_times]

    def _ordered(self):
        if not self.raw_times:
            raise AssertionError("No times")
        if len(self._sorted) != len(self.raw_times):
            self._sorted = tuple(sorted(self.times))
        return self._sorted

    @property
    def median(self):
        return _quantile(self._ordered(), 0.5)

    @property
    def mean(self):
        ordered = self._ordered()
        return math.fsum(ordered) / len(ordered)

    @property
    def iqr(self):
        """The width of the middle half of the times."""
        return _quantile(self._ordered(), 0.75) - _quantile(self._ordered(), 0.25)

    @property
    def significant_figures(self):
        """The number of figures that the spread of the times supports."""
        count = len(self._ordered())
        inner = self._ordered()[count // 4:math.ceil(3 * count / 4)]
        mean = math.fsum(inner) / len(inner)
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in inner) / len(inner))
        interval = max(1.645 * deviation / math.sqrt(len(inner)), _MIN_CONFIDENCE_INTERVAL)
        return min(max(math.floor(math.log10(self.median / interval)), 1), _MAX_SIGNIFICANT_FIGURES)

    @property
    def has_warnings(self):
        return bool(self._warnings())

    def _warnings(self):
        if len(self.raw_times) < 2:
            return ""
        relative = self.iqr / self.median * 100
        if relative > 100 * _IQR_GROSS_WARN:
            text = "This suggests significant environmental influence."
        elif relative > 100 * _IQR_WARN:
            text = "This could indicate system fluctuation."
        else:
            return ""
        return f"  WARNING: Interquartile range is {relative:.1f}% of the median measurement.\n           {text}"

    def meets_confidence(self, threshold=_MIN_CONFIDENCE_RATIO):
        """Returns whether the middle half is narrow."""
        return self.iqr / self.median < threshold

    @property
    def title(self):
        return self.task_spec.title

    @property
    def env(self):
        return self.task_spec.env

    @property
    def as_row_name(self):
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self):
        unit, seconds = select_unit(self.median)
        runs = f"{len(self.raw_times)} measurement{'s' if len(self.raw_times) > 1 else ''}"
        calls = f"{self.number_per_run} runs {'per measurement, ' if len(self.raw_times) > 1 else ', '}"
        threads = f"{self.num_threads} thread{'s' if self.num_threads > 1 else ''}"
        lines = [f"{object.__repr__(self)}", self.task_spec.summarize()]
        if len(self.raw_times) == 1:
            lines.append(f"  {self.median / seconds:.2f} {unit}")
        else:
            lines.append(f"  Median: {self.median / seconds:.2f} {unit}")
            if len(self.raw_times) >= 4:
                low, high = _quantile(self._ordered(), 0.25), _quantile(self._ordered(), 0.75)
                lines.append(f"  IQR:    {self.iqr / seconds:.2f} {unit} ({low / seconds:.2f} to "
                             f"{high / seconds:.2f})")
        return "\n".join([*lines, f"  {runs}, {calls}{threads}", *filter(None, [self._warnings()])])

    @staticmethod
    def merge(measurements):
        """Joins the times of equal tasks; returns a Measurement for each task."""
        grouped = defaultdict(list)
        for m in measurements:
            grouped[m.task_spec].append(m)
        # Runs with different numbers of calls become runs of one call.
        return [Measurement(1, [t for m in group for t in m.times], replace(spec), None)
                for spec, group in grouped.items()]
