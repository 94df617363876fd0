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


@pytest.mark.parametrize("name", sorted(f[:-3] for f in os.listdir(PROGRAMS) if f.endswith(".py")))
def test_a_program_prints_what_torch_prints(name):
    done = subprocess.run([sys.executable, "-W", "ignore", "-m", "cresset", "run", os.path.join(PROGRAMS, name + ".py")],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(HERE, "expected", name + ".txt")) as f:
        expected = f.read()
    assert NUMBER.sub("#", done.stdout) == NUMBER.sub("#", expected)
    got, want = ([float(x) for x in NUMBER.findall(text)] for text in (done.stdout, expected))
    assert got == pytest.approx(want, rel=TOLERANCE.get(name, 1e-4), abs=1e-4)
