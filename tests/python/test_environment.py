"""Variables of the environment with nonsense values, alone and all together."""
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VARIABLES = re.findall(r"^CR_ENV\((\w+),", (ROOT / "src" / "base" / "env.def").read_text(), re.M)
OPENMP = ["OMP_THREAD_LIMIT", "OMP_STACKSIZE", "OMP_PROC_BIND", "OMP_DYNAMIC", "OMP_SCHEDULE"]
NONSENSE = ["abc", "-5", "99999999999999999999", "4,2", "1e9", "/nonexistent/folder", " ", "\N{SNOWMAN}"]

PROGRAM = """
import cresset as torch
import cresset.nn.functional as F

def f(x):
    return F.gelu(x * 1.5 + 1).sum(1) + (x @ x)[0]

torch.manual_seed(0)
x = torch.randn(200, 200)
g = torch.compile(f)
results = [f(x), F.conv2d(torch.randn(2, 3, 20, 20), torch.randn(8, 3, 3, 3)), x.softmax(1), g(x), g(x)]
torch._C._jit_wait(60.0)
print(*(float(r.double().sum()) for r in results + [g(x)]))
"""


def run(folder, program=PROGRAM, python=sys.executable, **variables):
    env = {k: v for k, v in os.environ.items() if k not in VARIABLES + OPENMP}
    done = subprocess.run([python, "-c", program], env={**env, "CR_CACHE": str(folder / "cache"), **variables},
                          cwd=folder, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return run(tmp_path_factory.mktemp("usual"))[0]


@pytest.mark.parametrize("value", NONSENSE)
def test_results_are_the_usual_ones_when_every_variable_is_nonsense(tmp_path, expected, value):
    assert run(tmp_path, **dict.fromkeys(VARIABLES + OPENMP, value))[0] == expected


THREADS = "import cresset as torch; print(torch.get_num_threads(), torch.exp(torch.zeros(1)).item())"


@pytest.mark.parametrize("name, value, message", [
    ("CR_THREADS", "many", "cresset: CR_THREADS='many' is ignored because it is not an integer\n"),
    ("CR_THREADS", "-5", "cresset: CR_THREADS='-5' is ignored because it is less than one\n"),
    ("CR_THREADS", "9" * 20, f"cresset: CR_THREADS='{'9' * 20}' is ignored because it is too large\n"),
    ("CR_ISA", "avx", "cresset: CR_ISA='avx' is ignored because it is none of base, avx2 and avx512\n"),
])
def test_a_variable_that_is_ignored_is_said_once(tmp_path, name, value, message):
    usual = run(tmp_path, THREADS)
    assert usual[1] == "" and run(tmp_path, THREADS, **{name: value}) == (usual[0], message)


@pytest.mark.parametrize("value, threads", [("3", 3), ("3,2", 3)])
def test_the_first_number_of_a_list_of_threads_counts(tmp_path, value, threads):
    assert run(tmp_path, THREADS, OMP_NUM_THREADS=value) == (f"{threads} 1.0\n", "")


PROCESSOR = """
import cresset as torch
x, y = torch.arange(12.).view(3, 4) / 8, torch.arange(8.).view(4, 2) / 4
print(torch.backends.cpu.get_cpu_capability())
print((x.exp() * 0 + x).sum().item(), (x @ y).tolist(), (x.double() @ y.double()).tolist())
print(torch.nn.functional.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 3, 3)).tolist())
torch._dynamo.config.deferred_calls = 0
f = torch.compile(lambda x: (x * 2 + 1).sum(1))
f(x), f(x)
torch._C._jit_wait(120.0)
print(f(x).tolist(), torch._C._jit_counts()["failed"])
"""


@pytest.mark.skipif(not shutil.which("qemu-x86_64"), reason="needs qemu-x86_64 (Debian: qemu-user)")
def test_a_processor_without_avx_has_the_same_results(tmp_path):
    emulator = tmp_path / "python"
    emulator.write_text(f"#!/bin/sh\nexec qemu-x86_64 -cpu Conroe {sys.executable} \"$@\" 2>/dev/null\n")
    emulator.chmod(0o755)
    capability, *results = run(tmp_path, PROCESSOR, python=str(emulator))[0].splitlines()
    assert capability == "DEFAULT"
    assert results == run(tmp_path, PROCESSOR)[0].splitlines()[1:]


@pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="a sanitizer's library has storage of its own")
def test_storage_of_threads_fits_what_the_loader_keeps_for_late_libraries():
    """The loader keeps about 1.6 KB for all libraries that are loaded late; scikit-learn's libgomp takes a part of it."""
    from cresset import _C
    with open(_C.__file__, "rb") as file:
        elf = file.read(4096)
    at, size, count = struct.unpack_from("<Q", elf, 32)[0], *struct.unpack_from("<HH", elf, 54)
    headers = [struct.unpack_from("<IIQQQQQQ", elf, at + i * size) for i in range(count)]
    assert sum(h[6] for h in headers if h[0] == 7) <= 1344  # PT_TLS
