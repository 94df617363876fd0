"""What the package says where a part of CUDA is missing, old or broken, and that it goes on."""
import ctypes
import os
import subprocess
import sys

import pytest

import cresset as torch

FAKE = torch.cuda.is_available() and torch.cuda.get_device_name() == "Fake GPU"
pytestmark = pytest.mark.skipif(not FAKE, reason="stands in for missing parts")


def said(tmp_path, expression, without=(), **environment):
    """What an expression raises, as "class: first line", and then whether the device computes."""
    for name in os.listdir(os.environ["CR_CUDA"]):
        if not name.startswith(tuple(without)):
            shown = tmp_path / name
            shown.is_symlink() or shown.symlink_to(os.path.join(os.path.abspath(os.environ["CR_CUDA"]), name))
    code = f"""
import cresset as torch
try:
    print("none", {expression})
except Exception as error:
    print(f"{{type(error).__name__}}: {{str(error).splitlines()[0]}}")
print((torch.ones(2) + 1).tolist(), end=" ")
if torch.cuda.is_available():
    print((torch.ones(2, device="cuda") + 1).tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, CR_CUDA=str(tmp_path), CR_CACHE=str(tmp_path / "cache"), **environment),
                          capture_output=True, text=True, timeout=300, check=True)
    error, _, rest = done.stdout.partition("\n")
    assert rest.split("\n")[0] in ("[2.0, 2.0] ", "[2.0, 2.0] [2.0, 2.0]")
    return error


def skip_if_installed(library):
    """The loader finds another one."""
    for name in (f"{library}.so", f"{library}.so.1", f"{library}.so.9", f"{library}.so.12", f"{library}.so.13"):
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        pytest.skip(f"{name} is installed")


MADE = 'torch.ones(1, device="cuda")'


def test_no_driver(tmp_path):
    skip_if_installed("libcuda")
    assert said(tmp_path, MADE, ("lib",)) == "AssertionError: Torch not compiled with CUDA enabled"


def test_an_old_driver(tmp_path):
    assert said(tmp_path, MADE, FAKE_CUDA_VERSION="11040").startswith(
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver")


def test_a_driver_that_does_not_start(tmp_path):
    assert said(tmp_path, MADE, FAKE_CUDA_INIT="999").startswith("RuntimeError: Unexpected error from cuInit(). Error 999: ")


def test_no_device(tmp_path):
    assert said(tmp_path, MADE, FAKE_CUDA_INIT="100") == "RuntimeError: No CUDA GPUs are available"


MISSING = [("libcublasLt", 'torch.ones(3, 3, device="cuda") @ torch.ones(3, 3, device="cuda")', "matmul"),
           ("libcublasLt", 'torch.nn.functional.linear(torch.ones(3, 3, device="cuda"), torch.ones(3, 3, device="cuda"))', "linear"),
           ("libcudnn", 'torch.nn.functional.conv2d(torch.ones(1, 1, 5, 5, device="cuda"), torch.ones(1, 1, 3, 3, device="cuda"))', "conv2d"),
           ("libcufft", 'torch.fft.rfft(torch.ones(4, device="cuda"))', "fft_rfft")]


@pytest.mark.parametrize("library, expression, name", MISSING)
def test_a_missing_library_is_named(library, expression, name, tmp_path):
    skip_if_installed(library)
    error = said(tmp_path, expression, (library,))
    assert error.startswith(f"NotImplementedError: Could not run 'aten::{name}' with arguments from the 'CUDA' backend. It needs ")
    assert f"{library}.so was not found." in error


@pytest.mark.parametrize("library, expression, name", MISSING)
def test_the_host_computes_where_it_may(library, expression, name, tmp_path):
    assert said(tmp_path, f"({expression}).device.type == 'cuda'", (library,), CR_HOST_FALLBACK="1") == "none True"


def test_wheels_are_found_where_python_finds_packages(tmp_path):
    """The extra `cuda` installs them beside this package, wherever that is."""
    names = ("libnvrtc", "libcublasLt", "libcudnn", "libcufft")
    for name in os.listdir(os.environ["CR_CUDA"]):
        folder = tmp_path / "site/nvidia" / ("cudnn" if name.startswith("libcudnn") else "cu13") / "lib"
        if name.startswith(names):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(os.path.join(os.path.abspath(os.environ["CR_CUDA"]), name))
    (tmp_path / "driver").mkdir()
    path = os.pathsep.join([os.path.dirname(os.path.dirname(torch.__file__)), "relative", str(tmp_path / "site")])
    for _, expression, _ in MISSING:
        assert said(tmp_path / "driver", f"({expression}).device.type", names, PYTHONPATH=path) == "none cuda"


def test_products_of_integers_need_no_library(tmp_path):
    made = 'torch.ones(3, 3, device="cuda", dtype=torch.int64)'
    assert said(tmp_path, f"({made} @ {made}).sum().item()", ("libcublas",)) == "none 27"


def test_a_refused_call_is_not_computed_on_the_host(tmp_path):
    """2^46 multiplications, which the host would not end."""
    skip_if_installed("libcudnn")
    big = 'torch.zeros(1, 1, 1 << 13, 1 << 12, device="cuda")'
    assert "It needs cuDNN" in said(tmp_path, f"torch.nn.functional.conv2d({big}, {big}, padding=(1 << 11, 1 << 11))", ("libcudnn",))
