"""Runs programs of other libraries and compares what they compute with torch's results.

    python run.py [LIBRARY...] [--only TEXT] [--record] [--table FILE]

programs/LIBRARY.py has functions named by @program; each returns numbers: a list, or a dict of
lists.  With --record, under torch, the numbers go to expected/LIBRARY.json; otherwise they are
compared with that file: integers and texts must be equal, and floats within the program's
tolerance.  Each library runs in a separate process.  differing.txt gives reasons for programs
that differ; the exit status is 1 if a program differs without a reason, or passes with one.
"""
import argparse
import importlib.util
import json
import math
import os
import subprocess
import sys
import time
import traceback
import warnings
from importlib.metadata import files, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
DISTRIBUTIONS = {"exports": "torch", "pyro": "pyro-ppl"}
CHECKOUTS = {"examples": "examples", "nanogpt": "nanoGPT"}  # file of programs -> folder


def expected_file(library):
    return HERE / "expected" / f"{library}.json"


def rounded(x):
    """The number with seven digits, which is what a file needs."""
    if isinstance(x, dict):
        return {str(key): rounded(value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        return [rounded(value) for value in x]
    if isinstance(x, float):
        return float(f"{x:.7g}") if math.isfinite(x) else str(x)
    return x


def difference(got, want, tolerance):
    """Where two results differ, as text; None where they agree."""
    if isinstance(want, dict) and isinstance(got, dict):
        if got.keys() != want.keys():
            return f"{sorted(got)} instead of {sorted(want)}"
        pairs = [(key, got[key], want[key]) for key in want]
    elif isinstance(want, list) and isinstance(got, list):
        if len(got) != len(want):
            return f"{len(got)} values instead of {len(want)}"
        pairs = [(i, a, b) for i, (a, b) in enumerate(zip(got, want))]
    elif isinstance(want, float) and isinstance(got, (int, float)):
        near = abs(got - want) <= tolerance * max(1.0, abs(want))
        return None if near else f"{got} instead of {want}"
    else:
        return None if got == want else f"{got} instead of {want}"
    for key, a, b in pairs:
        found = difference(a, b, tolerance)
        if found:
            return f"[{key}] {found}"
    return None


# --- in a library's process ---

def define_operators():
    """Declares the operators that the import of torchvision needs if its extension does not load.

    torchvision's wheel is built for CUDA.  To record its programs with a torch without CUDA,
    LD_LIBRARY_PATH must name stand-ins for CUDA's libraries.
    """
    import torch
    [extension] = [f for f in files("torchvision") if f.name == "_C.so"]
    try:
        torch.ops.load_library(extension.locate())
    except OSError:
        for name in ("nms", "qnms"):
            torch.library.define(f"torchvision::{name}",
                                 "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def load(library):
    """The programs of a library, by name."""
    define_operators()
    path = HERE / "programs" / f"{library}.py"
    spec = importlib.util.spec_from_file_location(f"programs_of_{library}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from program import PROGRAMS
    return PROGRAMS


def run_one(function):
    start = time.perf_counter()
    try:
        result = {"values": rounded(function())}
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"
        result = {"error": f"{type(error).__name__}: {str(error).strip()[:300]} ({where})"}
    return {**result, "seconds": round(time.perf_counter() - start, 2)}


def worker(library, only):
    """Writes a line of JSON for each program."""
    out, sys.stdout = sys.stdout, sys.stderr
    warnings.simplefilter("ignore")
    try:
        programs = load(library)
    except Exception as error:
        programs = {}
        print(json.dumps({"name": "import", "error": f"{type(error).__name__}: {error}"}), file=out)
        traceback.print_exc()
    for name, (function, tolerance) in programs.items():
        if only in name:
            print(json.dumps({"name": name, "tolerance": tolerance, **run_one(function)}), file=out,
                  flush=True)


# --- in the main process ---

def results(library, only, log):
    """{name: result} of a library's process."""
    found = {}
    process = subprocess.Popen([sys.executable, __file__, library, "--worker", "--only", only],
                               text=True, stdout=subprocess.PIPE, stderr=log)
    for line in process.stdout:
        result = json.loads(line)
        found[result.pop("name")] = result
    if process.wait():
        found["process"] = {"error": f"exit status {process.returncode}"}
    return found


def read_reasons():
    """{"library program": reason}"""
    rows = [line.split(" ", 2) for line in (HERE / "differing.txt").read_text().splitlines()
            if line and not line.startswith("#")]
    return {f"{library} {name}": reason for library, name, reason in rows}


def release_of(library):
    """The version of a distribution, or the commit of a repository."""
    if library in CHECKOUTS:
        rows = map(str.split, (HERE / "checkouts.txt").read_text().splitlines())
        return next(row[2][:7] for row in rows if row[:1] == [CHECKOUTS[library]])
    return version(DISTRIBUTIONS.get(library, library))


def record(library, found):
    for name, result in found.items():
        if "error" in result:
            print(f"{library} {name} is not recorded: {result['error']}")
    expected_file(library).parent.mkdir(exist_ok=True)
    lines = [f'"{name}": {json.dumps(result["values"])}' for name, result in found.items()
             if "values" in result]
    expected_file(library).write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{library}: {len(lines)} recorded")


def judge(found, wanted):
    """{name: difference, or None}"""
    out = {}
    for name, result in found.items():
        if "error" in result:
            out[name] = result["error"]
        elif name not in wanted:
            out[name] = "no recorded result"
        else:
            out[name] = difference(result["values"], wanted[name], result["tolerance"])
    return out


def compare(library, found, only):
    """Prints a library's differences.  Returns its row and whether all are as expected."""
    wanted = json.loads(expected_file(library).read_text())
    reasons, good = read_reasons(), True
    judged = judge(found, wanted)
    for name in wanted:
        if only in name:
            judged.setdefault(name, "did not run")
    for name, text in judged.items():
        reason = reasons.get(f"{library} {name}")
        if text:
            print(f"{library} {name}: {text}" + (f"  [{reason}]" if reason else ""))
        elif reason:
            print(f"{library} {name}: passes, and differing.txt says it does not")
        good &= bool(text) == bool(reason)
    passed = sum(text is None for text in judged.values())
    seconds = sum(result.get("seconds", 0) for result in found.values())
    release = release_of(library)
    return f"| {library} | {release} | {passed} | {len(judged)} | {seconds:.0f} |", good


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("libraries", nargs="*")
    parser.add_argument("--only", default="", help="programs whose name has this text")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--table", help="a file for the table")
    parser.add_argument("--log", default=os.devnull, help="a file for the programs' own output")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        return worker(options.libraries[0], options.only)
    libraries = options.libraries or sorted(
        path.stem for path in (HERE / "programs").glob("*.py"))
    rows, good = ["| library | version | passed | of | seconds |", "|---|---|---|---|---|"], True
    with open(options.log, "w") as log:
        for library in libraries:
            found = results(library, options.only, log)
            if options.record:
                record(library, found)
                continue
            row, as_expected = compare(library, found, options.only)
            rows.append(row)
            good &= as_expected
    if not options.record:
        print("\n".join(rows))
        if options.table:
            Path(options.table).write_text("\n".join(rows) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
