"""The cost of using Cresset: time to import, memory, files.

    python bench/startup.py [--peer PYTHON] [--library LIBCRESSET.a]

Prints tables: the time that an import takes over Python's own start and the memory that it keeps,
beside torch's; the installed package by part, beside the matrix libraries that are loaded when an
operator first wants them; the operators whose kernels are largest.
"""
import argparse
import collections
import importlib.util
import os
import re
import statistics
import subprocess
import sys
import sysconfig
import time

TIMES = 11
MEMORY = "print(next(l for l in open('/proc/self/status') if l.startswith('VmRSS')).split()[1])"


# An installed package has its bytecode; the first run writes it here.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def seconds(python, code):
    """The median time of a fresh interpreter, from start to end."""
    times = []
    for _ in range(TIMES):
        start = time.perf_counter()
        subprocess.run([python, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def kilobytes(python, code):
    return int(subprocess.run([python, "-c", code + "\n" + MEMORY], check=True, capture_output=True, text=True).stdout)


def import_cost(python, module):
    empty, full = seconds(python, "pass"), seconds(python, f"import {module}")
    memory = kilobytes(python, f"import {module}") - kilobytes(python, "pass")
    return (full - empty) * 1e3, memory / 1024


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


def stripped_size(path):
    """Bytes without the debugging part, as a wheel has them."""
    target = path + ".bench"
    subprocess.run(["strip", "-g", "-o", target, path], check=True)
    size = os.path.getsize(target)
    os.remove(target)
    return size


def parts(folder):
    """(part, bytes) of the package."""
    sizes = collections.Counter()
    for where, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [f for f in folders if f != "__pycache__"]
        for name in files:
            path = os.path.join(where, name)
            if name == "_C" + sysconfig.get_config_var("EXT_SUFFIX"):
                sizes["extension"] += stripped_size(path)
            elif name.endswith(".py"):
                part = os.path.relpath(path, folder).split(os.sep)[0]
                sizes["Python: " + part.removesuffix(".py") if os.sep in os.path.relpath(path, folder) else "Python: top"] \
                    += os.path.getsize(path)
    return sizes.most_common()


def system_library(name):
    """The file and size of a shared library, or None."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(re.escape(name) + r" .*=> (\S+)", listing)
    if not found:
        return None
    path = os.path.realpath(found.group(1))
    return path, os.path.getsize(path)


def kernel_sizes(library):
    """Bytes of machine code by operator and by instruction set."""
    from cresset import _C

    names = sorted({r["name"] + ("_" + r["overload"] if r["overload"] else "") for r in _C._records()},
                   key=len, reverse=True)
    text = subprocess.run(["nm", "-S", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    by_op, by_isa = collections.Counter(), collections.Counter()
    for size, isa, symbol in re.findall(r"^\S+ (\S+) [tT] ck_(base|avx2|avx512)_(\S+)$", text, re.M):
        owner = next((n for n in names if symbol.startswith(n + "_")), "steps")
        by_op[owner] += int(size, 16)
        by_isa[isa] += int(size, 16)
    return by_op, by_isa


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--peer", default=sys.executable)
    ap.add_argument("--library", default="")
    a = ap.parse_args()

    print("| import, over Python's start | time ms | resident MB |\n|---|---|---|")
    print("| cresset | {:.1f} | {:.1f} |".format(*import_cost(sys.executable, "cresset")))
    if has_torch(a.peer):
        print("| torch | {:.1f} | {:.1f} |".format(*import_cost(a.peer, "torch")))

    folder = os.path.dirname(importlib.util.find_spec("cresset").origin)
    sizes = parts(folder)
    print("\n| installed | KB |\n|---|---|")
    for part, size in sizes:
        print(f"| {part} | {size / 1024:.0f} |")
    print(f"| **together** | **{sum(s for _, s in sizes) / 1024:.0f}** |")
    for name in ("libdnnl.so.2", "libopenblas.so.0"):
        found = system_library(name)
        print(f"| {name}, of the system | {found[1] / 1024:.0f} |" if found else f"| {name} | not installed |")

    if a.library:
        by_op, by_isa = kernel_sizes(a.library)
        total = sum(by_op.values())
        print(f"\nkernels: {total / 1024:.0f} KB for {len(by_op)} operators; "
              + ", ".join(f"{isa} {size / 1024:.0f} KB" for isa, size in sorted(by_isa.items())))
        print("\n| operator | KB |\n|---|---|")
        for op, size in by_op.most_common(15):
            print(f"| {op} | {size / 1024:.1f} |")


if __name__ == "__main__":
    main()
