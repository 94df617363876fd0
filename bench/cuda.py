"""Times operators on an NVIDIA GPU beside a copy and, where it is installed, beside torch.

    python bench/cuda.py [NAME...]   only the rows whose names contain a NAME

Every row is strict: the results have the host's bits.  Rates count each large operand once.  Each system's time
is the median of 20 runs between two events.  The rows of all systems are from one process, one after the other,
with equal inputs.  The last column is torch's time divided by ours."""
import statistics
import sys

import cresset as ours

try:
    import torch as peer
    if not peer.cuda.is_available():
        peer = None
except ImportError:
    peer = None

SIDE, WARM, RUNS = 8192, 3, 20


def median(torch, f):
    times = []
    for _ in range(WARM + RUNS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        f()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times[WARM:])


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


if __name__ == "__main__":
    main(sys.argv[1:])
