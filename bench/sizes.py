"""One program for all sizes beside a program compiled for each, as one Markdown table.

    python bench/sizes.py [--repeat N] [--layers N] [--dim N] [--every N]

A Llama-like model takes 78 batch sizes and 40 lengths (--every takes each N-th of them), in
inference and in training, with one thread, whose processor time is measured.

    made in us in which the program for all sizes is given another size: the median
    first   ms that the first call for a size takes longer than the next ones: the median
    x own   time of a call over that of a function compiled for that very size (dynamic=False);
            both take turns, the best of --repeat calls counts: the geometric mean
    at most the largest of these
    made    programs made and kernels asked for after the second size
    kept    MB that the sizes hold
"""
import argparse
import math
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "python"))

import cresset as torch  # noqa: E402
from cresset import _C  # noqa: E402
from test_sizes import BATCHES, LENGTHS, Llama  # noqa: E402


def infer(call, x):
    with torch.no_grad():
        call(x)


def train(call, x):
    call(x).square().mean().backward()


def timed(run, call, x):
    start = time.thread_time()
    run(call, x)
    return time.thread_time() - start


def best_of_both(run, one, other, x, repeat):
    times = [(timed(run, one, x), timed(run, other, x)) for _ in range(repeat)]
    return min(a for a, _ in times), min(b for _, b in times)


def entries(compiled):
    return compiled._compiled_forward._entries


def own_program(net, run, x):
    """The net compiled for the sizes of x, once its kernels are native."""
    compiled = torch.compile(net, dynamic=False)
    for _ in range(2):
        run(compiled, x)
    entries(compiled)[0].runner.wait(60)
    return compiled


def row(name, run, net, vocab, sizes, repeat):
    shared = torch.compile(net, dynamic=True)
    for size in ((3, 7), (3, 7), (5, 12), (5, 12)):
        x = torch.randint(0, vocab, size)
        run(shared, x)
        own_program(net, run, x)
    counts = _C._programs_made(), _C._jit_counts()["requested"]
    firsts, instances = [], []
    for size in sizes:
        x = torch.randint(0, vocab, size)
        first = timed(run, shared, x)
        instances.append(1e6 * entries(shared)[0].runner.seconds)
        firsts.append(1e3 * (first - min(timed(run, shared, x) for _ in range(3))))
    made = _C._programs_made() - counts[0], _C._jit_counts()["requested"] - counts[1]
    ratios = []
    for size in sizes:
        x = torch.randint(0, vocab, size)
        ours, own = best_of_both(run, shared, own_program(net, run, x), x, repeat)
        ratios.append(ours / own)
    mean = math.exp(statistics.fmean(map(math.log, ratios)))
    kept = sum(e.runner.bytes for e in entries(shared)) / 1e6
    cells = (name, len(sizes), f"{statistics.median(instances):.0f}", f"{statistics.median(firsts):.2f}", f"{mean:.3f}",
             f"{max(ratios):.2f}", f"{made[0]}, {made[1]}", f"{kept:.1f}")
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    for name, value in (("repeat", 15), ("layers", 2), ("dim", 64), ("every", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = Llama(args.layers, 128, args.dim, 4, 3 * args.dim)
    sizes = ([(b, 16) for b in BATCHES] + [(8, n) for n in LENGTHS])[::args.every]
    print("| | sizes | made in | first | x own | at most | made | kept |\n|---|---|---|---|---|---|---|---|")
    for name, run in (("inference", infer), ("training", train)):
        row(name, run, net, 128, sizes, args.repeat)
        net.zero_grad()


if __name__ == "__main__":
    main()
