"""Programs whose address space ends: a call that gets no memory raises, and the process goes on.

`python test_out_of_memory.py SEED` runs one of them.
"""
import random
import resource
import subprocess
import sys

import pytest


def programs(torch, draw):
    f, kept = torch.nn.functional, []
    heads = lambda: torch.randn(2, 4, 64, 32)  # noqa: E731
    return [
        lambda: torch.randn(300, 300) @ torch.randn(300, 300),
        lambda: f.conv2d(torch.randn(2, 8, 32, 32), torch.randn(16, 8, 3, 3)),
        lambda: torch.nn.Linear(256, 256)(torch.randn(64, 256)).sum().backward(),
        lambda: torch.randn(200000).sort(), lambda: torch.randn(1 << 20).exp().sum(),
        lambda: torch.ones(300000, dtype=torch.uint8).sum(), lambda: torch.linalg.svd(torch.randn(60, 60)),
        lambda: f.scaled_dot_product_attention(heads(), heads(), heads()), lambda: torch.fft.fft(torch.randn(4096)),
        lambda: kept.append(torch.randn(1 << draw.randrange(10, 22))),
        lambda: torch.nn.LSTM(32, 32)(torch.randn(10, 2, 32)),
        lambda: torch.linalg.solve(torch.randn(50, 50), torch.randn(50))]


def run(seed):
    import cresset as torch
    draw = random.Random(seed)
    returned, calls = 0, programs(torch, draw)
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    more = draw.choice([1, 2, 4, 8, 16, 32, 64, 128]) << 20
    resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))
    for _ in range(100):
        try:
            draw.choice(calls)()
            returned += 1
        except (RuntimeError, MemoryError, OSError) as e:
            del e
    print(f"returned {returned} of 100")


@pytest.mark.parametrize("seed", range(8))
def test_a_process_whose_address_space_ends_goes_on(seed):
    done = subprocess.run([sys.executable, __file__, str(seed)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-1500:]
    assert done.stdout.startswith("returned ")


if __name__ == "__main__":
    run(int(sys.argv[1]))
