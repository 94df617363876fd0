"""An instruction in the source: the place of a flush or of a failed recording, as (code, number of the instruction)."""
import dis
import linecache
from traceback import FrameSummary


class Place:
    """An instruction in the source."""

    def __init__(self, code, at):
        self.code, self.at = code, at
        positions = list(code.co_positions())
        line, end_line, start, end = positions[at] if at < len(positions) else (None,) * 4
        self.line = line or code.co_firstlineno
        linecache.checkcache(code.co_filename)  # the file may have been edited and loaded again
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
