"""Runs the reported programs with torch and writes its answers to reported/torch.txt.

    PYTHONPATH=tests/python TORCH_PYTHON -m capture.record_reported [REPORT ...]
    PYTHONPATH=tests/python TORCH_PYTHON -m capture.record_reported --values

The second form writes the eager results of all programs to reported/values.json.  In these commands, TORCH_PYTHON is an interpreter that has torch.  A line is "report | stage | answer | fact".  The
answer is "equal", "wrong: " with the first difference (floats are compared with a tolerance, because
inductor promises none), "raises: " with an error that eager mode does not raise, or "crashed".  Every
program runs in a process of its own.  Inductor runs with `fallback_random`, so that it draws the random
numbers of eager mode.
"""
import json
import math
import os
import sys
import traceback

import torch

sys.modules["cresset"] = torch
import torch.utils.checkpoint  # noqa: E402

from capture.harness import observed, plain, portable  # noqa: E402
from capture.reported import REPORTED, aliasing, gradients, language, operators  # noqa: E402, F401

BACKENDS = {"dynamo": "eager", "aot": "aot_eager", "inductor": "inductor"}
LIMIT = 400  # seconds for a program


def same(a, b):
    """Compares frozen data; floats need not have the same bits."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4)
    return a == b and type(a) is type(b)


def difference(wanted, got):
    """Returns the first difference of two observations."""
    for i, (a, b) in enumerate(zip(*((seen + [out]) for seen, out in (wanted, got)))):
        if not same(a, b):
            if is_error(b):
                return f"raises: {b[1]}" + (f" for {a[1]}" if is_error(a) else "")
            while isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
                a, b = next((x, y) for x, y in zip(a, b) if not same(x, y))
            return f"wrong: step {i + 1}: eager {shown(a)}, compiled {shown(b)}"
    return None if len(wanted[0]) == len(got[0]) else "wrong: another number of steps"


def is_error(x):
    """True for the name of an error class, which programs yield in the place of a result."""
    return isinstance(x, tuple) and x[0] == "str" and (x[1].endswith("Error") or x[1] == "BackendCompilerFailed")


def shown(x):
    text = repr(x).replace("\n", " ").replace("|", "/")
    return text if len(text) <= 40 else text[:37] + "..."


def answer(f, stage):
    if stage == "inductor":
        from torch._inductor import config
        config.fallback_random, config.compile_threads = True, 1

    def compile(f=None, **options):
        if f is None:
            return lambda f: compile(f, **options)
        return torch.compile(f, backend=BACKENDS[stage], **options)
    wanted = observed(f, plain)
    try:
        got = observed(f, compile)
    except Exception as e:
        return f"raises: {type(e).__name__}"
    found = difference(wanted, got)
    return found or "equal"


def values(f, _):
    return json.dumps(portable(observed(f, plain)))


def isolated(f, stage, answer=answer):
    """Returns the answer that a child process computes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        import signal
        signal.alarm(LIMIT)
        try:
            text = answer(f, stage)
        except BaseException:
            text = "the program fails: " + traceback.format_exc().strip().splitlines()[-1]
        with os.fdopen(writer, "wb") as f:
            f.write(text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as f:
        text = f.read().decode()
    os.waitpid(child, 0)
    return text or "crashed"


def main(only):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reported", "torch.txt")
    known = {}
    if only and os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            known = {line.split(" | ")[0]: line.split(" | ")[2] for line in f if not line.startswith("#")}
    lines = []
    for report, fact, stage, f, _ in REPORTED:
        text = known.get(report) if only and report not in only else isolated(f, stage)
        lines.append(f"{report} | {stage} | {text} | {fact}")
        print(lines[-1], flush=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"# Answers of torch {torch.__version__} to the reported programs, written by record_reported.py.\n")
        f.write("\n".join(lines) + "\n")


def record_values():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reported", "values.json")
    lines = [f"{json.dumps(report)}: {isolated(f, stage, values)}" for report, _, stage, f, _ in REPORTED]
    with open(path, "w", encoding="utf-8") as f:
        f.write("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    record_values() if sys.argv[1:] == ["--values"] else main(sys.argv[1:])
