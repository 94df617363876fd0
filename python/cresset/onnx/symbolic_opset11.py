"""Operators as nodes of ONNX's operator set 11: functions of a graph g, whose g.op adds a node."""


def unsqueeze(g, self, dim):
    """Adds a dimension."""
    return g.op("Unsqueeze", self, axes_i=[dim])


def squeeze(g, self, dim=None):
    """Removes a dimension; without `dim`, all of size 1."""
    return g.op("Squeeze", self) if dim is None else g.op("Squeeze", self, axes_i=[dim])


def select(g, self, dim, index):
    """The part at an index of a dimension."""
    return g.op("Gather", self, index, axis_i=dim)
