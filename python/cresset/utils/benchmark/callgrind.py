"""Numbers of instructions by function, as callgrind counts them."""
import dataclasses
from collections import defaultdict
from typing import NamedTuple

__all__ = ["CallgrindStats", "CopyIfCallgrind", "FunctionCount", "FunctionCounts"]


class FunctionCount(NamedTuple):
    """The instructions of a function."""

    count: int
    function: str


@dataclasses.dataclass(repr=False, eq=False, frozen=True)
class FunctionCounts:
    """Instructions by function, the most first: they are added, subtracted, filtered and renamed."""

    _data: tuple
    inclusive: bool
    truncate_rows: bool = True
    _linewidth: int | None = None

    def __iter__(self):
        return iter(self._data)

    def __len__(self):
        return len(self._data)

    def __getitem__(self, item):
        found = self._data[item]
        return dataclasses.replace(self, _data=found) if isinstance(item, slice) else found

    def __repr__(self):
        width = max((len(str(count)) for count, _ in self), default=0)
        lines = [f"  {count:>{width}}  {function}" for count, function in self]
        if self.truncate_rows and len(lines) > 18:
            lines = [*lines[:9], "...".rjust(width + 2), *lines[-9:]]
        if not self.inclusive:
            lines += ["", f"Total: {self.sum()}"]
        return "\n".join([f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>", *lines])

    def __add__(self, other):
        return self._merged(other, lambda count: count)

    def __sub__(self, other):
        return self._merged(other, lambda count: -count)

    def __mul__(self, factor):
        return self._made({function: int(count * factor) for count, function in self})

    def _merged(self, other, sign):
        if self.inclusive != other.inclusive:
            raise AssertionError("Cannot merge inclusive and exclusive counts.")
        counts = defaultdict(int)
        for count, function in self:
            counts[function] += count
        for count, function in other:
            counts[function] += sign(count)
        return self._made(counts)

    def _made(self, counts):
        data = sorted((FunctionCount(count, function) for function, count in counts.items() if count), reverse=True)
        return dataclasses.replace(self, _data=tuple(data))

    def transform(self, map_fn):
        """Renames functions by map_fn(name); counts of equal names are added."""
        counts = defaultdict(int)
        for count, function in self:
            counts[map_fn(function)] += count
        return self._made(counts)

    def filter(self, filter_fn):
        """The functions whose name filter_fn accepts."""
        return dataclasses.replace(self, _data=tuple(item for item in self if filter_fn(item.function)))

    def sum(self):
        """The instructions of all functions."""
        return sum(count for count, _ in self)

    def denoise(self):
        """Without lookups in dicts, whose number varies from run to run."""
        return self.filter(lambda function: "dictobject.c:lookdict_unicode" not in function)


@dataclasses.dataclass(repr=False, eq=False, frozen=True)
class CallgrindStats:
    """The counts of a statement's run, and those of an empty one, which are subtracted."""

    task_spec: object
    number_per_run: int
    built_with_debug_symbols: bool
    baseline_inclusive_stats: FunctionCounts
    baseline_exclusive_stats: FunctionCounts
    stmt_inclusive_stats: FunctionCounts
    stmt_exclusive_stats: FunctionCounts
    stmt_callgrind_out: str | None = None

    def __repr__(self):
        base = self.baseline_exclusive_stats
        lines = [f"<{type(self).__module__}.{type(self).__name__} object at {id(self):#x}>", self.task_spec.summarize(),
                 f"{'':>25}All{'':>10}Noisy symbols removed",
                 f"    Instructions: {self.counts(denoise=False):>15} {self.counts(denoise=True):>20}",
                 f"    Baseline:     {base.sum():>15} {base.denoise().sum():>20}",
                 f"{self.number_per_run} runs per measurement, {self.task_spec.num_threads} thread"
                 f"{'s' if self.task_spec.num_threads > 1 else ''}"]
        return "\n".join(lines)

    def stats(self, inclusive=False):
        """The counts of the statement without those of the empty one."""
        kind = "inclusive" if inclusive else "exclusive"
        return getattr(self, f"stmt_{kind}_stats") - getattr(self, f"baseline_{kind}_stats")

    def counts(self, *, denoise=False):
        """The instructions of the statement."""
        found = self.stmt_exclusive_stats
        return (found.denoise() if denoise else found).sum()

    def delta(self, other, inclusive=False):
        """The counts of this run minus those of another."""
        return self.stats(inclusive) - other.stats(inclusive)

    def as_standardized(self):
        """The same with the folders removed that the names of all functions have in common."""
        def strip(counts):
            paths = [function.partition(":")[0] for _, function in counts if function.startswith("/")]
            common = _common_folder(paths)
            return counts.transform(lambda function: function.removeprefix(common))
        names = [f.name for f in dataclasses.fields(self) if f.name.endswith("_stats")]
        return dataclasses.replace(self, **{name: strip(getattr(self, name)) for name in names})


def _common_folder(paths):
    """The folder that all paths begin with, with a slash; empty for fewer than two."""
    import os
    return os.path.commonpath(paths) + "/" if len(set(paths)) > 1 else ""


@dataclasses.dataclass(frozen=True)
class CopyIfCallgrind:
    """Marks a global of a statement that may be copied to another process; setup is run there first."""

    value: object
    setup: str | None = None

    def __post_init__(self):
        if type(self.value) not in (bool, int, float, complex, str, bytes, type(None)) and self.setup is None and \
                not _is_torchs(self.value):
            raise ValueError(f"`{type(self.value)}` needs `setup`, with which the other process can read it")

    @staticmethod
    def unwrap_all(globals):
        """The globals without their marks."""
        return {name: value.value if isinstance(value, CopyIfCallgrind) else value for name, value in globals.items()}


def _is_torchs(value):
    return type(value).__module__.partition(".")[0] == __name__.partition(".")[0]
