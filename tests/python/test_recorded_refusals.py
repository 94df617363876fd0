"""Refusals and warnings as torch 2.13 words them (recorded in tests/data/refusals.txt: call | class | whole text)."""
import subprocess
import sys
from pathlib import Path

import pytest

import cresset as torch

LINES = (Path(__file__).parents[1] / "data" / "refusals.txt").read_text().splitlines()


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.split(" | ")[0])
def test_refusal(line):
    call, kind, text = line.split(" | ")
    with pytest.raises(Exception) as raised:
        eval(call)
    assert (type(raised.value).__name__, str(raised.value)) == (kind, text.replace("\\n", "\n"))


@pytest.mark.parametrize("loss", ["huber_loss", "soft_margin_loss"])
def test_a_loss_has_the_dtype_of_its_input(loss):
    x, y = torch.rand(3), torch.rand(3, dtype=torch.float64)
    for reduction in ("mean", "sum", "none"):
        out = getattr(torch.nn.functional, loss)(x, y, reduction=reduction)
        want = getattr(torch.nn.functional, loss)(x.double(), y, reduction=reduction)
        assert out.dtype == torch.float32 and torch.allclose(out.double(), want, atol=1e-6)


def test_warnings_of_histories_that_become_numbers_or_cycles():
    text = """
import warnings
import cresset as torch
warnings.simplefilter("always")
x = torch.ones(1, requires_grad=True)
with torch.no_grad():
    float(x), complex(x)
int(x), x.item(), x.tolist(), float(x.detach())
torch.autograd.grad((x * x).sum(), x, create_graph=True)
print("silent until here", flush=True)
(x * x).sum().backward(create_graph=True)
float(x * 2)
(x * x).sum().backward(create_graph=True)
complex(x)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if "UserWarning" in line]
    assert len(lines) == 2 and done.stdout == "silent until here\n"
    assert "Using backward() with create_graph=True will create a reference cycle between" in lines[0]
    assert "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior." in lines[1]
