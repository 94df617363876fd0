"""Large models over the ranks of one host, beside torch in processes of its own.

    bench/sharded.py [--ranks 2] [--device cuda|cpu] [--peer PYTHON] [--only ROW,ROW] [--limit SECONDS] [--tiny]

Rows, each in fresh processes, in this order:

    fsdp      training of a Llama of 1.1 billion parameters (16 layers, 2048 wide) with fully_shard and AdamW, products in bfloat16:
              tokens a second of all ranks, the greatest memory of a rank, the losses
    compiled  steps of compiled modules under DistributedDataParallel and fully_shard beside uncompiled ones; no torch
    decode    the same Llama in bfloat16 divided over the ranks by parallelize_module, one word at a time: words a second

--peer is the interpreter that has torch; without it torch's lines are absent.  All rows end before --limit seconds; a row that fails or
takes too long prints its error, and the others follow.  --tiny takes models that a processor trains in seconds."""
import argparse
import importlib
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import dist as small  # noqa: E402

SIZES = {"whole": {"words": 32000, "d": 2048, "layers": 16, "heads": 32, "keys": 8, "inner": 8192, "batch": 4, "length": 2048},
         "tiny": {"words": 256, "d": 64, "layers": 3, "heads": 4, "keys": 2, "inner": 128, "batch": 2, "length": 32}}


