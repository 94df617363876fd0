"""The instruction that keeps a function from being a graph: for errors, logs and explain().

A place is (code, number of the instruction).  It is known in three ways: the recording failed while
the instruction was executed; the instruction wrote or read the object in question (both seen by
_C.Observation); or the call was refused before it ran, and the instruction is the first one of the
function's code that loads the name."""
import dis
import linecache
from traceback import FrameSummary

_STORES = ("w", "d")
# Methods that change their container: the instruction that loads one is the place of a change.
_CHANGING = frozenset(("add", "append", "appendleft", "clear", "discard", "extend", "insert", "move_to_end", "pop",
                       "popitem", "popleft", "remove", "reverse", "setdefault", "sort", "update"))


class Place:
    """An instruction in the source."""

    def __init__(self, code, at):
        self.code, self.at = code, at
        positions = list(code.co_positions())
        line, end_line, start, end = positions[at] if at < len(positions) else (None,) * 4
        self.line = line or code.co_firstlineno
        text = linecache.getline(code.co_filename, self.line)
        self.text = text.strip()
        if text and line == end_line and start is not None and end is not None:  # columns count bytes
            self.text = text.encode()[start:end].decode(errors="replace")

    @property
    def instruction(self):
        """The instruction with its argument, as in dis."""
        for i in dis.get_instructions(self.code):
            if i.offset == 2 * self.at:
                return f"{i.opname} {i.argrepr}".strip()
        return "?"

    @property
    def frame(self):
        return FrameSummary(self.code.co_filename, self.line, self.code.co_name)

    def __str__(self):
        text = f": {self.text}" if self.text else ""
        return f"{self.code.co_filename}:{self.line} in {self.code.co_qualname}{text} ({self.instruction})"


def of_change(observation, holders, key):
    """The last instruction that wrote or deleted `key` of an object with one of these ids, or called
    a method that changes it."""
    found = None
    for kind, holder, name, _, place, _ in observation.accesses():
        if holder in holders and (kind in _STORES and (key is None or name is None or name == key) or
                                  kind == "r" and name in _CHANGING):
            found = place
    return found and Place(*found)


def of_read(observation, value):
    """The first instruction that read the object with this id."""
    for kind, _, _, found, place, _ in observation.accesses():
        if kind == "r" and found == value:
            return Place(*place)
    return None


def of_name(codes, name):
    """The first instruction in `codes` that loads this name."""
    for code in codes:
        for i in dis.get_instructions(code):
            if i.argval == name and i.opname.startswith("LOAD_"):
                return Place(code, i.offset // 2)
        inner = of_name([c for c in code.co_consts if isinstance(c, type(code))], name)
        if inner is not None:
            return inner
    return None
