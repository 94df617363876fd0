"""to_rt(): an exported program as a file for the runtime (include/cresset_rt.h)."""
from ._c_file import _check, _check_memory, _checked_path, _inputs, _recorded, errors_name


def _kind(x, written):
    """The name of an input in the file, and what it is there (RecordedGraph.rt_file)."""
    if x.kind == "argument":
        return x.name, "written" if written else "argument"
    return x.name if x.kind == "state" else x.target, "state array" if written else "array"


def to_rt(program, path=None, *, dtype=None, training=False):
    """Writes an exported program as a file that the runtime runs (include/cresset_rt.h, `make rt`), and returns its bytes.

        dtype     float64: numbers of floating point are doubles, or None
        training  the program computes a step of training, as in to_c()

    The file has commands, parameters, buffers and constants, and the places of all values in one block of memory.  Sizes are
    those of the example inputs.  Inputs and buffers that the program writes, and parameters that are trained, are states; the
    results are named out0, out1, ...  Values have the bits of to_c()'s file.  An operator that the runtime lacks is an error.

    Example::

        >>> program = torch.export.export(nn.Linear(2, 3), (torch.zeros(4, 2),))
        >>> len(torch.export.to_rt(program)) % 16
        0
    """
    with errors_name("to_rt"):
        _check(program, "array", "model", dtype)
        path = _checked_path(path)
        inputs = _inputs(program, dtype)
        first = {id(x): x.value.clone() for x in inputs if x.is_tensor}
        graph, ordered, written = _recorded(program, inputs, training)
        _check_memory(ordered, written)
    given = [first[id(x)] if id(x) in first else x.value.new_zeros(x.value.shape) for x in ordered]
    results = tuple(f"out{k}" for k in range(len(graph.outputs)))
    data = graph.rt_file(given, tuple(_kind(x, w) for x, w in zip(ordered, written)), results)
    if path is not None:
        with open(path, "wb") as file:
            file.write(data)
    return data
