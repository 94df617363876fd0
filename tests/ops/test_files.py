"""Calls of the operator table as C files and as files of the runtime: those that are refused are those of not_in_files.txt.

`python test_files.py` rewrites the list.
"""
import os
import warnings

import cresset as torch
from cresset import _C
from table import ENTRIES, Draw, leaves

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "not_in_files.txt")
DTYPES = ("float32", "int64", "bool", "complex64")


def drawn(entry, case):
    """The arguments of a call with tensors, which runs."""
    for dtype in DTYPES:
        try:
            draw = Draw(entry, case, dtype)
            with torch.no_grad():
                result = draw.run()
        except Exception:  # another dtype may be supported
            continue
        if next(leaves(result), None) is not None and any(isinstance(x, torch.Tensor) for v in draw.values.values() for x in leaves(v)):
            return Draw(entry, case, dtype)
    return None


def recorded(draw):
    """The graph of a call, and its inputs; None: it depends on elements when it is recorded."""
    given = []
    for x in leaves(list(draw.values.values())):
        if not any(x is y for y in given):
            given.append(x)
    recorder = _C.Recorder(parts=False)
    try:
        with torch.no_grad():
            for x in given:
                recorder.input(x)
            recorder.start()
            try:
                result = draw.run()
            finally:
                recorder.stop()
        return recorder.finish(list(leaves(result))), [x.detach().clone() for x in given]
    except RuntimeError:
        return None


def write_c(graph, given):
    _C._c_file(graph, given, tuple((f"in_{k}", "written") for k in range(len(given))), "model", False)


def write_rt(graph, given):
    graph.rt_file(given, tuple((f"in_{k}", "written") for k in range(len(given))), tuple(f"out{k}" for k in range(len(graph.outputs))))


def refused():
    """Lines `entry: kind of file: why`, and how many calls were written in each kind."""
    lines, written = set(), {"to_c": 0, "to_rt": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for entry in ENTRIES:
            for case in entry.cases() if entry.can_be_drawn() else ():
                draw = drawn(entry, case)
                made = draw and recorded(draw)
                if not made:
                    continue
                for kind, write in (("to_c", write_c), ("to_rt", write_rt)):
                    try:
                        write(made[0], [x.clone() for x in made[1]])
                        written[kind] += 1
                    except ValueError as error:
                        lines.add(f"{entry.key}: {error}")
    return sorted(lines), written


def test_calls_that_no_file_has():
    with open(LIST, encoding="utf-8") as file:
        known = [line for line in file.read().splitlines() if line and not line.startswith("#")]
    lines, written = refused()
    assert not set(lines) - set(known), "refused, and not in not_in_files.txt"
    assert not set(known) - set(lines), "in not_in_files.txt, and not refused"
    assert min(written.values()) > 600


if __name__ == "__main__":
    found, counts = refused()
    with open(LIST, "w", encoding="utf-8") as out:
        out.write("# Calls of the operator table that to_c() or to_rt() refuses, and why (test_files.py).\n")
        out.write("".join(f"{line}\n" for line in found))
    print(counts, len(found))
