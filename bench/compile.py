"""compile() beside torch.compile, as one Markdown table.

    python bench/compile.py [--peer PYTHON] [--threads N] [--only TEXT] [--repeat N] [--save FILE] [--load FILE]
                             [--peer-only]

Every row runs in fresh processes: eager, compiled with empty caches ("cold"), compiled with the
caches that the second left ("warm"), compiled at sizes where only the cost of a call is left, and,
for Cresset, without a C compiler.  --peer is an interpreter that has torch (left out: this one;
without torch its columns are empty).  --save writes the peer's figures, --load reads them instead of
measuring again.  Eager and cold processes of Cresset take turns --repeat times (3) and show medians; the peer's
run once.

    eager       ms of a call, once warm, in turns with compiled ones
    first       ms of the first compiled call, with empty caches; beside the first eager call
    native      ms from the end of the first call until every kernel is native, while calls go on
    warm        ms of the first compiled call, and until native, in a process that finds the caches
    steady      ms of a compiled call
    overhead    us of a call at the smallest sizes
    peak        MB over what the process had before the first call; of eager, of compiled
    of tensors  MB that tensors hold at most during a steady call, of Cresset
    x eager     eager's steady time over the compiled one of the same library: above 1 is faster
    x           torch.compile's steady time over ours
"""
import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

from compile_cases import CASES
from run import has_torch

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 1800  # seconds for one process

# An installed package has its bytecode; the first run writes it here.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def environment(folder, threads, **more):
    """Caches of its own, for either library."""
    caches = {name: os.path.join(folder, name) for name in ("CR_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")}
    return dict(os.environ, OMP_NUM_THREADS=str(threads), **caches, **more)


