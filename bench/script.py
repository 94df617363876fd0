"""TorchScript beside torch: eager, traced and scripted calls, as one Markdown table.

    python bench/script.py [--peer PYTHON] [--devices cpu,cuda] [--threads N] [--only TEXT[,TEXT]] [--rounds N] [--processor]

There is a table for the CPU and, where a GPU is found, one for it; --devices names others.  Every round is a process of each library, one after the other; figures are medians of the rounds, each the best of several
repetitions in its process, in ms.  `x` is the peer's scripted time over ours: above 1 is faster.  `2 threads` is the rate of
two threads of Python that call the scripted program, over that of one.  --processor counts the processor's time instead of
the clock's, for machines that other programs use too.
"""
import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
import warnings

HERE = os.path.abspath(__file__)


def programs(torch):
    """{name: (make, inputs)}; make() gives the module."""
    nn, here = torch.nn, sys.modules["script_programs"]

    def ones(*size):
        return torch.linspace(-1, 1, torch.Size(size).numel()).reshape(size)
    def numbers(*size):
        return torch.arange(torch.Size(size).numel()).reshape(size)
    return {"LSTM cell loop, 32 steps of 4 x 64": (lambda: here.Loop(nn), lambda: (ones(32, 4, 64),)),
            "tree of 63 nodes, width 32": (lambda: here.Tree(nn), lambda: (ones(32, 32), 32)),
            "greedy decoder, 64 tokens, width 64": (lambda: here.Decoder(nn, 64), lambda: (torch.tensor([1]), 64)),
            "ResNet block, 1 x 64 x 28 x 28": (lambda: here.Block(nn, 64), lambda: (ones(1, 64, 28, 28),)),
            "BERT layer, 1 x 64 x 256": (lambda: here.Layer(nn, 256, 4), lambda: (ones(1, 64, 256),)),
            "ResNet-18, 1 x 3 x 224 x 224": (lambda: here.ResNet(nn), lambda: (ones(1, 3, 224, 224),)),
            "BERT base, 1 x 128": (lambda: here.Bert(nn, 768, 12), lambda: (numbers(1, 128),))}


SOURCE = '''
import math
from typing import List
import {library} as torch
from {library} import nn, Tensor
import {library}.nn.functional as F


class Loop(nn.Module):
    def __init__(self, nn):
        super().__init__()
        self.cell = nn.LSTMCell(64, 64)

    def forward(self, x):
        h = torch.zeros(x.size(1), 64, device=x.device)
        c = torch.zeros(x.size(1), 64, device=x.device)
        for i in range(x.size(0)):
            h, c = self.cell(x[i], (h, c))
        return h


class Tree(nn.Module):
    def __init__(self, nn):
        super().__init__()
        self.join, self.leaf = nn.Linear(64, 32), nn.Linear(32, 32)

    def forward(self, x, leaves: int):
        nodes: List[Tensor] = []
        for i in range(leaves):
            nodes.append(torch.tanh(self.leaf(x[i])))
        while len(nodes) > 1:
            parents: List[Tensor] = []
            for i in range(len(nodes) // 2):
                parents.append(torch.tanh(self.join(torch.cat([nodes[2 * i], nodes[2 * i + 1]]))))
            nodes = parents
        return nodes[0]


class Decoder(nn.Module):
    def __init__(self, nn, width):
        super().__init__()
        self.embed, self.cell, self.read = nn.Embedding(100, width), nn.GRUCell(width, width), nn.Linear(width, 100)

    def forward(self, token, most: int):
        h = torch.zeros(1, 64, device=token.device)
        out: List[int] = []
        while len(out) < most:
            h = self.cell(self.embed(token), h)
            token = self.read(h).argmax(1)
            if int(token) == 1000:
                break
            out.append(int(token))
        return torch.tensor(out)


class Block(nn.Module):
    def __init__(self, nn, n):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.Conv2d(n, n, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(n), nn.BatchNorm2d(n)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + x)


class Down(nn.Module):
    def __init__(self, nn, n, m):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(n, m, 3, 2, 1, bias=False), nn.Conv2d(m, m, 3, padding=1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(m), nn.BatchNorm2d(m)
        self.side = nn.Sequential(nn.Conv2d(n, m, 1, 2, bias=False), nn.BatchNorm2d(m))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.side(x))


class ResNet(nn.Module):
    def __init__(self, nn):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(Block(nn, 64), Block(nn, 64), *[make(nn) for n in (64, 128, 256) for make in (
            lambda nn, n=n: Down(nn, n, 2 * n), lambda nn, n=n: Block(nn, 2 * n))])
        self.last = nn.Linear(512, 1000)

    def forward(self, x):
        return self.last(self.blocks(self.first(x)).mean([2, 3]))


class Layer(nn.Module):
    def __init__(self, nn, n, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = nn.Linear(n, n), nn.Linear(n, n), nn.Linear(n, n), nn.Linear(n, n)
        self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)
        self.n1, self.n2 = nn.LayerNorm(n), nn.LayerNorm(n)

    def split(self, x):
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
        y = torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).contiguous().view(x.size(0), x.size(1), -1)
        x = self.n1(x + self.o(y))
        return self.n2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, nn, n, layers):
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(30522, n), nn.Embedding(512, n), nn.LayerNorm(n)
        self.layers, self.pool = nn.ModuleList([Layer(nn, n, n // 64) for i in range(layers)]), nn.Linear(n, n)

    def forward(self, tokens):
        x = self.norm(self.words(tokens) + self.places(torch.arange(tokens.size(1), device=tokens.device)))
        for layer in self.layers:
            x = layer(x)
        return torch.tanh(self.pool(x[:, 0]))
'''


