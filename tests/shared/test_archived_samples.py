"""Recorded samples of torch's operators as archives: traced, saved, loaded, with eager's bits.

Each archive has one call, whose tensors are the program's inputs.  Calls without tensors as results are no programs.
"""
import importlib.util
import io
import lzma
import os
import sys
import warnings

import cresset as torch

UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
FOLDER = os.path.join(os.environ["SHARED"], "conformance")


def replayer():
    spec = importlib.util.spec_from_file_location("check_opinfo", os.path.join(FOLDER, "check_opinfo.py"))
    module = sys.modules["check_opinfo"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vectors = sorted(f for f in os.listdir(FOLDER) if f.endswith(".pkl.xz"))[-1]
    with lzma.open(os.path.join(FOLDER, vectors)) as f:
        return module.Replay("cresset"), module.Plain(f).load()["ops"]


def flatten(x, tensors):
    """A form of nested arguments from which a call can be filled with other tensors."""
    if isinstance(x, torch.Tensor):
        tensors.append(x)
        return len(tensors) - 1, None
    if isinstance(x, (list, tuple)):
        return type(x), [flatten(y, tensors) for y in x]
    if isinstance(x, dict):
        return dict, [(k, flatten(v, tensors)) for k, v in x.items()]
    return None, x


def filled(form, tensors):
    kind, inside = form
    if kind in (list, tuple):
        return kind(filled(y, tensors) for y in inside)
    if kind is dict:
        return {k: filled(v, tensors) for k, v in inside}
    return inside if kind is None else tensors[kind]


def archived(replay, row):
    """The call's results from its archive, and the names of the operators in it."""
    def inputs():
        tensors = []
        return flatten([replay.build(row[1], []), replay.build(row[2], [])], tensors), tensors

    function, (form, tensors) = replay.function(row[0]), inputs()

    def call(*given):
        args, kwargs = filled(form, given)
        return function(*args, **kwargs)
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.trace(call, tuple(tensors), check_trace=False), buffer)
    buffer.seek(0)
    program = torch.jit.load(buffer)
    names = {node.kind() for node in program.inlined_graph.nodes()}
    torch.manual_seed(0)
    wanted = call(*inputs()[1])
    torch.manual_seed(0)
    return program(*inputs()[1]), wanted, {name for name in names if name.startswith("aten::")}


def has_tensors(want):
    return isinstance(want, tuple) and bool(want) and \
        (want[0] == "T" or want[0] in ("L", "U") and len(want[1]) > 0 and all(map(has_tensors, want[1])))


def test_archived_samples_have_eagers_bits():
    replay, ops = replayer()
    wrong, operators = [], set()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key, entry in ops.items():
            rows = [rows[0] for group, rows in entry.items() if group in ("float32", "int64") and rows]
            for row in rows:
                if not has_tensors(row[3]) or True in row[2][1].values() and key == "fill":
                    continue  # torch's schema has no bool for a Scalar
                try:
                    found, wanted, names = archived(replay, row)
                    operators |= names
                    if key not in UNDEFINED:
                        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
                except Exception as e:
                    wrong.append(f"{key}: {type(e).__name__}: {str(e).strip()[-200:]}")
    assert not wrong, "\n".join(wrong)
    assert len(operators) > 300