def child(python, module, name, how, threads, env, *words):
    done = subprocess.run([python, os.path.join(HERE, "compile_worker.py"), module, name, how, str(threads), *words],
                          env=env, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode:
        print(f"{module}, {name}, {how}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'ended by a signal'}",
              file=sys.stderr)
        return {}
    return json.loads(done.stdout.splitlines()[-1])


def median(runs):
    """Of several processes' figures one; bits that differ between them are nobody's."""
    figures = {what: statistics.median(run[what] for run in runs) for what in runs[0] if what != "bits"} if all(runs) else {}
    if figures:
        bits = {run["bits"] for run in runs}
        figures["bits"] = bits.pop() if len(bits) == 1 else sorted(bits)
    return figures


def measure(python, module, name, threads, repeat):
    """All figures of one row: a dictionary by way of running."""
    row, runs = {}, {"eager": [], "cold": []}
    for turn in range(repeat):
        folder = tempfile.mkdtemp(prefix="cresset_bench_")
        try:
            env = environment(folder, threads)
            runs["eager"].append(child(python, module, name, "eager", threads, env))
            runs["cold"].append(child(python, module, name, "compiled", threads, env))
            if turn < repeat - 1:
                continue
            row["warm"] = child(python, module, name, "compiled", threads, env)
            row["small"] = child(python, module, name, "compiled", threads, env, "small")
            if module == "cresset":
                bare = environment(os.path.join(folder, "bare"), threads, CR_CC="no-compiler")
                row["bare"] = child(python, module, name, "compiled", threads, bare)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return {**row, **{how: median(some) for how, some in runs.items()}}


def number(row, way, what, scale=1e3):
    v = row.get(way, {}).get(what)
    return math.nan if v is None else v * scale


def show(v, digits=2):
    return "" if math.isnan(v) else f"{v:.{digits}f}"


def cells(row):
    """One library's columns."""
    return [show(number(row, "cold", "eager"), 3),
            f"{show(number(row, 'cold', 'first'))} ({show(number(row, 'eager', 'first'))})",
            show(number(row, "cold", "native"), 0),
            f"{show(number(row, 'warm', 'first'))} + {show(number(row, 'warm', 'native'), 0)}",
            show(number(row, "cold", "steady"), 3),
            show(number(row, "small", "steady", 1e6), 1),
            f"{show(number(row, 'eager', 'peak', 1), 1)}, {show(number(row, 'cold', 'peak', 1), 1)}",
            ", ".join(filter(None, (show(number(row, how, "tensors", 1), 1) for how in ("eager", "cold")))),
            show(number(row, "cold", "eager") / number(row, "cold", "steady"))]


TITLES = ["eager ms", "first ms (eager's)", "native ms", "warm: first + native ms", "steady ms", "overhead us",
          "peak MB: eager, compiled", "of tensors", "x eager"]


def mean(values):
    values = [v for v in values if not math.isnan(v)]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def missed(row, facts):
    """What a row of ours should reach and does not, as sentences."""
    first, eager = number(row, "cold", "first"), number(row, "eager", "first")
    if first > max(1.2 * eager, eager + 5):
        yield f"the first compiled call took {show(first)} ms, eager's {show(eager)}"
    for how, limit in (("cold", 1000), ("warm", 50)):
        if number(row, how, "native") > limit:
            yield f"native code after {show(number(row, how, 'native'), 0)} ms ({how})"
    if facts.get("training") and number(row, "cold", "peak", 1) >= number(row, "eager", "peak", 1):
        yield "the peak is not below eager's"
    if number(row, "cold", "steady") > number(row, "cold", "eager"):
        yield "slower than eager"
    for how in ("cold", "warm", "bare"):
        if row.get(how) and row[how].get("bits") != row["eager"].get("bits"):
            yield f"the bits differ between {how} and eager"


def table(ours, theirs, threads):
    print(f"\n| {threads} thread(s) | library | {' | '.join(TITLES)} | x |\n|{'---|' * (len(TITLES) + 3)}")
    for name in CASES:
        for library, rows in (("cresset", ours), ("torch", theirs)):
            if name in rows:
                ratio = number(theirs.get(name, {}), "cold", "steady") / number(ours.get(name, {}), "cold", "steady")
                print(f"| {name} | {library} | {' | '.join(cells(rows[name]))} | "
                      f"{show(ratio) if library == 'cresset' else ''} |")
    faults = [f"{name}: {fault}" for name, row in ours.items() for fault in missed(row, CASES[name][1])]
    print("\n" + "\n".join(faults) if faults else "")
    ratios = [number(theirs[n], "cold", "steady") / number(r, "cold", "steady") for n, r in ours.items() if n in theirs]
    print(f"steady: geometric mean {show(mean(ratios))} times torch.compile's speed, "
          f"worst {show(min(ratios, default=math.nan))}")
    own = [number(r, "cold", "eager") / number(r, "cold", "steady") for r in ours.values()]
    print(f"steady: geometric mean {show(mean(own))} times our eager speed, worst {show(min(own, default=math.nan))}")


def bare_table(ours):
    print("\n| no C compiler | steady ms | with one | times as long |\n|---|---|---|---|")
    for name, row in ours.items():
        bare, full = number(row, "bare", "steady"), number(row, "cold", "steady")
        print(f"| {name} | {show(bare, 3)} | {show(full, 3)} | {show(bare / full)} |")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--peer", default=sys.executable)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--only", default="")
    ap.add_argument("--repeat", type=int, default=3)
    ap.add_argument("--save", default="")
    ap.add_argument("--load", default="")
    ap.add_argument("--peer-only", action="store_true")
    a = ap.parse_args()
    names = [n for n in CASES if a.only in n]
    ours, theirs = {}, {}
    if a.load:
        with open(a.load) as f:
            theirs = {n: r for n, r in json.load(f).items() if n in names}
    peer = not a.load and has_torch(a.peer)
    for name in names:
        if not a.peer_only:
            ours[name] = measure(sys.executable, "cresset", name, a.threads, a.repeat)
        if peer:
            theirs[name] = measure(a.peer, "torch", name, a.threads, 1)
        print(f"{name}: measured", file=sys.stderr, flush=True)
        if a.save and peer:
            with open(a.save, "w") as f:
                json.dump(theirs, f, indent=1)
    table(ours, theirs, a.threads)
    if ours:
        bare_table(ours)


if __name__ == "__main__":
    main()
