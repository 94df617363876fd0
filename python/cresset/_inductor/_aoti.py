"""aoti_compile_and_package(): an exported program as compiled code and weights in one file.

The program is recorded at a few sizes, printed as C by the room compile (c_object.c), compiled by the system's compiler, and
written with its weights in the layout of object/object.h.
"""
import io
import json
import os
import shutil
import subprocess
import tempfile

from .. import _C, Tensor, no_grad, zeros
from .._size_expr import Size
from ..export._c_file import _check_memory, _Input, _kind, _recorded, errors_name
from ..export.exported_program import ExportedProgram, refuse_values
from ..export.graph_signature import ConstantArgument, InputKind, OutputKind
from ..utils._pytree import tree_flatten, treespec_dumps
from . import config
from ._fold_norms import folded

# Sizes at which a program is recorded: primes, so that a size that varies equals no other one.
_PROBES = (11, 13, 17, 19, 23, 29, 37, 53, 89, 131)


def _checked_path(path):
    if path is None:
        return tempfile.NamedTemporaryFile(suffix=".pt2", delete=False).name
    if isinstance(path, io.IOBase):
        return path
    assert isinstance(path, (str, os.PathLike)) and os.fspath(path).endswith(".pt2"), (
        f"Expect package path to be a file ending in .pt2, is None, or is a buffer. Instead got {path}")
    return os.fspath(path)


def _symbol(program):
    """The only symbol of the inputs' sizes, with its least and greatest value; (None, 0, 0) if sizes are fixed."""
    found = {}
    for node, spec in zip(program.graph.nodes, program.graph_signature.input_specs):
        value = node.meta.get("val")
        if spec.kind != InputKind.USER_INPUT or not isinstance(value, Tensor):
            continue
        for size in value.shape:
            for name in size.node.expr.free_symbols if hasattr(size, "node") and hasattr(size.node, "expr") else ():
                found[name] = True
    if len(found) > 1:
        raise ValueError(f"the sizes {', '.join(sorted(found))} vary: a compiled program has at most one size that does")
    for name in found:
        bounds = next((b for s, b in program.range_constraints.items() if str(s) == name), None)
        low, high = (int(bounds.lower), bounds.upper) if bounds else (2, 2**62)
        high = int(high) if high is not None and high < 2**31 else 2**62
        return name, max(low, 1), high
    return None, 0, 0


