"""Graphs of compiled functions, as Python sees them: their text, inputs and outputs."""
import re


class Value:
    """A value of a graph: its name and its type."""

    def __init__(self, name, kind):
        self._name, self._type = name, kind

    def debugName(self):
        """The name without %."""
        return self._name

    def type(self):
        """The type, as text."""
        return self._type

    def __repr__(self):
        return f"{self._name} defined in ({self._name} : {self._type})"


class Graph:
    """The typed graph of a function."""

    def __init__(self, text):
        self._text = text

    def __str__(self):
        return self._text

    __repr__ = __str__

    def inputs(self):
        """The parameters, in order."""
        head = self._text[len("graph("):self._text.index("):\n")]
        for part in filter(None, head.split(",\n")):
            name, _, kind = part.strip().partition(" : ")
            yield Value(name[1:], kind)

    def outputs(self):
        """The results, in order."""
        inside = self._text.rstrip().rpartition("return (")[2].rstrip(")")
        for name in filter(None, inside.split(", ")):
            found = re.search(re.escape(name) + r" : ([^=\n]*?)(?: =|,\n|\):\n)", self._text)
            yield Value(name[1:], found.group(1) if found else "")
