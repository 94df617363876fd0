"""compile() beside torch.compile, as one Markdown table.

    python bench/compile.py [--peer PYTHON] [--threads N] [--only TEXT] [--repeat N] [--save FILE] [--load FILE]
                             [--peer-only] [--steady]

Every row runs in fresh processes: eager, compiled with empty caches ("cold"), compiled with the
caches of the cold process ("warm"), compiled at sizes at which only the cost of a call matters, and,
for Cresset, without a C compiler.  --peer is an interpreter that has torch (left out: this one;
without torch its columns are empty).  --save writes the peer's figures, --load reads them instead of
measuring again. Speed on a shared machine varies by a third from moment to moment, so compared measurements alternate:
first eager and first compiled calls of Cresset in pairs of processes, as many as FIRSTS_SECONDS
allow within FIRSTS; calls in warm processes with eager ones of the same process; warm processes of Cresset with
the peer's, --repeat times (3).  --steady measures only these warm processes, after one process that fills the caches.
Figures are medians.  The peer's cold processes run once.

    eager       ms of a call, once warm, beside compiled ones
    first       ms of the first compiled call, with empty caches; beside the first eager call
    native      ms from the end of the first call until every kernel is native, while calls go on
    warm        ms of the first compiled call, and until native, in a process that finds the caches
    steady      ms of a compiled call
    overhead    us of a call at the smallest sizes
    peak        MB over what the process had before the first call; of eager, of compiled
    of tensors  MB that tensors hold at most during a steady call, of Cresset
    x eager     eager's steady time over the compiled one of the same library, of neighbouring calls: above 1 is faster
    x           torch.compile's steady time over ours
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time

from compile_cases import CASES
from run import has_torch

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT = 1800  # seconds for one process
FIRSTS = 9, 41  # fewest and most pairs of processes that make a first call
FIRSTS_SECONDS = 25

# An installed package has its bytecode; the first run writes it here.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def environment(folder, threads, **more):
    """An environment with empty caches for both libraries."""
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
    """The medians of several processes' figures; the bits of all processes when they differ."""
    figures = {what: statistics.median(run[what] for run in runs) for what in runs[0] if what != "bits"} if all(runs) else {}
    if figures:
        bits = {run["bits"] for run in runs}
        figures["bits"] = bits.pop() if len(bits) == 1 else sorted(bits)
    return figures


def cold(python, module, name, how, threads, *words):
    """One process with empty caches, which are removed after it."""
    with tempfile.TemporaryDirectory(prefix="cresset_bench_") as folder:
        return child(python, module, name, how, threads, environment(folder, threads), *words)


def first_calls(python, name, threads):
    """Medians of first calls, each in a new process, by way of running; the ways alternate in order."""
    order, runs, start = ["eager", "cold"], {"eager": [], "cold": []}, time.monotonic()
    fewest, most = FIRSTS
    while len(runs["cold"]) < fewest or len(runs["cold"]) < most and time.monotonic() - start < FIRSTS_SECONDS:
        for way in order:
            how = "eager" if way == "eager" else "compiled"
            runs[way].append(cold(python, "cresset", name, how, threads, "first").get("first", math.nan))
        order.reverse()
    return {way: statistics.median(seconds) for way, seconds in runs.items()}


def measure(python, module, name, threads, repeat, folder):
    """All figures of one row but the warm ones: a dictionary by way of running.  Leaves the caches in the folder."""
    env = environment(folder, threads)
    eager = [child(python, module, name, "eager", threads, env) for _ in range(repeat)]
    runs = [cold(python, module, name, "compiled", threads) for _ in range(repeat - 1)]
    row = {"eager": median(eager), "cold": median(runs + [child(python, module, name, "compiled", threads, env)]),
           "small": child(python, module, name, "compiled", threads, env, "small")}
    if module == "cresset":
        bare = environment(os.path.join(folder, "bare"), threads, CR_CC="no-compiler")
        row["bare"] = child(python, module, name, "compiled", threads, bare)
        for way, first in first_calls(python, name, threads).items():
            row[way].update(first=first)
    return row


def measure_case(libraries, name, threads, repeat):
    """The row of each library, {module: (interpreter, repetitions of its cold processes)}."""
    with tempfile.TemporaryDirectory(prefix="cresset_bench_") as folder:
        folders = {module: os.path.join(folder, module) for module in libraries}
        rows = {module: measure(python, module, name, threads, times, folders[module])
                for module, (python, times) in libraries.items()}
        warm = {module: [] for module in libraries}
        for _ in range(repeat):
            for module, (python, _) in libraries.items():
                env = environment(folders[module], threads)
                warm[module].append(child(python, module, name, "compiled", threads, env, "turns"))
    return {module: {**row, "warm": median(warm[module])} for module, row in rows.items()}


def measure_steady(libraries, name, threads, repeat):
    """The warm figures alone."""
    warm = {module: [] for module in libraries}
    with tempfile.TemporaryDirectory(prefix="cresset_bench_") as folder:
        for turn in range(repeat + 1):
            for module, (python, _) in libraries.items():
                env = environment(os.path.join(folder, module), threads)
                run = child(python, module, name, "compiled", threads, env, *(["turns"] if turn else ["first"]))
                warm[module] += [run] if turn else []
    return {module: {"warm": median(runs)} for module, runs in warm.items()}


