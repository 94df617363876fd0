"""Times operators on an NVIDIA GPU beside a copy and, where it is installed, beside torch.

    python bench/cuda.py [NAME...]              only the rows whose names contain a NAME
    python bench/cuda.py --operators [NAME...]  operators at sizes that models use (operators.py), and optimizers
    python bench/cuda.py --programs [NAME...]   whole programs (programs.py); --compiled: compiled ones, too; --fast

Rows are strict: convolutions and products of float32 are not rounded to TF32, in both systems.  With --fast, both may
round convolutions, which is torch's default.  Other operators have the host's bits either way.  Rates count each large operand once.  Each system's time
is that of a call in a chain of 20 calls between two events, the median of 9 chains: a single call on an idle device has the 5 to 12 us in which
the host issues it and the events are recorded.  The rows of all systems are from one process, one after the other,
with equal inputs.  The last column is torch's time divided by ours; after --operators its geometric mean and the rows
below 0.9.

Each program runs in a new process.  Its row has the milliseconds of a step, our time divided by torch's, the
largest difference of the losses of the first steps, the peak of device memory, and, for each step of ours, how often
an operator ran on the host and how often the host waited for the device."""
import json
import math
import os
import statistics
import subprocess
import sys
import time

if __name__ != "__main__":
    raise ImportError("a program, not a module: torch imports cuda.bindings, and programs in this folder find cuda.py first")

import operators
import programs

import cresset as ours

try:
    import torch as peer
    if not peer.cuda.is_available():
        peer = None
except ImportError:
    peer = None

SIDE, WARM, RUNS, CALLS, CHAINS = 8192, 3, 20, 20, 9


def median(torch, f):
    times = []
    for _ in range(WARM):
        f()
    torch.cuda.synchronize()
    for _ in range(CHAINS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(CALLS):
            f()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / CALLS)
    return statistics.median(times)


