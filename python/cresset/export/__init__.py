"""Dims of exported programs.  Exporting itself is not in this build."""
import enum

__all__ = ["Dim", "dims"]


class _DimHint(enum.Enum):
    AUTO = "auto"
    DYNAMIC = "dynamic"
    STATIC = "static"


class Dim:
    """A size that may vary in an exported program, with a name and bounds."""

    AUTO, DYNAMIC, STATIC = _DimHint

    def __init__(self, name, *, min=None, max=None):
        low, high = 0 if min is None else min, 2 ** 63 - 1 if max is None else max
        if high <= low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__, self.min, self.max = name, low, high

    def __repr__(self):
        low = "" if self.min == 2 else f"min={self.min}"  # 2 is torch's least size that varies
        high = "" if self.max == 2 ** 63 - 1 else f"max={self.max}"
        bounds = ", ".join(text for text in (low, high) if text)
        return f"Dim('{self.__name__}'{', ' + bounds if bounds else ''})"


def dims(*names, min=None, max=None):
    """Returns a Dim for each name."""
    return tuple(Dim(name, min=min, max=max) for name in names)
