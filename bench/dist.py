"""Calls between ranks and data-parallel training, beside torch in the same run.

    bench/dist.py --peer PYTHON [--ranks N] [--backends gloo,mpi] [--rounds R] [--only calls|training]
    bench/dist.py --only compiled [--ranks N] [--rounds R]    steps of compiled modules beside uncompiled ones, with equal losses; no torch
    bench/dist.py --peer PYTHON --nccl [--ranks 1,2]    on GPUs; with --ranks 1,N also the scaling from 1 to N ranks

Beside the step of a net is its step under no_sync(), without calls between ranks: the difference is communication that the backward
does not hide.

The packages take turns, R rounds each, because the machine's load changes; a figure is the best of a rank 0's rounds, with the middle
one beside it.  On a machine with other work, the processor's time of rank 0 (its middle round) says more than the clock: it is what a
rank takes from its processor, also for messages.  Ranks are processes of one thread on the loopback device.
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

DEVICE = "cpu"
SIZES = (16, 4096, 65536, 1 << 20, 16 << 20, 64 << 20)
CALLS = ("all_reduce", "broadcast", "all_gather", "reduce_scatter")


class Round:
    """Measures rounds: (seconds, seconds of this process's threads on processors) for each repeat."""

    def __init__(self, repeats):
        self.repeats, self.times = repeats, []

    def __enter__(self):
        self.start = time.perf_counter(), time.process_time()

    def __exit__(self, *_):
        clock, processor = self.start
        self.times.append(((time.perf_counter() - clock) / self.repeats, (time.process_time() - processor) / self.repeats))


def ended(torch):
    """Waits for a GPU's work."""
    if DEVICE != "cpu":
        torch.cuda.synchronize()


def call_times(torch, dist, rounds):
    """{call/bytes: times by round}."""
    size = dist.get_world_size()
    found = {}
    for n in SIZES:
        x, part = torch.ones(n // 4, device=DEVICE), torch.ones(max(n // 4 // size, 1), device=DEVICE)
        whole = torch.ones(part.numel() * size, device=DEVICE)
        runs = {"all_reduce": lambda: dist.all_reduce(x, dist.ReduceOp.MAX), "broadcast": lambda: dist.broadcast(x, 0),
                "all_gather": lambda: dist.all_gather(list(whole.split(part.numel())), part),
                "reduce_scatter": lambda: dist.reduce_scatter(part, list(whole.split(part.numel())))}
        repeats = 100 if n < 65536 else 20 if n < 1 << 20 else 5 if n < 16 << 20 else 2
        for name, run in runs.items():
            run()
            measured = Round(repeats)
            for _ in range(rounds):
                dist.barrier()
                ended(torch)
                with measured:
                    for _ in range(repeats):
                        run()
                    ended(torch)
                    dist.barrier()
            found[f"{name}/{n}"] = measured.times
    return found


def nets(torch):
    """{name: (module, input, loss of the output)}."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.one, self.two = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.Conv2d(b, b, 3, 1, 1, bias=False)
            self.n1, self.n2 = nn.BatchNorm2d(b), nn.BatchNorm2d(b)
            self.side = nn.Conv2d(a, b, 1, stride, bias=False) if stride > 1 or a != b else nn.Identity()

        def forward(self, x):
            return F.relu(self.n2(self.two(F.relu(self.n1(self.one(x))))) + self.side(x))

    class Layer(nn.Module):
        def __init__(self, d, heads):
            super().__init__()
            self.heads = heads
            self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
            self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

        def forward(self, x):
            b, t, d = x.shape
            q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in self.qkv(self.n1(x)).split(d, 2))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
            return x + self.down(F.gelu(self.up(self.n2(x))))

    class GPT(nn.Module):
        def __init__(self, words=2000, d=192, layers=6):
            super().__init__()
            self.words, self.places = nn.Embedding(words, d), nn.Embedding(64, d)
            self.layers = nn.Sequential(*[Layer(d, 6) for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, words, bias=False)

        def forward(self, x):
            return self.head(self.norm(self.layers(self.words(x) + self.places(torch.arange(x.shape[1], device=x.device)))))
    widths = (16, 32, 64, 128)
    resnet = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
                           *[Block(a, b, s) for a, b, s in zip((16, *widths), widths, (1, 2, 2, 2))],
                           nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))
    labels, words = torch.arange(8) % 10, torch.arange(4 * 64).view(4, 64) * 7 % 2000
    many = torch.arange(8 * 64).view(8, 64) * 7 % 50257
    found = {"resnet": (resnet, torch.randn(8, 3, 32, 32), labels, F.cross_entropy),
             "gpt": (GPT(), words, words.flatten(), lambda y, t: F.cross_entropy(y.flatten(0, 1), t))}
    if DEVICE != "cpu":  # GPT-2 small's sizes
        found["gpt2-small"] = (GPT(50257, 768, 12), many, many.flatten(), lambda y, t: F.cross_entropy(y.flatten(0, 1), t))
    return {name: (net.to(DEVICE), x.to(DEVICE), (lambda y, t=t.to(DEVICE), loss=loss: loss(y, t)))
            for name, (net, x, t, loss) in found.items()}


def step_times(torch, dist, rounds):
    """{net: times of a training step by round}."""
    found = {}
    for name, (net, x, loss_of) in nets(torch).items():
        model = torch.nn.parallel.DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

        def step():
            optimizer.zero_grad()
            loss_of(model(x)).backward()
            optimizer.step()

        def alone():
            with model.no_sync():
                step()
        measured = {name: (step, Round(5)), f"{name} alone": (alone, Round(5))}
        for _ in range(3):
            step()
            alone()
        for _ in range(rounds):
            for run, times in measured.values():
                dist.barrier()
                ended(torch)
                with times:
                    for _ in range(5):
                        run()
                    ended(torch)
        found.update((row, times.times) for row, (_, times) in measured.items())
    return found


def compiled_times(torch, dist, rounds, shown=lambda rows: None):
    """{net and way of training: times by round}, plain and compiled; `shown` gets the two rows of each way when they are there.  Losses of
    both are equal on a processor; on a GPU their greatest difference is printed to stderr."""
    from cresset.distributed.fsdp import fully_shard
    found = {}

    def model_of(name, way):
        torch.manual_seed(0)
        net, x, loss_of = nets(torch)[name]
        if way == "ddp":
            return torch.nn.parallel.DistributedDataParallel(net), x, loss_of
        for layer in net.layers if name.startswith("gpt") else [m for m in net if list(m.children())]:
            fully_shard(layer)
        return fully_shard(net), x, loss_of

    def step_of(name, way, compiled):
        model, x, loss_of = model_of(name, way)
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), []
        run = torch.compile(model) if compiled else model

        def step():
            optimizer.zero_grad()
            loss = loss_of(run(x))
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return step, losses
    for name in nets(torch):
        for way in ("ddp", "fsdp"):
            steps = {f"{name} {way}{' compiled' if c else ''}": (*step_of(name, way, c), Round(5)) for c in (False, True)}
            for step, _, _ in steps.values():
                for _ in range(6):
                    step()
            time.sleep(3)  # native code is compiled beside the program
            for _ in range(rounds):
                for step, _, times in steps.values():
                    dist.barrier()
                    ended(torch)
                    with times:
                        for _ in range(5):
                            step()
                        ended(torch)
            plain, other = (torch.stack(losses) for _, losses, _ in steps.values())
            if not torch.equal(plain, other):
                if DEVICE == "cpu":
                    sys.exit(f"{name} {way}: losses of the compiled module differ")
                print(f"{name} {way}: losses of the compiled module differ by up to {(plain - other).abs().max().item():.3g}",
                      file=sys.stderr)
            rows = {row: times.times for row, (_, _, times) in steps.items()}
            shown(rows)
            found.update(rows)
    return found


def print_compiled(found, backend):
    """Prints how much faster compiled modules are."""
    for name, times in found.items():
        other = found.get(f"{name} compiled")
        if other:
            a, b = figures(times), figures(other)
            print(f"{name:24} {backend} compiled " + "/".join(f"{t * 1e3:.2f}" for t in b) + " ms, uncompiled " +
                  "/".join(f"{t * 1e3:.2f}" for t in a) + "  " + "/".join(f"{x / y:.2f}x" for x, y in zip(a, b)))


def in_rank():
    """A rank: prints its times as JSON."""
    global DEVICE
    package, backend, rank, size, path, rounds, only = sys.argv[2:9]
    DEVICE = f"cuda:{rank}" if backend == "nccl" else "cpu"
    if package == "torch":
        import torch
        import torch.distributed as dist
    else:
        import cresset as torch
        import cresset.distributed as dist
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if DEVICE != "cpu":
        torch.cuda.set_device(DEVICE)
    dist.init_process_group(backend, init_method=f"file://{path}", rank=int(rank), world_size=int(size))
    found = {}
    if only == "compiled":
        found.update(compiled_times(torch, dist, int(rounds)))
    elif only != "training":
        found.update(call_times(torch, dist, int(rounds)))
    if only in ("all", "training"):
        found.update(step_times(torch, dist, int(rounds)))
    dist.barrier()
    if rank == "0":
        print(json.dumps(found))
    dist.destroy_process_group()


def run(python, package, backend, size, rounds, only):
    """Runs all ranks; returns rank 0's times."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "OMP_WAIT_POLICY": "passive"}
    if package == "torch":
        env.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as folder:
        errors = [open(f"{folder}/{r}", "w+") for r in range(size)]
        ranks = [subprocess.Popen([python, __file__, "rank", package, backend, str(r), str(size), f"{folder}/store",
                                   str(rounds), only or "all"], stdout=subprocess.PIPE, stderr=errors[r], env=env)
                 for r in range(size)]
        texts = [p.communicate()[0] for p in ranks]
        for rank, (p, file) in enumerate(zip(ranks, errors)):
            with file:
                file.seek(0)
                if p.returncode:
                    sys.exit(f"{package} {backend}: rank {rank} ended with {p.returncode}:\n{file.read()[-2000:]}")
    return json.loads(texts[0])


def figures(times):
    """Returns the best and the middle round, and the middle of the processor's times."""
    clocks, processors = zip(*times)
    return min(clocks), statistics.median(clocks), statistics.median(processors)


def print_rows(rows, peer_backend):
    """Prints a line for each row, and geometric means."""
    ratios = {}
    for name, row in rows.items():
        peer = figures(row[("torch", peer_backend)])
        line = f"{name:24} torch {peer_backend} " + "/".join(f"{t * 1e6:7.0f}" for t in peer)
        for (package, backend), times in row.items():
            if package == "cresset":
                own = figures(times)
                ratio = peer[0] / own[0], peer[2] / own[2]
                kind = "calls" if "/" in name else "steps without calls" if name.endswith(" alone") else "training steps"
                ratios.setdefault((backend, kind), []).append(ratio)
                line += f"  {backend} " + "/".join(f"{t * 1e6:7.0f}" for t in own) + f" {ratio[0]:5.2f}x {ratio[1]:5.2f}x"
        print(line)
    for (backend, kind), found in ratios.items():
        by_clock, by_processor = (math.exp(sum(map(math.log, r)) / len(r)) for r in zip(*found))
        print(f"{backend}: {kind}: {by_clock:.2f} times torch's speed, {by_processor:.2f} by the processor's time (geometric means)")


def print_exposed(rows):
    """Prints the communication of each net's step that the backward does not hide."""
    for name, row in rows.items():
        alone = rows.get(f"{name} alone")
        if alone:
            print(f"{name:24} exposed communication, ms, best/middle: " + "  ".join(
                f"{package} {backend} " + "/".join(f"{(a - b) * 1e3:.2f}" for a, b in zip(figures(times)[:2], figures(alone[key])[:2]))
                for key, times in row.items() for package, backend in [key]))


def print_scaling(one, many, ranks):
    """Prints the part of `ranks` times one rank's speed that the ranks have, with the same batch for each."""
    for name, row in many.items():
        if "/" not in name and not name.endswith(" alone"):
            print(f"{name:24} scaling from 1 to {ranks} ranks, best/middle: " + "  ".join(
                f"{package} {backend} " + "/".join(f"{100 * a / b:.1f} %" for a, b in zip(figures(one[name][key])[:2], figures(times)[:2]))
                for key, times in row.items() for package, backend in [key]))


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--peer")
    parser.add_argument("--ranks", default="2")
    parser.add_argument("--backends", default="gloo,mpi")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--nccl", action="store_true")
    o = parser.parse_args()
    peer_backend = "nccl" if o.nccl else "gloo"
    o.backends = "nccl" if o.nccl else o.backends
    if o.only == "compiled":
        for backend in o.backends.split(","):
            print_compiled(run(sys.executable, "cresset", backend, int(o.ranks), o.rounds, o.only), backend)
        return
    if not o.peer:
        parser.error("--peer is needed but with --only compiled")
    by_ranks = {int(ranks): {} for ranks in o.ranks.split(",")}
    for _ in range(o.turns):
        for ranks, rows in by_ranks.items():
            turns = [("torch", peer_backend, o.peer), *(("cresset", b, sys.executable) for b in o.backends.split(","))]
            for package, backend, python in turns:
                for name, times in run(python, package, backend, ranks, o.rounds, o.only).items():
                    rows.setdefault(name, {}).setdefault((package, backend), []).extend(times)
    for ranks, rows in by_ranks.items():
        print(f"{ranks} ranks, us: best/middle/processor's; times torch's speed by the best, and by the processor's time")
        print_rows(rows, peer_backend)
        if ranks > 1:
            print_exposed(rows)
            if 1 in by_ranks:
                print_scaling(by_ranks[1], rows, ranks)


if __name__ == "__main__":
    in_rank() if sys.argv[1:2] == ["rank"] else main()
