"""Tables of measurements: a row for each sub-label, a column for each description."""
import enum
from itertools import groupby

from .measurement import Measurement, ordered_unique, select_unit, trim_sigfig, unit_to_english

__all__ = ["Colorize", "Compare"]

_BEST, _GOOD, _BAD, _VERY_BAD = "\033[92m\033[1m", "\033[34m", "\033[2m\033[91m", "\033[31m\033[1m"
_END = "\033[0m"


class Colorize(enum.Enum):
    """What the colors of a table compare."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """A table of measurements."""

    def __init__(self, results):
        self._results = []
        self.extend_results(results)
        self._trim = self._highlight = False
        self._colorize = Colorize.NONE

    def __str__(self):
        return "\n".join(self._render())

    def extend_results(self, results):
        """Adds measurements."""
        for r in results:
            if not isinstance(r, Measurement):
                raise ValueError(f"Expected an instance of `Measurement`, got {type(r)} instead.")
        self._results.extend(results)

    def trim_significant_figures(self):
        """Shows only the figures that the measurements support."""
        self._trim = True

    def colorize(self, rowwise=False):
        """Shows fast and slow times in colors."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self):
        """Marks noisy measurements."""
        self._highlight = True

    def print(self):
        """Prints the table."""
        print(self)

    def _render(self):
        merged = Measurement.merge(self._results)
        tables = []
        for label in ordered_unique(m.label for m in merged):
            tables.append(_Table([m for m in merged if m.label == label], self._trim, self._colorize,
                                 self._highlight).render())
        return tables


class _Table:
    def __init__(self, results, trim, colors, highlight):
        self.results, self.trim, self.colors, self.highlight = results, trim, colors, highlight
        self.label = results[0].label or ""
        self.unit, self.seconds = select_unit(min(r.median for r in results))
        self.rows = ordered_unique((r.num_threads, r.env if len({x.env for x in results}) > 1 else "", r.as_row_name)
                                   for r in results)
        self.columns = ordered_unique(r.description or "" for r in results)

    def _cell(self, row, column):
        for r in self.results:
            env = row[1] == "" or r.env == row[1]
            if r.num_threads == row[0] and env and r.as_row_name == row[2] and (r.description or "") == column:
                return r
        return None

    def _texts(self):
        cells = [[self._cell(row, column) for column in self.columns] for row in self.rows]
        digits = []
        for k in range(len(self.columns)):
            found = [r[k] for r in cells if r[k] is not None]
            figures = [self._digits(m) for m in found]
            digits.append(min(figures, default=1))
        texts = [["" if m is None else f"{self._value(m):.{digits[k]}f}" for k, m in enumerate(row)] for row in cells]
        return cells, texts

    def _value(self, m):
        median = trim_sigfig(m.median, m.significant_figures) if self.trim else m.median
        return median / self.seconds

    def _digits(self, m):
        """Digits behind the point."""
        if not self.trim:
            return 1
        from math import ceil, log10
        return max(0, m.significant_figures - ceil(log10(m.median / self.seconds)))

    def _colored(self, text, m, others):
        if m is None:
            return text
        if self.highlight and m.has_warnings:
            text += " (! XX%)".replace("XX", f"{m.iqr / m.median * 100:.0f}")
        others = [o.median for o in others if o is not None]
        if self.colors is Colorize.NONE or not others:
            return text
        best, ratio = min(others), m.median / min(others)
        if m.median <= best * 1.05:
            return f"{_BEST}{text}{_END}{_END}"
        color = _GOOD if ratio <= 1.2 else _VERY_BAD if ratio > 5 else _BAD if ratio > 2 else None
        ends = _END * (1 if color is _GOOD else 2)
        return f"{color}{text}{ends}" if color else text

    def render(self):
        cells, texts = self._texts()
        names = [f"{f'({env}) ' if env else ''}{name}" for _, env, name in self.rows]
        first = max(len(name) + 4 for name in names)
        head = [f"{d}" for d in self.columns]
        number_widths = [max(len(row[k]) for row in texts) for k in range(len(head))]
        widths = [max([len(h)] + [len(row[k]) for row in texts]) for k, h in enumerate(head)]
        header = " " * (first + 2) + "  |  " + "  |  ".join(h.center(w) for h, w in zip(head, widths))
        total = len(header)
        lines = [f"[{(' ' + self.label + ' ').center(total - 2, '-')}]" if self.label else "[" + "-" * (total - 2) + "]",
                 header]
        indices = range(len(self.rows))
        for threads, group in groupby(indices, key=lambda i: self.rows[i][0]):
            title = f"{threads} threads: "
            lines.append(title + "-" * (total - len(title)))
            for i in group:
                padded = []
                for k, text in enumerate(texts[i]):
                    others = cells[i] if self.colors is Colorize.ROWWISE else [row[k] for row in cells]
                    padded.append(self._colored(text.rjust(number_widths[k]).center(widths[k]), cells[i][k], others))
                lines.append(f"      {names[i]}".ljust(first + 2) + "  |  " + "  |  ".join(padded))
        return "\n".join([*lines, "", f"Times are in {unit_to_english(self.unit)}s ({self.unit}).", ""])
