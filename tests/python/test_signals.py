"""Signals may arrive at any time: while a library computes, too.

A signal's frame overwrites whatever is below the stack pointer, which a kernel must leave on the stack.
Each process computes and allocates while a timer sends SIGNALS signals.  (Python's own handlers run
between steps, and once for several signals; each signal is delivered at once.)"""
import os
import subprocess
import sys

import pytest

SIGNALS = int(os.environ.get("SIGNALS", 600))
FAMILIES = {
    "square products": "a = [torch.randn(n, n) for n in (130, 257, 700)]; step = lambda: [x @ x for x in a]",
    "transposed products": "a, b = torch.randn(300, 130), torch.randn(300, 257); step = lambda: (a.t() @ b, b.t() @ a)",
    "tall products": "a, b = torch.randn(1000, 500), torch.randn(500, 48); step = lambda: (a @ b, b.t() @ a.t())",
    "products of slices": "a = torch.randn(320, 320)[7:307, 3:303]; step = lambda: a @ a",
    "narrow products": "a, b = torch.randn(3, 900), torch.randn(900, 900); step = lambda: (a @ b, a @ b.t(), b @ a[0])",
    "batches": "a = torch.randn(6, 130, 140); step = lambda: torch.bmm(a, a.transpose(1, 2))",
    "addmm": "a, c = torch.randn(256, 256), torch.randn(256); step = lambda: torch.addmm(c, a, a, beta=0.5, alpha=2.0)",
    "float64": "a = torch.randn(300, 300, dtype=torch.float64); step = lambda: (a @ a, torch.linalg.inv(a))",
    "complex": "a = torch.randn(150, 150, dtype=torch.complex64); step = lambda: a @ a",
    "bfloat16": "a = torch.randn(300, 300).bfloat16(); step = lambda: a @ a",
    "half": "a = torch.randn(200, 200).half(); step = lambda: a @ a",
    "convolutions": "x = torch.randn(4, 32, 20, 20, requires_grad=True); net = nn.Sequential(nn.Conv2d(32, 32, 3), nn.Conv2d(32, 64, 1), "
                    "nn.Conv2d(64, 64, 3, groups=64), nn.ConvTranspose2d(64, 8, 4, stride=2)); step = lambda: net(x).sum().backward()",
    "one channel": "x = torch.randn(8, 1, 28, 28, requires_grad=True); net = nn.Conv2d(1, 32, 5); step = lambda: net(x).sum().backward()",
    "bfloat16 convolutions": "x = torch.randn(2, 16, 16, 16).bfloat16(); net = nn.Conv2d(16, 32, 3).bfloat16(); step = lambda: net(x)",
    "recurrent layers": "x = torch.randn(12, 8, 64); net = nn.LSTM(64, 128); step = lambda: net(x)[0].sum().backward()",
    "attention": "x = torch.randn(2, 4, 65, 32, requires_grad=True); step = lambda: nn.functional.scaled_dot_product_attention(x, x, x).sum().backward()",
    "compiled": "net = nn.Sequential(nn.Linear(130, 200), nn.GELU(), nn.LayerNorm(200), nn.Linear(200, 130)); x = torch.randn(200, 130); "
                "f = torch.compile(net); step = lambda: f(x).sum().backward()",
    "rows and scans": "x = torch.randn(300, 301); step = lambda: (x.softmax(1), x.cumsum(0), x.sort()[0], x.sum(0), torch.fft.rfft(x))",
}
PROGRAM = """
import signal, time
import cresset as torch
from cresset import nn
torch.manual_seed(0)
torch.set_num_threads({threads})
{setup}
noticed = []
signal.signal(signal.SIGALRM, lambda number, frame: noticed.append(number))
step()
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
end = time.monotonic() + {signals} * 0.0003
while time.monotonic() < end:
    step()
    kept = [bytearray(n) for n in range(1, 900, 37)]
signal.setitimer(signal.ITIMER_REAL, 0)
print(len(noticed))
"""


@pytest.mark.parametrize("family", FAMILIES)
def test_signals_disturb_no_kernel(family):
    program = PROGRAM.format(setup=FAMILIES[family], threads=1 + len(family) % 2, signals=SIGNALS)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100 + SIGNALS / 100)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 0
