"""Programs in NumPy (tests/python/numpy_programs.py) beside NumPy and torch.compile, as a Markdown table.

    python bench/numpy_functions.py [--peer PYTHON] [--size N] [--only TEXT]

Each library has a fresh process with two threads.  A time is the least of ten calls, in ms, after the program
is compiled; calls of NumPy's and of the compiled program alternate.  "x" is NumPy's time over the compiled
program's.
"""
import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(1, os.path.join(HERE, "..", "tests", "python"))
WARM_SECONDS = 20


def once(f, args):
    start = time.perf_counter()
    f(*args)
    return (time.perf_counter() - start) * 1e3


def measure(library, name, size):
    import importlib
    import warnings
    from numpy_programs import PROGRAMS
    torch = importlib.import_module(library)
    warnings.simplefilter("ignore")
    torch.set_num_threads(2)
    program, arguments = PROGRAMS[name]
    args, compiled = arguments(size), torch.compile(program)
    for _ in range(4):
        compiled(*args)
    if library == "cresset":
        torch._C._jit_wait(WARM_SECONDS)
        compiled(*args)
    pairs = [(once(program, args), once(compiled, args)) for _ in range(10)]
    return [min(column) for column in zip(*pairs)]


def child(python, library, name, size):
    done = subprocess.run([python, __file__, "--worker", library, "--only", name, "--size", str(size)], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "2"}, timeout=600)
    return json.loads(done.stdout) if not done.returncode else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--only", default="")
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(measure(options.worker, options.only, options.size)))
        return
    from numpy_programs import PROGRAMS
    print("| program | NumPy | compiled | x | torch.compile | x |\n|---|---|---|---|---|---|")
    for name in PROGRAMS:
        if options.only not in name:
            continue
        ours = child(sys.executable, "cresset", name, options.size)
        theirs = child(options.peer, "torch", name, options.size) if options.peer else None
        cells = [f"{ours[0]:.2f}", f"{ours[1]:.2f}", f"{ours[0] / ours[1]:.1f}"] if ours else ["-"] * 3
        cells += [f"{theirs[1]:.2f}", f"{theirs[0] / theirs[1]:.1f}"] if theirs else ["-"] * 2
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
