"""Benchmarks beside torch, or beside an earlier build, as one Markdown table.

    python bench/run.py [--peer PYTHON | --before FOLDER] [--threads N] [--only TEXT] [--best N] [--ceiling PROGRAM]

Every case runs in two processes in turn, so that both run under the same conditions: cresset, and either
torch or the package of an earlier build.  --peer is an interpreter that has torch (default: this
one; without torch the column is empty).  --before is the folder that holds the earlier package
`cresset` (build/pkg of another checkout).  --best takes the best of N measurements of each
(default 2).  `ratio` is the other's time over ours: above 1 is faster than the other.  --ceiling
is the built bench/ceiling.c; pointwise rows then show their share of the copy bandwidth, products
of the multiply-add peak."""
import argparse
import math
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


class Worker:
    def __init__(self, python, module, threads, package=None):
        env = dict(os.environ, OMP_NUM_THREADS=str(threads))
        if package:
            env["PYTHONPATH"] = package
        self.process = subprocess.Popen([python, os.path.join(HERE, "worker.py"), module, str(threads)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self.cases = self.process.stdout.readline().rstrip("\n").split("\t")

    def measure(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def has_torch(python):
    return subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0


def ceilings(program):
    if not program:
        return {}
    text = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    return {k: float(v) for k, v in (line.split() for line in text.splitlines())}


MOVED = {"add": 3, "mul scalar": 2, "exp": 2, "tanh": 2, "sigmoid": 2, "gelu": 2, "relu": 2, "sum": 1, "sum dim 0": 1,
         "sum dim 1": 1, "softmax": 2, "layer_norm": 2}
ELEMENTS = {"32K": 32768, "1M": 1 << 20, "16M": 1 << 24}


def share(name, ns, limits, threads):
    """The part of the machine's ceiling that the case reaches."""
    m = re.match(r"matmul (\d+)x(\d+)x(\d+)$", name)
    if m and "fma" in limits:
        a, b, c = map(int, m.groups())
        return f"{2 * a * b * c / ns * 1e9 / limits['fma'] / threads:.0%} of FMA"
    m = re.match(r"(.*) (32K|1M|16M)$", name)
    if m and m.group(1) in MOVED and limits:
        rate = MOVED[m.group(1)] * 4 * ELEMENTS[m.group(2)] / ns * 1e9
        return f"{rate / limits['copy_' + m.group(2)]:.0%} of copy"
    return ""


def family(name):
    return "dispatch" if "4 floats" in name or name.startswith("a") and not name.startswith("add") or "4-8-2" in name \
        else "matmul" if name.startswith("matmul") else "conv" if name.startswith("conv") else "elementwise and rows"


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--peer", default=sys.executable)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--only", default="")
    ap.add_argument("--before", default="")
    ap.add_argument("--best", type=int, default=2)
    ap.add_argument("--ceiling", default="")
    a = ap.parse_args()
    limits = ceilings(a.ceiling)
    for k, v in limits.items():
        print(f"ceiling {k}: {v / 1e9:.1f} {'GFLOP/s' if k == 'fma' else 'GB/s'}")
    ours = Worker(sys.executable, "cresset", a.threads)
    other, peer = "torch", None
    if a.before:
        other, peer = "before", Worker(sys.executable, "cresset", a.threads, a.before)
    elif has_torch(a.peer):
        peer = Worker(a.peer, "torch", a.threads)
    ratios = {}
    print(f"\n| case, {a.threads} thread(s) | cresset us | {other} us | ratio | of the ceiling |\n|---|---|---|---|---|")
    for name in ours.cases:
        if a.only not in name:
            continue
        mine = theirs = math.inf
        for _ in range(a.best):
            mine = min(mine, ours.measure(name))
            theirs = min(theirs, peer.measure(name)) if peer else math.nan
        if peer:
            ratios.setdefault(family(name), []).append(theirs / mine)
        print(f"| {name} | {mine / 1000:.3f} | {theirs / 1000:.3f} | {theirs / mine:.2f} | {share(name, mine, limits, a.threads)} |",
              flush=True)
    print()
    for f, r in ratios.items():
        mean = math.exp(sum(map(math.log, r)) / len(r))
        print(f"{f}: geometric mean {mean:.2f} times the speed of {other}, worst {min(r):.2f}")
    ours.close()
    if peer:
        peer.close()


if __name__ == "__main__":
    main()