def _probes(low, high):
    """Up to five sizes of a range, in order."""
    found = [n for n in _PROBES if low <= n <= high][-5:]
    if len(found) < 4:
        low = max(low, 2) if high > 4 else low
        found = sorted({*range(low, high + 1, max(1, (high - low) // 4))})[-5:]
    return found


def _at(size, symbol, n):
    """A size of an input when the symbol is n."""
    expr = getattr(getattr(size, "node", None), "expr", None)
    return size if expr is None or expr.is_number else expr.subs({symbol: Size.of(n)}).value


def _inputs(program, symbol, n, example):
    """The inputs in the order of the graph's placeholders, with the size n for the symbol."""
    named = {**program.constants, **program.state_dict}
    given, inputs = iter(example), []
    for node, spec in zip(program.graph.nodes, program.graph_signature.input_specs):
        if spec.kind == InputKind.USER_INPUT:
            value, fake = next(given), node.meta.get("val")
            if isinstance(value, Tensor) and symbol is not None:
                sizes = [_at(size, symbol, n) for size in fake.shape]
                value = zeros(sizes, dtype=value.dtype)
            inputs.append(_Input(node.name, value, "argument"))
            inputs[-1].target = node.name
        else:
            inputs.append(_Input(node.name, named[spec.target], "parameter" if spec.kind == InputKind.PARAMETER else "buffer"))
            inputs[-1].target = spec.target
    return inputs


def _compiler(path):
    for name in (path, os.environ.get("CR_CC"), "gcc", "clang", "cc"):
        if name and shutil.which(name):
            return shutil.which(name)
    raise RuntimeError("aoti_compile_and_package() needs a C compiler: gcc, clang, cc, or the one that CR_CC names")


def _compiled(text, isa, compiler):
    """The shared object of a C file."""
    flags = ["-std=gnu11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-ffp-contract=off", "-fno-math-errno", "-w", *isa.split()]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "model.c"), "w") as file:
            file.write(text)
        done = subprocess.run([_compiler(compiler), *flags, "model.c", "-o", "model.so", "-s", "-lm"], cwd=folder, capture_output=True,
                              text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the C compiler failed: {done.stderr.strip().splitlines()[:1]}")
        with open(os.path.join(folder, "model.so"), "rb") as file:
            return file.read()


def _results(program):
    """For each result of the module: its number among the arrays, or [constant]."""
    out, count = [], 0
    for spec in program.graph_signature.output_specs:
        if spec.kind != OutputKind.USER_OUTPUT:
            continue
        if isinstance(spec.arg, ConstantArgument):
            out.append([spec.arg.value])
        else:
            out.append(count)
            count += 1
    return out


def _numbers(program):
    """[place, name, value] of arguments that are no tensors, and that every call must have."""
    user = [spec for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    return [[i, spec.arg.name, spec.arg.value] for i, spec in enumerate(user)
            if isinstance(spec.arg, ConstantArgument) and isinstance(spec.arg.value, (type(None), bool, int, float, str))]


def _weights(program, inputs, kinds, places):
    """What load_constants() needs to know of each constant; None: it cannot be replaced."""
    by_name = {x.name: (x, kind, place) for x, kind, place in zip(inputs, kinds, places)}
    out = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            continue
        x, kind, place = by_name.get(spec.arg.name, (None, None, None))
        known = x is not None and kind[1] == "file" and place is not None
        out[spec.target] = dict(zip(("offset", "panel", "columns", "depth", "deep", "wide"), place), shape=list(x.value.shape),
                                dtype=str(x.value.dtype).partition(".")[2]) if known else None
    return out


def compile_and_package(program, path, settings):
    if not isinstance(program, ExportedProgram):
        raise ValueError("Only ExportedProgram is supported")
    if program.example_inputs is None:
        raise RuntimeError("exported_program.example_inputs is required to be set in order for AOTInductor compilation.")
    path = _checked_path(path)
    if settings.get("aot_inductor.output_path"):
        raise RuntimeError("Please pass in a package path to aot_inductor_compile() instead of setting the aot_inductor.output_path config.")
    with config.patch(settings), errors_name("aoti_compile_and_package"):
        records = _package(program)
    folder = "archive" if isinstance(path, io.IOBase) else os.path.basename(path).removesuffix(".pt2")
    to = path.write if isinstance(path, io.IOBase) else os.fsencode(os.path.realpath(path))
    _C._checkpoint_save(to, folder, [(f"data/aotinductor/model/model.{k}", v) for k, v in records.items()] +
                        [("archive_format", b"pt2"), ("archive_version", b"0"), ("byteorder", b"little")], True)
    return path


def _package(program):
    """The records of a package."""
    settings = config.aot_inductor
    for name, kind, what in (("libraries", bool, "True or False"), ("fold_norms", bool, "True or False"), ("metadata", dict, "a dict")):
        if not isinstance(getattr(settings, name), kind):
            raise TypeError(f"aot_inductor.{name} is {what}, not {getattr(settings, name)!r}")
    isa, flags = _C._aot_isa(settings.isa)
    text, weights, spec = _printed(program, settings)
    code = _compiled(text, flags, settings.compiler)
    spec = json.dumps(spec).encode()
    return {"so": code, "weights": weights, "spec": spec, "seal": _C._aot_seal(code, weights, spec, isa)}


def _printed(program, settings):
    """The C file, the weights, and what the package says of the program to Python."""
    refuse_values(program, "aoti_compile_and_package")
    example = tree_flatten(program.example_inputs)[0]
    symbol, low, high = _symbol(program)
    probes, kinds = [], None
    for n in _probes(low, high) if symbol else [0]:
        inputs = _inputs(program, symbol, n, example)
        graph_module, inputs = folded(program, inputs) if settings.fold_norms else (program.graph_module, inputs)
        first = {id(x): x.value.clone() for x in inputs if x.is_tensor and not n}
        with no_grad():
            graph, ordered, written = _recorded(program, inputs, None, graph_module)
        if kinds is None:
            _check_memory(ordered, written)
            kept, kinds = ordered, tuple(_kind(x, w, "file") for x, w in zip(ordered, written))
        probes.append((graph, [first.get(id(x), x.value) for x in ordered], n))
    text, weights, places = _C._aot_file(probes, kinds, symbol, low, high, settings.libraries)
    flat = [i for i, x in enumerate(example) if isinstance(x, Tensor)]
    spec = {"in_spec": treespec_dumps(program.call_spec.in_spec, 1), "out_spec": treespec_dumps(program.call_spec.out_spec, 1),
            "inputs": flat, "written": [k for k, (_, kind) in enumerate(kinds) if kind == "written"],
            "numbers": _numbers(program), "results": _results(program),
            "metadata": {str(k): str(v) for k, v in settings.metadata.items()}, "weights": _weights(program, kept, kinds, places)}
    return text, weights, spec