def steady_table(ours, theirs, threads):
    print(f"\n| {threads} thread(s) | ours ms | eager / ours | torch ms | eager / torch | torch / ours |\n|{'---|' * 6}")
    ratios, own = [], []
    for name, row in ours.items():
        mine, peer = number(row, "warm", "steady"), number(theirs.get(name, {}), "warm", "steady")
        ratios.append(peer / mine)
        own.append(number(row, "warm", "gain", 1))
        gain = number(theirs.get(name, {}), "warm", "gain", 1)
        print(f"| {name} | {show(mine, 3)} | {show(own[-1])} | {show(peer, 3)} | {show(gain)} | {show(ratios[-1])} |")
    for what, values in (("torch.compile's speed", ratios), ("our eager speed", own)):
        least = min((v for v in values if not math.isnan(v)), default=math.nan)
        print(f"geometric mean {show(mean(values))} times {what}, worst {show(least)}")


def number(row, way, what, scale=1e3):
    v = row.get(way, {}).get(what)
    return math.nan if v is None else v * scale


def show(v, digits=2):
    return "" if math.isnan(v) else f"{v:.{digits}f}"


def cells(row):
    """One library's columns."""
    return [show(number(row, "warm", "eager"), 3),
            f"{show(number(row, 'cold', 'first'))} ({show(number(row, 'eager', 'first'))})",
            show(number(row, "cold", "native"), 0),
            f"{show(number(row, 'warm', 'first'))} + {show(number(row, 'warm', 'native'), 0)}",
            show(number(row, "warm", "steady"), 3),
            show(number(row, "small", "steady", 1e6), 1),
            f"{show(number(row, 'eager', 'peak', 1), 1)}, {show(number(row, 'cold', 'peak', 1), 1)}",
            ", ".join(filter(None, (show(number(row, how, "tensors", 1), 1) for how in ("eager", "cold")))),
            show(number(row, "warm", "gain", 1))]


TITLES = ["eager ms", "first ms (eager's)", "native ms", "warm: first + native ms", "steady ms", "overhead us",
          "peak MB: eager, compiled", "of tensors", "x eager"]


def mean(values):
    values = [v for v in values if not math.isnan(v)]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def missed(row, facts):
    """The targets that a row of Cresset misses, as sentences."""
    first, eager = number(row, "cold", "first"), number(row, "eager", "first")
    if first > max(1.2 * eager, eager + 5):
        yield f"the first compiled call took {show(first)} ms, eager's {show(eager)}"
    for how, limit in (("cold", 1000), ("warm", 50)):
        if number(row, how, "native") > limit:
            yield f"native code after {show(number(row, how, 'native'), 0)} ms ({how})"
    if facts.get("training") and number(row, "cold", "peak", 1) >= number(row, "eager", "peak", 1):
        yield "the peak is not below eager's"
    if number(row, "warm", "gain", 1) < 1:
        yield "slower than eager"
    for how in ("cold", "warm", "bare"):
        if row.get(how) and row[how].get("bits") != row["eager"].get("bits"):
            yield f"the bits differ between {how} and eager"


def table(ours, theirs, threads):
    print(f"\n| {threads} thread(s) | library | {' | '.join(TITLES)} | x |\n|{'---|' * (len(TITLES) + 3)}")
    for name in CASES:
        for library, rows in (("cresset", ours), ("torch", theirs)):
            if name in rows:
                ratio = number(theirs.get(name, {}), "warm", "steady") / number(ours.get(name, {}), "warm", "steady")
                print(f"| {name} | {library} | {' | '.join(cells(rows[name]))} | "
                      f"{show(ratio) if library == 'cresset' else ''} |")
    faults = [f"{name}: {fault}" for name, row in ours.items() for fault in missed(row, CASES[name][1])]
    print("\n" + "\n".join(faults) if faults else "")
    ratios = [number(theirs[n], "warm", "steady") / number(r, "warm", "steady") for n, r in ours.items() if n in theirs]
    print(f"steady: geometric mean {show(mean(ratios))} times torch.compile's speed, "
          f"worst {show(min(ratios, default=math.nan))}")
    own = [number(r, "warm", "gain", 1) for r in ours.values()]
    print(f"steady: geometric mean {show(mean(own))} times our eager speed, worst {show(min(own, default=math.nan))}")


def bare_table(ours):
    print("\n| no C compiler | steady ms | with one | times as long |\n|---|---|---|---|")
    for name, row in ours.items():
        bare, full = number(row, "bare", "steady"), number(row, "warm", "steady")
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
    ap.add_argument("--steady", action="store_true")
    a = ap.parse_args()
    names = [n for n in CASES if a.only in n]
    ours, theirs = {}, {}
    if a.load:
        with open(a.load) as f:
            theirs = {n: r for n, r in json.load(f).items() if n in names}
    libraries = {} if a.peer_only else {"cresset": (sys.executable, a.repeat)}
    peer = not a.load and has_torch(a.peer)
    if peer:
        libraries["torch"] = a.peer, 1
    for name in names:
        rows = (measure_steady if a.steady else measure_case)(libraries, name, a.threads, a.repeat)
        for module, row in rows.items():
            (ours if module == "cresset" else theirs)[name] = row
        print(f"{name}: measured", file=sys.stderr, flush=True)
        if a.save and peer:
            with open(a.save, "w") as f:
                json.dump(theirs, f, indent=1)
    (steady_table if a.steady else table)(ours, theirs, a.threads)
    if ours and not a.steady:
        bare_table(ours)


if __name__ == "__main__":
    main()