def backward(torch, f, *inputs):
    """The gradients of f(*inputs), for one gradient of its result."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    y = f(*leaves)
    g = torch.ones_like(y)
    return lambda: torch.autograd.grad(y, leaves, g, retain_graph=True)


def rows(torch, dtype):
    """(name, large operands, function)"""
    torch.manual_seed(0)
    x = torch.randn(SIDE, SIDE, device="cuda").to(dtype)
    y = torch.randn(SIDE, SIDE, device="cuda").to(dtype)
    w = torch.ones(SIDE, device="cuda").to(dtype)
    functional = torch.nn.functional
    short = x.reshape(-1, 1024)
    yield "add", 3, lambda: x + y
    yield "gelu", 2, lambda: functional.gelu(x)
    yield "sum of rows", 1, lambda: x.sum(1)
    yield "sum of columns", 1, lambda: x.sum(0)
    yield "sum", 1, lambda: x.sum()
    yield "softmax", 2, lambda: x.softmax(1)
    yield "softmax, 1024 columns", 2, lambda: short.softmax(1)
    yield "softmax backward", 3, backward(torch, lambda t: t.softmax(1), x)
    yield "layer norm", 2, lambda: functional.layer_norm(x, (SIDE,), w, w)
    yield "layer norm, 1024 columns", 2, lambda: functional.layer_norm(short, (1024,), w[:1024], w[:1024])
    yield "layer norm backward", 3, backward(torch, lambda t, a, b: functional.layer_norm(t, (SIDE,), a, b), x, w, w)


def copy_rate(torch):
    x = torch.empty(1 << 26, device="cuda")
    y = torch.empty_like(x)
    return 2 * 4 * (1 << 26) / median(torch, lambda: y.copy_(x)) / 1e6


def measure(torch, dtype, only):
    found = {}
    for name, operands, f in rows(torch, getattr(torch, dtype)):
        if not only or any(word in name for word in only):
            found[name] = operands, median(torch, f)
        torch.cuda.synchronize()
    return found


def main(only):
    rate = copy_rate(ours)
    print(f"{ours.cuda.get_device_name()}: copy {rate:.0f} GB/s"
          + (f", torch {peer.__version__}: copy {copy_rate(peer):.0f} GB/s" if peer else ""))
    for dtype, item in (("float32", 4), ("bfloat16", 2)):
        mine = measure(ours, dtype, only)
        ours.cuda.empty_cache()
        theirs = measure(peer, dtype, only) if peer else {}
        if peer:
            peer.cuda.empty_cache()
        for name, (operands, ms) in mine.items():
            speed = operands * item * SIDE * SIDE / ms / 1e6
            line = f"{name} {dtype} (strict): {ms:.3f} ms, {speed:.0f} GB/s, {speed / rate:.2f} of copy"
            if name in theirs:
                line += f"; torch {theirs[name][1]:.3f} ms, {theirs[name][1] / ms:.2f}"
            print(line, flush=True)


# --- operators ---

SLOW = 0.9


def times(torch, only, host):
    """Milliseconds by name: between events; or, with `host`, until the call has returned."""
    found = {}
    torch.backends.cudnn.allow_tf32 = False
    for name, f in (operators.steps if host else operators.rows)(torch):
        if only and not any(word in name for word in only):
            continue
        found[name] = returned(torch, f) if host and name.startswith("small") else median(torch, f)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    return found


def returned(torch, f):
    every = []
    for _ in range(WARM + RUNS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        f()
        every.append((time.perf_counter() - start) * 1e3)
    return statistics.median(every[WARM:])


def run_operators(only):
    print(f"{ours.cuda.get_device_name()}, torch {peer.__version__ if peer else 'is missing'}; strict", flush=True)
    ratios = {}
    for host in (False, True):
        mine = times(ours, only, host)
        theirs = times(peer, only, host) if peer else {}
        for name, ms in mine.items():
            line = f"{name:60} {ms:9.4f} ms"
            if name in theirs:
                ratios[name] = theirs[name] / ms
                line += f"  torch {theirs[name]:9.4f}  {ratios[name]:6.2f}"
            print(line, flush=True)
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
        slow = [n for n in sorted(ratios, key=ratios.get) if ratios[n] < SLOW]
        print(f"{len(ratios)} rows, geometric mean {mean:.2f}; {len(slow)} below {SLOW}: " +
              ", ".join(f"{n} {ratios[n]:.2f}" for n in slow))


# --- programs ---

STEPS, SECONDS = 10, 1.5


def step_time(torch, step):
    """Milliseconds of a step: the least mean over groups of steps, within SECONDS."""
    best, begin = float("inf"), time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        start = time.perf_counter()
        for _ in range(STEPS):
            step()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / STEPS * 1e3)
    return best


def worker(library, name, compiled):
    """Runs one program and prints its figures as a line of JSON; `#step` on standard error encloses one step."""
    torch = ours if library == "ours" else peer
    torch.backends.cudnn.allow_tf32 = bool(os.environ.get("BENCH_FAST"))
    step = programs.PROGRAMS[name](torch, torch.compile if compiled else None)
    losses = [float(step()) for _ in range(3)]
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    print("#step", file=sys.stderr, flush=True)
    step()
    print("#step", file=sys.stderr, flush=True)
    if os.environ.get("CR_LOG"):
        return
    torch.cuda.reset_peak_memory_stats()
    ms = step_time(torch, step)
    print(json.dumps({"ms": ms, "losses": losses, "gb": torch.cuda.max_memory_allocated() / 1e9}))


def run_worker(library, name, compiled, log=""):
    command = [sys.executable, __file__, "--worker", library, name, "compiled" if compiled else ""]
    try:
        return subprocess.run(command, env=dict(os.environ, CR_LOG=log), capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 1, "", f"{late}")


def figures(library, name, compiled):
    done = run_worker(library, name, compiled)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or [f"signal {-done.returncode}"])[-1][:150]}
    return json.loads(done.stdout.strip().splitlines()[-1])


def events(name):
    """(what ran on the host, waits) in one step."""
    parts = run_worker("ours", name, False, "backend:2,cuda:2").stderr.split("#step\n")
    lines = parts[1].splitlines() if len(parts) == 3 else []
    host = [line.split()[1] for line in lines if line.endswith("is computed on the host")]
    return host, sum("waits for the device" in line for line in lines)


def show(name, way, mine, theirs):
    if "error" in mine or "error" in theirs:
        return f"{name:16} {way:8} ours: {mine.get('error', mine.get('ms'))}; torch: {theirs.get('error', theirs.get('ms'))}"
    apart = max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(mine["losses"], theirs["losses"]))
    return (f"{name:16} {way:8} {mine['ms']:9.3f} ms  torch {theirs['ms']:9.3f}  ratio {mine['ms'] / theirs['ms']:7.2f}  "
            f"losses {apart:.0e}  {mine['gb']:.2f} GB, torch {theirs['gb']:.2f}")


def run_programs(only):
    compiled, fast = "--compiled" in only, "--fast" in only
    only = [word for word in only if not word.startswith("--")]
    os.environ["BENCH_FAST"] = "1" if fast else ""
    print(f"{ours.cuda.get_device_name()}, torch {peer.__version__ if peer else 'is missing'}; {'fast' if fast else 'strict'}", flush=True)
    for name in programs.PROGRAMS:
        if only and not any(word in name for word in only):
            continue
        for way in ("eager", "compiled") if compiled else ("eager",):
            mine = figures("ours", name, way == "compiled")
            theirs = figures("torch", name, way == "compiled") if peer else {"error": "missing"}
            print(show(name, way, mine, theirs), flush=True)
        host, waits = events(name)
        print(f"{'':16} {len(host)} operators on the host, {waits} waits"
              + "".join(f"; {n} {host.count(n)}" for n in sorted(set(host), key=lambda n: -host.count(n))[:12]), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], sys.argv[3], bool(sys.argv[4]))
    elif sys.argv[1:2] == ["--operators"]:
        run_operators(sys.argv[2:])
    elif sys.argv[1:2] == ["--programs"]:
        run_programs(sys.argv[2:])
    else:
        main(sys.argv[1:])