def llama(torch, words, d, layers, heads, keys, inner, **_):
    """Returns a Llama: grouped keys, rotated places, gated products, RMS norms."""
    nn, F = torch.nn, torch.nn.functional
    per = d // heads

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
            self.k, self.v = nn.Linear(d, keys * per, bias=False), nn.Linear(d, keys * per, bias=False)

        def forward(self, x, turns, cache=None, at=0):
            b, t, _ = x.shape
            q, k, v = (z.view(b, t, -1, per).transpose(1, 2) for z in (self.q(x), self.k(x), self.v(x)))
            q, k = turned(q, turns), turned(k, turns)
            if cache is not None:
                cache[0][:, :, at:at + t], cache[1][:, :, at:at + t] = k, v
                k, v = cache[0][:, :, :at + t], cache[1][:, :, :at + t]
            k, v = (z[:, :, None].expand(-1, -1, heads // keys, -1, -1).flatten(1, 2) for z in (k, v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
            return self.o(y.transpose(1, 2).flatten(2))

    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.up = nn.Linear(d, inner, bias=False), nn.Linear(d, inner, bias=False)
            self.down = nn.Linear(inner, d, bias=False)

        def forward(self, x):
            return self.down(F.silu(self.gate(x)) * self.up(x))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2, self.attention, self.gated = nn.RMSNorm(d, 1e-5), nn.RMSNorm(d, 1e-5), Attention(), Gated()

        def forward(self, x, turns, cache=None, at=0):
            x = x + self.attention(self.n1(x), turns, cache, at)
            return x + self.gated(self.n2(x))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.norm, self.head = nn.Embedding(words, d), nn.RMSNorm(d, 1e-5), nn.Linear(d, words, bias=False)
            self.layers = nn.ModuleList(Layer() for _ in range(layers))

        def forward(self, x, turns, caches=None, at=0):
            x, t = self.words(x), x.shape[1]
            turns = turns[0][at:at + t].to(x.dtype), turns[1][at:at + t].to(x.dtype)
            for k, layer in enumerate(self.layers):
                x = layer(x, turns, None if caches is None else caches[k], at)
            return self.head(self.norm(x))

    def turned(x, turns):
        a, b = x.chunk(2, -1)
        return x * turns[0] + torch.cat((-b, a), -1) * turns[1]
    return Llama()


def turns_of(torch, n, per, device):
    """Returns cosines and sines of n places."""
    angles = torch.arange(n, device=device)[:, None] * 10000 ** (-torch.arange(0, per, 2, device=device) / per)
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


class Rank:
    """A process of a row: the package, its device, and lines that rank 0 prints."""

    def __init__(self, package, device, rank, ranks, path):
        self.package, self.rank, self.ranks = package, rank, ranks
        self.torch = importlib.import_module(package)
        self.dist = importlib.import_module(f"{package}.distributed")
        self.cuda = device == "cuda"
        self.device = self.torch.device(f"cuda:{rank}" if self.cuda else "cpu")
        if self.cuda:
            self.torch.cuda.set_device(self.device)
        else:
            self.torch.set_num_threads(1)
        small.DEVICE = str(self.device)
        self.dist.init_process_group("nccl" if self.cuda else "gloo", init_method=f"file://{path}", rank=rank, world_size=ranks)
        self.mesh = self.part("device_mesh").init_device_mesh(device, (ranks,))

    def part(self, name):
        return importlib.import_module(f"{self.package}.distributed.{name}")

    def say(self, text):
        if self.rank == 0:
            print(text, flush=True)

    def end(self):
        if self.cuda:
            self.torch.cuda.synchronize()

    def peak(self):
        """Returns the greatest memory of a rank in GB: tensors, and what is reserved."""
        if not self.cuda:
            return 0., 0.
        found = self.torch.tensor([self.torch.cuda.max_memory_allocated(), self.torch.cuda.max_memory_reserved()], device=self.device,
                                  dtype=self.torch.float64)
        self.dist.all_reduce(found, self.dist.ReduceOp.MAX)
        return tuple(x / 1e9 for x in found.tolist())


def train(r, sizes, compiled):
    """Trains a Llama under fully_shard; prints tokens a second and memory."""
    torch, F, fsdp = r.torch, r.torch.nn.functional, r.part("fsdp")
    torch.manual_seed(0)
    net = llama(torch, **sizes).to(r.device)
    r.say(f"{sum(p.numel() for p in net.parameters()) / 1e9:.3f} billion parameters")
    policy = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in net.layers:
        fsdp.fully_shard(layer, mesh=r.mesh, mp_policy=policy)
    fsdp.fully_shard(net, mesh=r.mesh, mp_policy=policy)
    if compiled:
        for layer in net.layers:
            layer.compile()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    batch, length = sizes["batch"], sizes["length"]
    torch.manual_seed(1 + r.rank)
    words = torch.randint(0, sizes["words"], (batch, length + 1), device=r.device)
    turns = turns_of(torch, length, sizes["d"] // sizes["heads"], r.device)
    losses = []

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(words[:, :-1], turns).flatten(0, 1).float(), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    for k in range(4):
        start = time.perf_counter()
        step()
        r.end()
        r.say(f"step {k}: {(time.perf_counter() - start) * 1e3:.0f} ms, loss {losses[-1].item():.4f}")
    if r.cuda:
        torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(10):
        r.dist.barrier()
        r.end()
        start = time.perf_counter()
        step()
        r.end()
        times.append(time.perf_counter() - start)
    start, steps = time.perf_counter(), 10
    for _ in range(steps):
        step()
    r.end()
    many = (time.perf_counter() - start) / steps
    tokens = r.ranks * batch * length
    allocated, reserved = r.peak()
    r.say(f"tokens a second: {tokens / many:.0f} of {steps} steps in a row ({many * 1e3:.1f} ms a step), {tokens / min(times):.0f} of the "
          f"best step ({min(times) * 1e3:.1f} ms); memory {allocated:.2f} GB, reserved {reserved:.2f} GB; loss {losses[-1].item():.4f}")


def decode(r, sizes, compiled):
    """Generates words by a Llama divided over the ranks, one sequence."""
    torch, p = r.torch, r.part("tensor.parallel")
    torch.manual_seed(0)
    with torch.device(r.device):
        net = llama(torch, **sizes).to(torch.bfloat16 if r.cuda else torch.float32)
    plan = {f"attention.{name}": p.ColwiseParallel() for name in "qkv"}
    plan.update({"attention.o": p.RowwiseParallel(), "gated.gate": p.ColwiseParallel(), "gated.up": p.ColwiseParallel(),
                 "gated.down": p.RowwiseParallel()})
    for layer in net.layers:
        p.parallelize_module(layer, r.mesh, plan)
    per, length, new = sizes["d"] // sizes["heads"], 128, 128
    turns = turns_of(torch, length + new, per, r.device)
    dtype = net.norm.weight.dtype
    caches = [[torch.zeros(1, sizes["keys"] // r.ranks, length + new, per, device=r.device, dtype=dtype) for _ in range(2)]
              for _ in net.layers]
    prompt = (torch.arange(length, device=r.device) * 7 % sizes["words"])[None]
    run = torch.compile(net) if compiled else net

    def generate(count):
        with torch.no_grad():
            word, words = net(prompt, turns, caches)[:, -1:].argmax(-1), []
            r.end()
            start = time.perf_counter()
            for k in range(count):
                word = run(word, turns, caches, length + k)[:, -1:].argmax(-1)
                words.append(word)
            found = torch.cat(words).flatten().tolist()
            return (time.perf_counter() - start) / count, found
    r.say(f"warm: {generate(8)[0] * 1e3:.2f} ms a word")
    generate(new)
    times, found = zip(*[generate(new) for _ in range(5)])
    r.say(f"words a second: {1 / min(times):.1f} of the best of {len(times)} texts ({min(times) * 1e3:.3f} ms a word), "
          f"{1 / sorted(times)[len(times) // 2]:.1f} of the middle one; first words {found[0][:6]}, "
          f"equal {all(f == found[0] for f in found)}")


def compiled_steps(r, sizes, _):
    """Steps of compiled modules beside uncompiled ones."""
    def shown(rows):
        if r.rank == 0:
            small.print_compiled(rows, r.dist.get_backend())
            sys.stdout.flush()
    small.compiled_times(r.torch, r.dist, 3 if sizes is SIZES["whole"] else 1, shown)


# name: (function, compiled, packages, seconds at most)
ROWS = {"fsdp": (train, False, ("cresset", "torch"), 100),
        "compiled": (compiled_steps, True, ("cresset",), 100),
        "decode": (decode, False, ("cresset", "torch"), 60),
        "fsdp-compiled": (train, True, ("cresset",), 80)}


def in_rank():
    _, _, row, package, device, rank, ranks, path, tiny = sys.argv
    r = Rank(package, device, int(rank), int(ranks), path)
    run, compiled, _, _ = ROWS[row]
    run(r, SIZES["tiny" if int(tiny) else "whole"], compiled)
    r.dist.barrier()
    r.dist.destroy_process_group()


def run_row(row, package, python, o, seconds):
    """Runs the ranks of a row, and prints what rank 0 says; ends them after these seconds.  Tells whether all ended well."""
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "1"}
    if package == "torch":
        env.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as folder:
        errors = [open(f"{folder}/{k}", "w+") for k in range(o.ranks)]
        ranks = [subprocess.Popen([python, __file__, "rank", row, package, o.device, str(k), str(o.ranks), f"{folder}/store",
                                   str(int(o.tiny))], stdout=subprocess.PIPE if k == 0 else errors[k], stderr=errors[k], env=env, text=True)
                 for k in range(o.ranks)]

        def end():
            for p in ranks:
                p.kill()
        timer = threading.Timer(seconds, end)
        timer.start()
        for line in ranks[0].stdout:
            print(f"  {row} {package}: {line}", end="", flush=True)
        # when one rank fails, the others may wait for it
        until = time.monotonic() + 10
        while any(p.poll() is None for p in ranks) and time.monotonic() < until:
            time.sleep(0.1)
        timer.cancel()
        late = [k for k, p in enumerate(ranks) if p.poll() is None]
        end()
        codes = [p.wait() for p in ranks]
        for k, (code, file) in enumerate(zip(codes, errors)):
            with file:
                file.seek(0)
                if code:
                    text = file.read()[-1500:]
                    print(f"  {row} {package}: rank {k} {'waited for another rank' if k in late else f'ended with {code}'}"
                          f"{f' (killed: limit of {seconds:.0f} s?)' if code == -9 and k not in late else ''}\n{text}", flush=True)
    return not any(codes)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--peer")
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--limit", type=float, default=300)
    parser.add_argument("--tiny", action="store_true")
    o = parser.parse_args()
    begun, failed = time.monotonic(), []
    for row in o.only.split(","):
        for package in ROWS[row][2]:
            if package == "torch" and not o.peer:
                continue
            left = o.limit - (time.monotonic() - begun)
            if left < 10:
                print(f"{row} {package}: not run, {left:.0f} s are left", flush=True)
                failed.append(f"{row} {package}")
                continue
            print(f"{row} {package} at {time.monotonic() - begun:.0f} s", flush=True)
            if not run_row(row, package, o.peer if package == "torch" else sys.executable, o, min(left - 5, ROWS[row][3])):
                failed.append(f"{row} {package}")
    print(f"{time.monotonic() - begun:.0f} s; failed: {', '.join(failed) or 'none'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    in_rank() if sys.argv[1:2] == ["rank"] else main()
