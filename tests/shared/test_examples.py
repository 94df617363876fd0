"""The programs of examples/ that say `import torch`; expected/ has the losses that torch
printed."""
import os
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "..", "examples")
DATA = os.path.join(os.environ["SHARED"], "data")


def losses_of(name, folder, *arguments):
    path = os.path.join(folder, "losses")
    done = subprocess.run([sys.executable, "-m", "cresset", "run", os.path.join(EXAMPLES, name + ".py"), *arguments,
                           "--steps", "20", "--losses", path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return read(path)


def read(path):
    with open(path) as file:
        return [float(line) for line in file]


def expected(name):
    return read(os.path.join(HERE, "expected", name + ".losses"))


def test_a_convolutional_network_learns_as_under_torch(tmp_path):
    got = losses_of("mnist_net", tmp_path, os.path.join(DATA, "mnist-t10k"))
    assert got == pytest.approx(expected("mnist_net"), rel=1e-4)


@pytest.mark.parametrize("attention", ["own", "fused"])
def test_a_transformer_learns_as_under_torch(tmp_path, attention):
    text = os.path.join(DATA, "tinyshakespeare", "input.txt")
    got = losses_of("char_transformer", tmp_path, text, "--write", "0", "--attention", attention)
    assert got == pytest.approx(expected("char_transformer"), rel=1e-4)
