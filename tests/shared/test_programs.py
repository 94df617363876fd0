"""Programs that say `import torch`, run unchanged; expected/ has the output of torch."""
import os
import re
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(os.environ["SHARED"], "programs")
NUMBER = re.compile(r"[-+]?\d+\.\d+(?:e[-+]?\d+)?")
# A network of two layers, trained by hand, amplifies rounding of its products 500 times.
TOLERANCE = {"tensor_net": 2e-2}
# The numbers that this program prints are seconds and their ratio; only its words are compared.
PRINTS_SECONDS = {"kmeans_numpy"}
NAMES = sorted(f[:-3] for f in os.listdir(PROGRAMS) if f.endswith(".py"))


def expected_output(name):
    """What torch printed: a file beside the program, or in expected/."""
    path = os.path.join(PROGRAMS, name + ".out")
    if not os.path.exists(path):
        path = os.path.join(HERE, "expected", name + ".txt")
    with open(path) as f:
        return f.read()


@pytest.mark.parametrize("name", NAMES)
def test_a_program_prints_what_torch_prints(name, tmp_path):
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "cresset", "run", os.path.join(PROGRAMS, name + ".py")],
                          capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    expected = expected_output(name)
    assert NUMBER.sub("#", done.stdout) == NUMBER.sub("#", expected)
    if name in PRINTS_SECONDS:
        return
    got, want = ([float(x) for x in NUMBER.findall(text)] for text in (done.stdout, expected))
    assert got == pytest.approx(want, rel=TOLERANCE.get(name, 1e-4), abs=1e-4)
