"""to_c(): an exported program as one C99 file."""
import re

from .. import Tensor, _C, no_grad
from ..fx import Interpreter
from ..utils._pytree import tree_flatten
from .graph_signature import InputKind, OutputKind


def _values(program):
    """(placeholder, name in the file, kind, value) of each input: a contiguous tensor, or a constant."""
    if program.example_inputs is None:
        raise ValueError("to_c: the program has no example inputs, whose sizes the file has")
    args, kwargs = program.example_inputs
    given = iter(tree_flatten((args, kwargs))[0])
    nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
    for node, spec in zip(nodes, program.graph_signature.input_specs):
        if spec.kind == InputKind.USER_INPUT:
            value, kind = next(given), "argument"
        else:
            value, kind = {**program.constants, **program.state_dict}[spec.target], "weight"
        yield node, kind, value.detach().contiguous() if isinstance(value, Tensor) else value


def _check(program, weights, name):
    if weights not in ("array", "file"):
        raise ValueError(f"to_c: weights is 'array' or 'file', not {weights!r}")
    if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ValueError(f"to_c: {name!r} is no name of C")
    changed = [s for s in program.graph_signature.output_specs if s.kind not in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)]
    if changed:
        raise ValueError(f"to_c: the program changes {changed[0].target}, which a function without state cannot")


def _recorded(program, values):
    recorder, inputs = _C.Recorder(), [x for _, _, x in values if isinstance(x, Tensor)]
    with no_grad():
        for x in inputs:
            recorder.input(x)
        recorder.start()
        try:
            out = Interpreter(program.graph_module).run(*(x for _, _, x in values))
        finally:
            recorder.stop()
    results = [x for x in out if isinstance(x, Tensor)]
    if len(results) != len(out):
        raise ValueError("to_c: a result of the program is no tensor")
    return recorder.finish(results), inputs


def to_c(program, path=None, *, weights="array", name="model"):
    """Writes an exported program as one C99 file, and returns its text.

        weights   "array": parameters, buffers and constants stand in the file; "file": they are in PATH.weights, whose bytes
                  the caller gives to NAME_run
        name      the file has size_t NAME_work_bytes(void) and int NAME_run(arguments, results, work)

    The file allocates nothing, has no globals but constants, and needs the C library's mathematics only.  Sizes are those of
    the example inputs.  Results have eager's bits, but for products and convolutions, which add in ascending order.  An operator
    without a C99 form is an error.

    Example::

        >>> program = torch.export.export(nn.Linear(2, 3), (torch.zeros(4, 2),))
        >>> "int layer_run(const float *in_input, float *out0, void *work)" in torch.export.to_c(program, name="layer")
        True
    """
    _check(program, weights, name)
    values, kinds = list(_values(program)), []
    graph, inputs = _recorded(program, values)
    for node, kind, x in values:
        if isinstance(x, Tensor):
            kinds.append((f"in_{node.name}" if kind == "argument" else f"w_{node.name}", kind if kind == "argument" else weights))
    text, data = graph.c_file(inputs, tuple(kinds), name)
    if path is not None:
        with open(path, "w") as file:
            file.write(text)
        if weights == "file":
            with open(f"{path}.weights", "wb") as file:
                file.write(data)
    return text