def load(library, folder):
    path = os.path.join(folder, f"script_programs_{library}.py")
    with open(path, "w") as f:
        f.write(SOURCE.format(library=library))
    import importlib.util
    spec = importlib.util.spec_from_file_location("script_programs", path)
    sys.modules["script_programs"] = made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)


def best(f, clock, finish, seconds=0.4, repeats=5):
    """The least time of a call, in ms; finish() waits for the device."""
    for _ in range(2):
        f()
    finish()
    start, n = clock(), 0
    while clock() - start < seconds / repeats and n < 1000:
        f()
        finish()
        n += 1
    least = float("inf")
    for _ in range(repeats):
        start = clock()
        for _ in range(n):
            f()
        finish()
        least = min(least, (clock() - start) / n)
    return least * 1e3


def rate_of(torch, f, threads, seconds):
    """Calls a second of threads that begin together."""
    rates, start = [0] * threads, threading.Barrier(threads)

    def work(i):
        with torch.no_grad():  # a thread has its own mode
            f()
            start.wait()
            begin, n = time.perf_counter(), 0
            while time.perf_counter() < begin + seconds:
                f()
                n += 1
            rates[i] = n / (time.perf_counter() - begin)
    all = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for t in all:
        t.start()
    for t in all:
        t.join()
    return sum(rates)


def scaling(torch, f, rounds=20, seconds=0.03):
    """The rate of two threads over that of one.  Short rounds take turns, and the best of each count, so that what
    other programs do at one time changes neither."""
    rates = [(rate_of(torch, f, 1, seconds), rate_of(torch, f, 2, seconds)) for _ in range(rounds)]
    return max(two for _, two in rates) / max(one for one, _ in rates)


def measure_program(torch, m, args, clock, device):
    """A row's figures, in ms."""
    finish = torch.cuda.synchronize if device == "cuda" else lambda: None
    m = m.eval().to(device)
    args = tuple(a.to(device) if isinstance(a, torch.Tensor) else a for a in args)
    row = {"traced": None, "threads": None}
    with torch.no_grad():
        made = torch.jit.script(m)
        row["result"] = float(made(*args).double().sum())
        row["eager"], row["scripted"] = best(lambda: m(*args), clock, finish), best(lambda: made(*args), clock, finish)
        if all(isinstance(a, torch.Tensor) for a in args):
            traced = torch.jit.trace(m, args, check_trace=False)
            row["traced"] = best(lambda: traced(*args), clock, finish)
    if device == "cpu":
        row["threads"] = scaling(torch, lambda: made(*args))
    return row


def is_wanted(name, only):
    return any(text in name for text in only.split(","))


def worker(library, a, clock):
    torch = importlib.import_module(library)
    warnings.simplefilter("ignore")
    torch.set_num_threads(a.threads)
    load(library, a.folder)
    for name, (make, inputs) in programs(torch).items():
        if not is_wanted(name, a.only):
            continue
        torch.manual_seed(0)
        row = measure_program(torch, make(), inputs(), clock, a.devices)
        print(json.dumps({"name": name, **row}), flush=True)


def measure(python, library, a, device, folder):
    words = [python, HERE, "--worker", library, "--threads", str(a.threads), "--only", a.only, "--folder", folder,
             "--devices", device]
    done = subprocess.run(words + ["--processor"] * a.processor, capture_output=True, text=True, timeout=900,
                          env=dict(os.environ, OMP_NUM_THREADS=str(a.threads)))
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}


def cell(rows, name, key):
    values = [r[name][key] for r in rows if r[name][key] is not None]
    return statistics.median(values) if values else None


def text_of(x, digits):
    return "" if x is None else f"{x:.{digits}f}"


def table(device, rounds):
    ours, peers = zip(*rounds)
    print(f"| {device} | eager | traced | scripted | torch eager | traced | scripted | x | 2 threads | torch |\n|" + "---|" * 10)
    for name in ours[0]:
        if abs(ours[0][name]["result"] - peers[0][name]["result"]) > 1e-2 * max(1, abs(peers[0][name]["result"])):
            print(f"{name}: results differ: {ours[0][name]['result']}, {peers[0][name]['result']}", file=sys.stderr)
        figures = [cell(rows, name, key) for rows in (ours, peers) for key in ("eager", "traced", "scripted")]
        threads = [text_of(cell(rows, name, "threads"), 2) for rows in (ours, peers)]
        print(f"| {name} | {' | '.join(text_of(x, 3) for x in figures)} | {figures[5] / figures[2]:.2f} | {' | '.join(threads)} |",
              flush=True)


def devices_of(a):
    if a.devices:
        return a.devices.split(",")
    return ["cpu", "cuda"] if importlib.import_module("cresset").cuda.is_available() else ["cpu"]


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for flag, default in (("--peer", sys.executable), ("--devices", ""), ("--threads", 1), ("--only", ""), ("--rounds", 3),
                          ("--worker", ""), ("--folder", "")):
        p.add_argument(flag, default=default, type=type(default))
    p.add_argument("--processor", action="store_true")
    a = p.parse_args()
    if a.worker:
        worker(a.worker, a, time.process_time if a.processor else time.perf_counter)
        return
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        for device in devices_of(a):
            table(device, [(measure(sys.executable, "cresset", a, device, folder), measure(a.peer, "torch", a, device, folder))
                           for _ in range(a.rounds)])


if __name__ == "__main__":
    main()
