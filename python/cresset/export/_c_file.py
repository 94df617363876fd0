"""to_c(): an exported program as one C99 file."""
import errno
import os
import re
from contextlib import contextmanager

from .. import Tensor, _C, bfloat16, enable_grad, float16, float32, float64, no_grad, ops, optim, zeros_like
from .._higher_order_ops.operators import associative_scan_by_rows
from ..autograd import grad
from ..fx import Interpreter
from ..utils._pytree import tree_flatten
from .exported_program import ExportedProgram, refuse_parts, refuse_values
from .graph_signature import ConstantArgument, InputKind, OutputKind


@contextmanager
def errors_name(function):
    """Errors of what to_c() and another function share name that function."""
    try:
        yield
    except (TypeError, ValueError) as error:
        text = str(error)
        if not text.startswith("to_c: "):
            raise
        raise type(error)(f"{function}: {text.removeprefix('to_c: ')}") from None


class _Input:
    """An input of the file's function: a tensor, which no one else has, or a constant."""

    def __init__(self, name, value, kind, dtype=None):
        self.memory = value.untyped_storage().data_ptr() if isinstance(value, Tensor) else 0
        if isinstance(value, Tensor):
            value = value.detach().contiguous().clone()
            if dtype is not None and value.is_floating_point():
                value = value.to(dtype)
        self.name, self.value, self.kind = name, value, kind
        self.requires_grad = False

    @property
    def is_tensor(self):
        return isinstance(self.value, Tensor)


def _inputs(program, dtype):
    """The inputs in the order of the graph's placeholders."""
    if not isinstance(program, ExportedProgram):
        raise TypeError(f"to_c: the program is an ExportedProgram, which torch.export.export makes, not {type(program).__name__}")
    if program.example_inputs is None:
        raise ValueError("to_c: the program has no example inputs, whose sizes the file has")
    given = iter(tree_flatten(program.example_inputs)[0])
    named = {**program.constants, **program.state_dict}
    nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
    inputs = []
    for node, spec in zip(nodes, program.graph_signature.input_specs):
        if spec.kind == InputKind.USER_INPUT:
            inputs.append(_Input(node.name, next(given), "argument", dtype))
        else:
            kind = "parameter" if spec.kind == InputKind.PARAMETER else "buffer"
            inputs.append(_Input(node.name, named[spec.target], kind, dtype))
            inputs[-1].requires_grad = kind == "parameter" and named[spec.target].requires_grad
        inputs[-1].target = spec.target if spec.kind != InputKind.USER_INPUT else node.name
    return inputs


_HALVES = (float16, bfloat16)


def _check(program, weights, name, dtype, halves=()):
    if not isinstance(weights, str) or weights not in ("array", "file"):
        raise ValueError(f"to_c: weights is 'array' or 'file', not {weights!r}")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ValueError(f"to_c: {name!r} is no name of C")
    if not any(dtype is known for known in (None, float64, *halves)):
        known = ", ".join(["None", *(str(half) for half in halves)])
        raise ValueError(f"to_c: dtype is {known} or torch.float64, not {dtype!r}")


def _checked_path(path):
    """Where the file is written, whose folder is there; None: nowhere."""
    if path is None:
        return None
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"to_c: the path is a str or os.PathLike, not {type(path).__name__}")
    path = os.fspath(path)
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return path


class SizesInterpreter(Interpreter):
    """Runs a graph; sizes are numbers and no calls."""

    def call_function(self, target, args, kwargs):
        if target is ops.aten.sym_size.int:
            return args[0].shape[args[1]]
        if target is ops.higher_order.associative_scan:
            return associative_scan_by_rows(*args)
        return super().call_function(target, args, kwargs)


def _run(program, inputs, graph_module=None):
    """The results of the program that are tensors; what it changes is written to the inputs.  graph_module: another one of
    the same program."""
    out = SizesInterpreter(graph_module or program.graph_module).run(*(x.value for x in inputs))
    by_target, results = {x.target: x for x in inputs}, []
    for value, spec in zip(out, program.graph_signature.output_specs):
        if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION):
            with no_grad():
                by_target[spec.target].value.copy_(value)
        elif not isinstance(spec.arg, ConstantArgument):
            results.append(value)
    return results


# Optimizers whose steps are calls of tensors here, and the methods that make up a step.
_STEPS = {optim.Adam: ("step", "_step_group", "_update", "_new_state"), optim.SGD: ("step", "_step_group", "_step_plain", "_decay", "_momentum")}


class _Training:
    """A training step: the program's first result is the loss, whose gradient updates the parameters."""

    def __init__(self, make, inputs):
        parameters = [x for x in inputs if x.kind == "parameter"]
        for x in parameters:
            x.value.requires_grad_(x.requires_grad)
        if make is not True and not callable(make):
            raise TypeError(f"to_c: training is True, or a function of the parameters that returns an optimizer, not {make!r}")
        self.optimizer = (optim.Adam if make is True else make)([x.value for x in parameters])
        self._check()
        given = {id(p) for p in self.optimizer.param_groups[0]["params"]}
        if given - {id(x.value) for x in parameters}:
            raise ValueError("to_c: the optimizer has a tensor that is no parameter of the program")
        self.params = [x for x in parameters if x.requires_grad and id(x.value) in given]
        if not self.params:
            raise ValueError("to_c: training needs a parameter that requires a gradient and that the optimizer has")
        # Counts are tensors of float64: a number would be that of the first step.
        self.group = {**self.optimizer.param_groups[0], "capturable": True}
        self.states, self.inputs = [], []
        for x in self.params:
            state = self._first_state(x.value)
            for key, value in state.items():
                self.inputs.append(_Input(f"{x.name}_{key}", value, "state"))
                state[key] = self.inputs[-1].value
            self.states.append(state)

    def _check(self):
        kind = type(self.optimizer)
        if not any(issubclass(kind, base) and all(getattr(kind, name) is getattr(base, name) for name in names)
                   for base, names in _STEPS.items()):
            raise ValueError(f"to_c: training with {kind.__name__} has no C99 form; Adam, AdamW and SGD have one")
        if len(self.optimizer.param_groups) != 1:
            raise ValueError("to_c: training has one group of parameters")
        group = self.optimizer.param_groups[0]
        if isinstance(self.optimizer, optim.SGD) and group["momentum"] and group["dampening"]:
            raise ValueError("to_c: training with SGD has no C99 form with dampening, which the first step leaves out")

    def _first_state(self, param):
        if isinstance(self.optimizer, optim.SGD):  # a buffer of zeros makes the first step like later ones
            return {"momentum_buffer": zeros_like(param)} if self.group["momentum"] else {}
        state = self.optimizer._new_state(param, param, self.group)
        if "step" in state:
            state["step"] = state["step"].to(float64)
        return state

    def _update(self, param, grad, state):
        if isinstance(self.optimizer, optim.SGD):
            self.optimizer.state[param] = state
            self.optimizer._step_plain(self.group, [param], [grad])
        else:
            self.optimizer._update(param, -grad if self.group.get("maximize") else grad, state, self.group)

    def step(self, results):
        loss = results[0]
        if not isinstance(loss, Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise ValueError("to_c: training needs a program whose first result is the loss, a tensor of one element")
        grads = grad(loss, [x.value for x in self.params], allow_unused=True)
        with no_grad():
            for x, g, state in zip(self.params, grads, self.states):
                if g is not None:
                    self._update(x.value, g, state)


def _recorded(program, inputs, training, graph_module=None):
    """The graph of a call, its inputs, and whether each is written."""
    refuse_parts(program, "to_c")
    refuse_values(program, "to_c", fixed=True)
    train = _Training(training, inputs) if training else None
    ordered = sorted((x for x in inputs + (train.inputs if train else []) if x.is_tensor), key=lambda x: x.kind != "argument")
    recorder, versions = _C.Recorder(parts=bool(train)), [x.value._version for x in ordered]
    with enable_grad() if train else no_grad():
        for x in ordered:
            recorder.input(x.value)
        recorder.start()
        try:
            results = _run(program, inputs, graph_module)
            if train:
                train.step(results)
        finally:
            recorder.stop()
    if not all(isinstance(x, Tensor) for x in results):
        raise ValueError("to_c: a result of the program is no tensor")
    written = [x.value._version != v for x, v in zip(ordered, versions)]
    return recorder.finish(results).apply("dead"), ordered, written  # backward functions are recorded with their parts, too


def _check_memory(inputs, written):
    """Raises where a parameter or buffer that is written shares its memory: the file's arrays are apart."""
    own = [(x, w) for x, w in zip(inputs, written) if x.kind in ("parameter", "buffer") and x.memory and x.value.numel()]
    for x, w in own:
        other = next((y for y, _ in own if w and y is not x and y.memory == x.memory), None)
        if other is not None:
            raise ValueError(f"to_c: the program writes {x.target}, which shares its memory with {other.target}")


def _kind(x, written, weights):
    """The name of an input in the file, and what it is there (RecordedGraph.c_file)."""
    if x.kind == "argument":
        return f"in_{x.name}", "written" if written else "argument"
    return (f"state_{x.name}", f"state {weights}") if written else (f"w_{x.name}", weights)


def _half_of(x, dtype):
    """A parameter in a half dtype."""
    half = x.value.detach().to(dtype)
    if (half.isinf() & ~x.value.isinf()).any():
        raise ValueError(f"to_c: the parameter {x.target} has {x.value.abs().max().item():g}, which {dtype} cannot hold")
    return half


def to_c(program, path=None, *, weights="array", dtype=None, training=False, threads=False, name="model"):
    """Writes an exported program as one C99 file, and returns its text.

        weights   "array": parameters, buffers and constants stand in the file; "file": they are in PATH.weights, whose bytes
                  the caller gives to NAME_run
        dtype     float64: numbers of floating point are doubles; float16 or bfloat16: the file has parameters of float32 in this
                  dtype, rounded, and computes with their float32 values; or None
        training  the file computes a step of training: the program's first result is the loss, and parameters that require
                  gradients are updated by Adam, or by the Adam, AdamW or SGD that training(parameters) returns
        threads   NAME_run takes threads of its caller (struct NAME_threads), which share the work; results do not depend on them
        name      the file has size_t NAME_work_bytes(void) and int NAME_run(arguments, states, results, work)

    The file allocates nothing, has no globals but constants, and needs the C library's mathematics only.  Sizes are those of
    the example inputs.  Buffers that the program writes, and parameters that are trained, are arrays of the caller, which
    NAME_start fills with their first values.  Results have eager's bits, but for products, convolutions and functions of C's
    library.  An operator without a C99 form is an error.

    Example::

        >>> program = torch.export.export(nn.Linear(2, 3), (torch.zeros(4, 2),))
        >>> "int layer_run(const float *in_input, float *out0, void *work)" in torch.export.to_c(program, name="layer")
        True
    """
    _check(program, weights, name, dtype, _HALVES)
    path = _checked_path(path)
    if not isinstance(threads, bool):
        raise TypeError(f"to_c: threads is True or False, not {threads!r}; the caller of NAME_run says how many")
    if training and dtype in _HALVES:
        raise ValueError(f"to_c: dtype={dtype} is for parameters that the program only reads, and training writes them")
    if weights == "file" and path is None:
        raise ValueError("to_c: weights='file' needs a path, beside which the file of weights stands")
    inputs = _inputs(program, None if dtype in _HALVES else dtype)
    first = {id(x): x.value.clone() for x in inputs if x.is_tensor}
    graph, ordered, written = _recorded(program, inputs, training)
    _check_memory(ordered, written)
    given = [first[id(x)] if id(x) in first else x.value.new_zeros(x.value.shape) for x in ordered]
    kinds = [_kind(x, w, weights) for x, w in zip(ordered, written)]
    for k, (x, w) in enumerate(zip(ordered, written)):
        if dtype in _HALVES and x.kind == "parameter" and not w and x.value.dtype == float32:
            kinds[k] += (_half_of(x, dtype),)
    text, data, _ = _C._c_file(graph, given, tuple(kinds), name, threads)
    if path is not None:
        with open(path, "w") as file:
            file.write(text)
        if weights == "file":
            with open(f"{path}.weights", "wb") as file:
                file.write(data)
    return text
